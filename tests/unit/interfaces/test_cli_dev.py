"""What `rota dev` says when it is ready."""

from pathlib import Path

import pytest

from rota.interfaces.cli.dev import PLACE_FILE, find_address
from rota.interfaces.cli.dev_banner import Banner, suggest
from rota.sdk.tasks import TaskFunction, define


async def plain() -> None: ...


async def needy(to: str, late: int = 0) -> None: ...


async def unreadable(to: "Nowhere") -> None: ...  # type: ignore[name-defined] # noqa: F821 on purpose


PLAIN = TaskFunction(plain, define("plain", {}))
NEEDY = TaskFunction(needy, define("needy", {}))


def banner(*, address: str = "http://127.0.0.1:8420", place: str = "sqlite:///.rota/rota.db", port: int = 8420) -> str:
    return str(Banner(address=address, token="rota_1_x", place=place, functions=[NEEDY, PLAIN], asked_port=port))


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_TOKEN", raising=False)


def test_a_task_that_needs_nothing_is_suggested_first() -> None:
    assert suggest([NEEDY, PLAIN]) == "rota task submit plain --wait"
    assert suggest([NEEDY]) == """rota task submit needy --payload '{"to": …}' --wait"""
    assert suggest([TaskFunction(unreadable, define("odd", {}))]) == "rota task submit odd --wait"


def test_usually_there_is_nothing_to_export() -> None:
    assert "export" not in banner()
    assert "taken" not in banner(address="http://127.0.0.1:9", port=0)


def test_another_port_is_told_and_exported() -> None:
    said = banner(address="http://127.0.0.1:8421")
    assert "(port 8420 is taken, so it is 8421)" in said
    assert "  export ROTA_URL=http://127.0.0.1:8421\n" in said


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
