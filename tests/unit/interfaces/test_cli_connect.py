"""Which server a command asks, and what it shows it."""

import os
import re
from pathlib import Path

import httpx2
import pytest

from rota.client.folder import PLACE_FILE
from rota.client.place import DEFAULT_URL
from rota.interfaces.cli.connect import choose_place
from rota.interfaces.cli.main import run
from tests.unit.client.dial import problem
from tests.unit.interfaces.fake_api import CLUSTER, FakeApi

SERVED = "http://127.0.0.1:9321"


@pytest.mark.parametrize(
    ("url", "token"), [("http://127.0.0.1:8420", "rota_1_x"), (None, "rota_1_x"), ("https://rota.example.com", "")]
)
def test_the_token_of_a_folder_is_shown_to_servers_of_this_machine_alone(
    url: str | None, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ROTA_TOKEN", "ROTA_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    Path(".rota").mkdir()
    Path(".rota/token").write_text("rota_1_x", "utf-8")
    assert choose_place(url, timeout="1s").token == token


def test_a_token_in_the_environment_is_for_any_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_TOKEN", "rota_2_y")
    assert choose_place("https://rota.example.com", timeout="1s").token == "rota_2_y"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that some `rota dev` has served."""
    monkeypatch.delenv("ROTA_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    PLACE_FILE.parent.mkdir()
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_server_of_a_folder_is_asked_where_no_other_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    PLACE_FILE.write_text(f"{os.getpid()} {SERVED}\n", "utf-8")
    assert choose_place(None, timeout="1s").url == SERVED
    assert choose_place("http://localhost:1", timeout="1s").url == "http://localhost:1"
    monkeypatch.setenv("ROTA_URL", "http://localhost:2")
    assert choose_place(None, timeout="1s").url == "http://localhost:2"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("process", ["", "0", "-1", "x", "²", "4194999", "9" * 30])
def test_a_server_of_a_folder_that_has_ended_is_not_asked(process: str) -> None:
    PLACE_FILE.write_text(f"{process} {SERVED}\n", "utf-8")
    assert choose_place(None, timeout="1s").url == DEFAULT_URL


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("address", ["", "https://rota.example.com", "http://127.0.0.1@rota.example.com", "odd"])
def test_a_folder_names_no_server_elsewhere(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_TOKEN", "rota_2_y")
    PLACE_FILE.write_text(f"{os.getpid()} {address}\n", "utf-8")
    assert choose_place(None, timeout="1s").url == DEFAULT_URL


def test_a_command_that_is_tried_again_says_so_once(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    away = [problem(503, "unavailable", detail="the store is away")] * 2
    api.on("GET /cluster", lambda _request: away.pop() if away else httpx2.Response(200, json=CLUSTER))
    assert run(["cluster"]) == 0
    said = capsys.readouterr().err
    assert re.fullmatch(r"the store is away; trying again for up to 30 s \(ROTA_TIMEOUT .*\), Ctrl-C ends it\n", said)


def test_the_environment_says_how_long_commands_wait(
    api: FakeApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET /cluster", problem(503, "unavailable", detail="the store is away"))
    monkeypatch.setenv("ROTA_TIMEOUT", "0.01s")
    assert run(["cluster"]) == 5
    assert capsys.readouterr().err == "error: the store is away\ntry: rota doctor\n"
    monkeypatch.setenv("ROTA_TIMEOUT", "soon")
    assert run(["cluster"]) == 2
    assert "error: ROTA_TIMEOUT: " in capsys.readouterr().err
