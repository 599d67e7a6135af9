"""What is shipped: the wheel and the sdist carry the code that was made from proto/, and the console."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".venv" / "console-tools"  # node, once `make console` has run
MADE = {"rota/_proto/v1/task_service_pb2.py", "rota/_proto/executor/v1/executor_pb2.py", "rota/_proto/__init__.py"}


def build(folder: Path, kind: str, *, tools: Path | None = None) -> Path:
    command = [str(Path(sys.executable).parent / "hatchling"), "build", "-t", kind, "-d", str(folder / "dist")]
    environment = os.environ | ({} if tools is None else {"PYTHONPATH": str(tools)})
    ran = subprocess.run(  # noqa: S603 ours
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return next((folder / "dist").iterdir())


def a_checkout(folder: Path) -> Path:
    """The little that a build needs, without the console."""
    for name in ("src/rota/__about__.py", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "proto", folder / "proto")
    return folder


def unpack(sdist: Path, folder: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.glob("rota-*"))


def test_code_is_made_from_a_clean_checkout_and_an_sdist_needs_no_compiler(tmp_path: Path) -> None:
    unpacked = unpack(build(a_checkout(tmp_path / "checkout"), "sdist"), tmp_path)
    hook = unpacked / "hatch_build.py"
    hook.write_text(hook.read_text("utf-8").replace("from grpc_tools import protoc", "raise SystemExit"), "utf-8")
    with ZipFile(build(unpacked, "wheel")) as wheel:
        assert set(wheel.namelist()) >= MADE


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_console_is_built_into_the_sdist_and_its_wheel_needs_no_node(tmp_path: Path) -> None:
    if not TOOLS.exists():
        pytest.skip("node is not there: make console")
    checkout = a_checkout(tmp_path / "checkout")
    shutil.copytree(ROOT / "web", checkout / "web", ignore=shutil.ignore_patterns("node_modules", "dist"))
    unpacked = unpack(build(checkout, "sdist", tools=TOOLS), tmp_path)
    with ZipFile(build(unpacked, "wheel")) as wheel:
        names = wheel.namelist()
    assert "rota/_console/index.html" in names
    assert any(name.startswith("rota/_console/assets/index-") and name.endswith(".js.gz") for name in names)
    assert not [name for name in names if "node_modules" in name or name.startswith("web/")]
