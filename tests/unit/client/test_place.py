"""Where a client that is told nothing finds its server."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import rota
from rota.client.folder import PLACE_FILE, TOKEN_FILE
from rota.client.place import DEFAULT_URL, Place
from rota.domain.errors import UnauthenticatedError
from tests.unit.client.dial import Dial, problem

SERVED = "http://127.0.0.1:9321"
CLIENTS: tuple[Callable[..., rota.Client | rota.AsyncClient], ...] = (rota.Client, rota.AsyncClient)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that a `rota dev` serves."""
    for name in ("ROTA_TOKEN", "ROTA_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    PLACE_FILE.parent.mkdir()
    PLACE_FILE.write_text(f"{os.getpid()} {SERVED}\n", "utf-8")
    TOKEN_FILE.write_text("rota_1_x\n", "utf-8")


def place_of(*given: str | None) -> Place:
    first, second = (make(*given)._wire.place for make in CLIENTS)
    assert first == second
    return first


def test_a_client_without_arguments_finds_the_server_of_this_folder() -> None:
    assert (place_of().url, place_of().token) == (SERVED, "rota_1_x")


def test_what_is_given_and_what_the_environment_says_count_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_URL", "http://localhost:2")
    assert (place_of().url, place_of().token) == ("http://localhost:2", "rota_1_x")
    monkeypatch.setenv("ROTA_TOKEN", "rota_2_y")
    assert place_of().token == "rota_2_y"
    assert (place_of("http://localhost:3").url, place_of(None, "rota_3_z").token) == ("http://localhost:3", "rota_3_z")


def test_the_token_of_this_folder_is_not_sent_elsewhere() -> None:
    assert place_of("https://rota.example.com").token == ""
    assert place_of(None, "").token == ""


def test_in_another_folder_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert (place_of().url, place_of().token) == (DEFAULT_URL, "")


def test_whoever_is_not_let_in_is_told_how_to_give_a_token(dial: Dial) -> None:
    with pytest.raises(UnauthenticatedError, match=r"set ROTA_TOKEN or give it: rota\.Client\(url, token\)"):
        dial.ask(lambda client: client.stats(), problem(401, "unauthenticated", detail="a token is needed"))
