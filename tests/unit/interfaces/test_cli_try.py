"""The last line of every error is a command that works when it is typed: each code of the API at each command that asks
a server, and each remedy that is written anywhere in the code."""

import ast
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

import rota
from rota.client.call import Reply
from rota.client.problems import error_from
from rota.domain.errors import ConfigError
from rota.interfaces.cli.errors import PROGRAMS, report
from rota.interfaces.cli.main import cli
from rota.interfaces.cli.refused import PASTE
from rota.interfaces.cli.typed import Typed, read_typed
from rota.interfaces.operations.errors import CODES
from rota.wire.base import FieldError, Problem
from tests.unit.interfaces.test_cli_walk import ASKING

LINES = [line.split() for line in ASKING.replace("\n", "|").split("|") if line.strip()]
OTHERS = {PASTE, "unset ROTA_TOKEN"}  # for a shell, not for us
TELLERS = {"ConfigError": "fix", "CheckFailedError": "fix"}  # the name of what they suggest


@pytest.fixture(autouse=True)
def _no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROTA_TOKEN", raising=False)


def check_typed(line: str) -> None:
    """Raises what click says of a command line; nothing is run."""
    program, *words = shlex.split(line)
    assert program == "rota", line
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(click.Context(command), words.pop(0))
        assert inner is not None, line
        command = inner
    if words != ["--help"]:
        command.make_context(line, words)


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ")
    assert last.startswith("try: ")
    return last.removeprefix("try: ")


@pytest.mark.parametrize("code", CODES)
def test_what_to_try_after_any_answer_of_a_server_can_be_typed(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = CODES[code].status
    problem = Problem(
        type="", title="", status=status, code=code, detail="no", errors=[FieldError(field="type", problem="no")]
    )
    error = error_from(Reply(status, {}, msgspec.json.encode(problem)))
    for words in LINES:
        report(error, read_typed(cli, words))
        told = last_line(capsys)
        if told not in OTHERS:
            check_typed(told)


def list_remedies() -> Iterator[tuple[str, str]]:
    """What the code suggests, with blanks filled in; and where."""
    root = Path(rota.__file__).parent
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TELLERS:
                named = [word.value for word in node.keywords if word.arg == TELLERS[node.func.id]]
                for found in named:
                    if (text := _fill_in(found)) is not None:
                        yield f"{file.relative_to(root)}:{node.lineno}", text


def _fill_in(found: ast.expr) -> str | None:
    if isinstance(found, ast.Constant):
        return str(found.value)
    if not isinstance(found, ast.JoinedStr):
        return None  # composed elsewhere
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "1" for part in found.values)


REMEDIES = dict(list_remedies())


@pytest.mark.parametrize("place", REMEDIES)
def test_every_remedy_in_the_code_can_be_typed_or_stands_beside_a_command_that_can(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asking = read_typed(cli, ["task", "ls", "--url", "http://127.0.0.1:9"])
    for typed in (Typed("rota worker"), asking) if REMEDIES[place].startswith("rota ") else (Typed("rota worker"),):
        report(ConfigError("it does not work", fix=REMEDIES[place]), typed)
        told = last_line(capsys)
        if told.partition(" ")[0] == "rota":
            check_typed(told)
        else:
            assert told.startswith(PROGRAMS)


def test_the_remedies_of_the_commands_are_among_them() -> None:
    assert {"rota db upgrade", "rota config-type ls", "rota dev --port 0", "rota task explain 1"} <= set(
        REMEDIES.values()
    )


@pytest.mark.parametrize(
    "words", ["api", "scheduler", "server", "worker --app a.py", "version", "completion bash", "dev"]
)
def test_a_command_that_asks_no_server_is_not_given_the_url_of_one(words: str) -> None:
    typed = read_typed(cli, ["task", "ls", "--url", "http://127.0.0.1:9"])
    assert typed.beside(f"rota {words}") == f"rota {words}"
    assert typed.beside("rota worker ls") == "rota worker ls --url http://127.0.0.1:9"
