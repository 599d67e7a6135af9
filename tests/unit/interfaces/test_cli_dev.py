"""What `rota dev` says when it is ready."""

import sys
from pathlib import Path
from typing import Any

import pytest

from rota.client.folder import PLACE_FILE
from rota.interfaces.cli.dev import find_address
from rota.interfaces.cli.dev_banner import Banner, suggest
from rota.sdk.tasks import TaskFunction, define
from rota.testing.values import replace


async def plain() -> None: ...


async def needy(to: str, late: int = 0) -> None: ...


async def unreadable(to: "Nowhere") -> None: ...  # type: ignore[name-defined] # noqa: F821 on purpose


PLAIN = TaskFunction(plain, define("plain", {}))
NEEDY = TaskFunction(needy, define("needy", {}))


USUAL = Banner(
    address="http://127.0.0.1:8420",
    token="rota_1_x",
    place="sqlite:///.rota/rota.db",
    functions=[NEEDY, PLAIN],
    asked_port=8420,
)


def banner(**changes: Any) -> str:
    return str(replace(USUAL, **changes))


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROTA_TOKEN", "ROTA_URL"):
        monkeypatch.delenv(name, raising=False)


def test_a_task_that_needs_nothing_is_suggested_first() -> None:
    assert suggest([NEEDY, PLAIN]) == "rota task submit plain --wait"
    assert suggest([NEEDY]) == """rota task submit needy --payload '{"to": "…"}' --wait"""
    assert suggest([TaskFunction(unreadable, define("odd", {}))]) == "rota task submit odd --wait"


def test_a_task_that_may_take_long_is_suggested_last() -> None:
    long = TaskFunction(plain, define("long", {"timeout": "1h"}))
    assert suggest([long, NEEDY]).startswith("rota task submit needy")
    assert suggest([long]) == "rota task submit long --wait"


def test_what_there_is_to_say_of_a_service_has_a_line() -> None:
    assert "Service" not in banner()
    assert "\n  Service at hand\n" in banner(service="at hand")


def test_the_type_that_a_service_does_is_listed_and_suggested() -> None:
    said = banner(service="at hand", service_type="called")
    assert "  Types   needy, plain, called\n" in said
    assert "  rota task submit plain --wait\n  rota task submit called --wait\n  rota task ls\n" in said
    assert "  Types   needy, plain\n" in banner()


def test_a_type_that_fires_by_itself_is_listed_and_not_suggested() -> None:
    said = banner(scheduled_type="ticking")
    assert "  Types   needy, plain, ticking\n" in said
    assert "submit ticking" not in said


def test_usually_there_is_nothing_to_export() -> None:
    assert "export" not in banner()
    assert "taken" not in banner(address="http://127.0.0.1:9", asked_port=0)


def test_another_port_is_told_and_is_to_be_exported_in_other_folders_alone() -> None:
    said = banner(address="http://127.0.0.1:8421")
    assert "(port 8420 is taken, so it is 8421)" in said
    assert "  export ROTA_URL" not in said
    assert "  in other folders, first: export ROTA_URL=http://127.0.0.1:8421 ROTA_TOKEN=rota_1_x\n" in said


def test_another_port_is_exported_where_nothing_is_kept_by_which_commands_would_find_it() -> None:
    said = banner(address="http://127.0.0.1:8421", place="memory://")
    assert "  export ROTA_URL=http://127.0.0.1:8421\n" in said
    assert "other folders" not in said


@pytest.mark.parametrize(("url", "is_told"), [("http://127.0.0.1:8420/", False), ("http://127.0.0.1:9", True)])
def test_a_url_of_the_environment_that_is_another_is_replaced(
    url: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_URL", url)
    assert ("  export ROTA_URL=http://127.0.0.1:8420\n" in banner()) is is_told


@pytest.mark.parametrize(("token", "is_told"), [("rota_1_x", False), ("rota_2_y", True)])
def test_a_token_of_the_environment_that_is_another_is_replaced(
    token: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_TOKEN", token)
    assert ("  export ROTA_TOKEN=rota_1_x\n" in banner()) is is_told


def test_a_token_that_is_kept_nowhere_is_exported() -> None:
    said = banner(place="memory://")
    assert "  export ROTA_TOKEN=rota_1_x\n" in said
    assert ".rota/token" not in said


@pytest.mark.parametrize(
    ("kept", "address"),
    [(b"17 http://127.0.0.1:9\n", "http://127.0.0.1:9"), (b"18 http://127.0.0.1:9\n", ""), (b"17", ""), (b"\xff", "")],
)
def test_an_address_counts_only_of_the_process_that_runs(
    kept: bytes, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_address("process 17") == ""
    PLACE_FILE.parent.mkdir()
    PLACE_FILE.write_bytes(kept)
    assert find_address("process 17") == address


def test_where_the_command_is_not_in_the_path_it_says_how_to_get_it_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert "source" not in banner()
    script = tmp_path / ".venv" / "bin" / "activate"
    script.parent.mkdir(parents=True)
    script.touch()
    assert "this folder:\n  source .venv/bin/activate\n" in banner()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert f"  source {script}\n" in banner()
    command = script.with_name("rota")
    command.touch(0o700)
    monkeypatch.setenv("PATH", str(command.parent))
    assert "source" not in banner()
