"""A coordinator in memory belongs to one process: a second one on the same store is refused."""

import os
from pathlib import Path

import pytest

import rota
from rota.domain.errors import ConfigError
from tests.support.servers.mariadb import MariaDbServer


def settings_on(url: str) -> dict[str, dict[str, str]]:
    return {"store": {"url": url}, "coordinator": {"url": "memory://"}}


async def test_two_processes_that_coordinate_in_memory_do_not_share_a_file(tmp_path: Path) -> None:
    settings = settings_on(f"sqlite:///{tmp_path}/rota.db")
    async with rota.Rota(settings, roles=()):
        with pytest.raises(ConfigError, match=f"process {os.getpid()} uses ") as caught:
            async with rota.Rota(settings, roles=()):
                pass
        assert "sql://" in caught.value.fix
        (tmp_path / "rota.db.lock").write_text("", "utf-8")  # as it is for a moment
        with pytest.raises(ConfigError, match="another process uses "):
            async with rota.Rota(settings, roles=()):
                pass
    async with rota.Rota(settings, roles=()) as successor:
        assert await successor.count() == {}


async def test_processes_that_coordinate_in_the_file_share_it(tmp_path: Path) -> None:
    settings = settings_on(f"sqlite:///{tmp_path}/rota.db") | {"coordinator": {"url": "sql://"}}
    async with rota.Rota(settings, roles=()), rota.Rota(settings, roles=()) as second:
        assert await second.count() == {}


async def test_a_store_on_a_server_needs_a_coordinator_for_many(mariadb_server: MariaDbServer) -> None:
    with pytest.raises(ConfigError, match="for one process") as caught:
        async with rota.Rota(settings_on(mariadb_server.url()), roles=()):
            pass
    assert caught.value.fix == "coordinator.url: sql://"
