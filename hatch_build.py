"""Makes the Python code of proto/ when Rota is built or installed from a checkout: `python hatch_build.py` alone does
it again. None of it is committed; an sdist carries it, so that installing one needs no compiler.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Code from this release runs with protobuf 6.31.1 and later; a newer compiler would ask users for a newer library.
GENERATOR = "grpcio-tools==1.76.0"
PACKAGE = "rota/_proto"


class ProtoBuildHook(BuildHookInterface[Any]):
    """Called by hatchling for wheels, sdists and editable installs."""

    def dependencies(self) -> list[str]:
        return [] if _is_generated(Path(self.root)) else [GENERATOR]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if not _is_generated(root):
            generate(root)


def _is_generated(root: Path) -> bool:
    """Whether this is an sdist, which has what was made; in a checkout it may be stale."""
    return (root / "PKG-INFO").exists() and (root / "src" / PACKAGE).exists()


def generate(root: Path) -> None:
    """Compile every file below proto/rota to src/rota/_proto, with stubs for type checkers."""
    from importlib.resources import files

    from grpc_tools import protoc  # here: it is only installed once `dependencies` has been asked

    source, target = root / "proto" / "rota", root / "src"
    names = sorted(path.relative_to(source) for path in source.rglob("*.proto"))
    # The virtual path makes the generated modules import each other as rota._proto.….
    places = [f"-I{PACKAGE}={source}", f"-I{files('grpc_tools') / '_proto'}"]
    outputs = [f"--python_out={target}", f"--pyi_out={target}"]
    arguments = ["protoc", *places, *outputs, *(f"{PACKAGE}/{name.as_posix()}" for name in names)]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed; what it said is above")
    for folder in {target / PACKAGE / parent for name in names for parent in name.parents}:
        (folder / "__init__.py").touch()


if __name__ == "__main__":
    generate(Path(__file__).parent)
    sys.exit(0)
