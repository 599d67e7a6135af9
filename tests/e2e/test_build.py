"""What is shipped: the wheel and the sdist carry the code that was made from proto/."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[2]
MADE = {"rota/_proto/v1/task_service_pb2.py", "rota/_proto/executor/v1/executor_pb2.py", "rota/_proto/__init__.py"}


def build(folder: Path, kind: str) -> Path:
    command = [str(Path(sys.executable).parent / "hatchling"), "build", "-t", kind, "-d", str(folder / "dist")]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)  # noqa: S603 ours
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return next((folder / "dist").iterdir())


def test_code_is_made_from_a_clean_checkout_and_an_sdist_needs_no_compiler(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in ("src/rota/__about__.py", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    shutil.copytree(ROOT / "proto", checkout / "proto")
    sdist = build(checkout, "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = next(tmp_path.glob("rota-*"))
    hook = unpacked / "hatch_build.py"
    hook.write_text(hook.read_text("utf-8").replace("from grpc_tools import protoc", "raise SystemExit"), "utf-8")
    with ZipFile(build(unpacked, "wheel")) as wheel:
        assert set(wheel.namelist()) >= MADE
