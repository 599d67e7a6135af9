"""Every request that a document makes with curl is taken by a `rota dev`, and so are the commands beside it.

Documents whose commands come with what they print (`console`) are typed whole by `test_tutorial.py`. In the blocks that
are looked at here, a number that the reader copies from an answer is taken from it.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.interfaces.cli.main import run
from tests.e2e.test_dev import Running, dev
from tests.support.cluster import bare_environment
from tests.support.servers.process import free_port
from tests.support.typed import ROOT

pytestmark = pytest.mark.timeout(180)
BLOCK = re.compile(r"```(?:bash|sh)\n(.*?)```", re.DOTALL)
WITH_CURL = re.compile(r"\b(curl|call) ")  # or by the alias that the guide makes
STREAM = "curl -N"  # goes on until it is left
USUAL_URL = "http://127.0.0.1:8420"


def list_documents() -> Iterator[str]:
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if any("curl " in block for block in BLOCK.findall(path.read_text("utf-8"))):
            yield str(path.relative_to(ROOT))


def list_commands(document: str) -> list[str]:
    blocks = BLOCK.findall((ROOT / document).read_text("utf-8"))
    return "".join(block for block in blocks if WITH_CURL.search(block)).replace("\\\n", " ").splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dev")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    with dev(folder, "--port", str(free_port())) as running:
        yield running


class Reader:
    """Types what a document says, and knows the last answer."""

    def __init__(self, server: Running, folder: Path) -> None:
        self._folder = folder
        self._url = server.url
        path = f"{Path(sys.executable).parent}:{bare_environment()['PATH']}"
        self._variables = {**bare_environment(), "PATH": path, "ROTA_URL": server.url, "ROTA_TOKEN": server.token}
        self._before = ["shopt -s expand_aliases"]
        self._answer = ""

    def type(self, command: str) -> None:
        if command.startswith("rota "):
            assert run(shlex.split(command, comments=True)[1:]) == 0, command
        elif command.startswith("ID="):
            self._before.append(f"ID={json.loads(self._answer)['id']}")
        elif command.startswith("alias "):
            self._before.append(command.replace("curl ", "curl --fail-with-body "))
        elif command.startswith(STREAM):
            self._open(command)
        else:
            self._answer = self._ask(command.replace(USUAL_URL, self._url))

    def _ask(self, command: str) -> str:
        said = self._start(re.sub("^curl ", "curl --fail-with-body ", command))
        printed, problem = said.communicate(timeout=60)
        assert said.returncode == 0, f"{command}\n{printed}\n{problem}"
        return printed

    def _open(self, command: str) -> None:
        with self._start(f"LAST=m1; exec {command}") as reading:
            assert reading.stdout is not None
            first = reading.stdout.readline()
            reading.terminate()
        assert first.startswith("retry: "), f"{command}\n{first}"

    def _start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(  # noqa: S603 what our documents say
            ["/bin/bash", "-c", "\n".join([*self._before, command])],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            env=self._variables,
        )


@pytest.mark.parametrize("document", list(list_documents()))
def test_what_a_document_asks_for_with_curl_is_done(
    document: str, server: Running, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_URL", server.url)
    monkeypatch.setenv("ROTA_TOKEN", server.token)
    reader = Reader(server, folder)
    commands = [command for command in list_commands(document) if command.strip()]
    for command in commands:
        reader.type(command)
    assert any("curl " in command for command in commands)
