"""The example of a service over gRPC, and the commands of its guide, as a newcomer would run them."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import bare_environment
from tests.support.patience import PATIENCE_S
from tests.support.servers.process import free_port

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "grpc_service"
GUIDE = ROOT / "docs" / "guides" / "call-your-grpc-service.md"
BLOCK = re.compile(r"```bash\n(.*?)```", re.DOTALL)
pytestmark = pytest.mark.timeout(180)


@contextmanager
def running(command: list[str], folder: Path, *, until: str, **variables: str) -> Iterator[str]:
    """A program in the background; what it said until it was ready."""
    environment = {**bare_environment(), **variables}
    process = subprocess.Popen(  # noqa: S603 ours
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    said = ""
    try:
        for line in process.stdout:
            said += line
            if until in line:
                break
        assert until in said, said
        yield said
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def run(command: list[str], folder: Path, **variables: str) -> str:
    ran = subprocess.run(  # noqa: S603 ours
        command, cwd=folder, env={**bare_environment(), **variables}, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_commands_of_the_guide_do_what_it_says(tmp_path: Path) -> None:
    commands = [line for block in BLOCK.findall(GUIDE.read_text("utf-8")) for line in block.splitlines() if line]
    service, dev, submit, logs = commands[:4]
    path = f"{Path(sys.executable).parent}:{bare_environment().get('PATH', '')}"
    place, port = f"127.0.0.1:{free_port()}", str(free_port())

    def spell(command: str) -> list[str]:
        words = shlex.split(command.replace("127.0.0.1:50051", place))
        words[0] = str(Path(sys.executable).parent / words[0])
        return [str(ROOT / word) if word.startswith("examples/") else word for word in words]

    with (
        running(spell(service), tmp_path, until="images at"),
        running([*spell(dev), "--port", port], tmp_path, until="rota top", PATH=path),
    ):
        printed = run(spell(submit), tmp_path, PATH=path)  # it finds the server and the token of the folder
        assert printed.splitlines() == [
            "SUCCESS 1 {'thumbnail': 'cat.jpg?w=200', 'attempt': 1}",
            "SUCCESS 2 {'thumbnail': 'cat.jpg?w=300', 'attempt': 2}",
            "FAILED 1 9000 pixels are too many",
        ]
        assert "FAILED" in run(spell(logs), tmp_path, PATH=path)
