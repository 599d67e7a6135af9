"""Building on real files and servers: what is opened, what stands in, and what is refused."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import rota
from rota.application.ports.system import System
from rota.config.embedded import flatten
from rota.config.load import Sources, load
from rota.config.schema import prepare_schema, read_schema, upgrade_schema
from rota.config.settings import Settings
from rota.config.wiring import Blueprint, Role, build_roles, open_node
from rota.domain.errors import ConfigError, CoordinatorUnavailableError, NotFoundError
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.sdk.tasks import TaskRegistry
from tests.support.builders import an_entry
from tests.support.names import fresh_name
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.postgres import PostgresServer

NOBODY = "redis://127.0.0.1:1"  # where nobody listens


def a_plan(folder: Path, **sections: Any) -> Blueprint:
    always = {"metrics.collector": "none", "store.url": f"sqlite:///{folder}/rota.db"}
    return Blueprint(
        settings=load(Sources(flags=always | flatten(sections), folder=folder)).settings,
        system=System(SystemClock(), SystemRandom()),
        tasks=TaskRegistry(),
    )


async def test_the_stores_database_stands_in_for_a_redis_that_is_away(tmp_path: Path) -> None:
    async with open_node(a_plan(tmp_path, coordinator={"url": NOBODY})) as node:
        await node.coordinator.queue.push([an_entry(7)])
        assert (await node.coordinator.queue.depths()).ready


async def test_nothing_stands_in_for_redis_where_the_store_is_no_database(tmp_path: Path) -> None:
    async with open_node(a_plan(tmp_path, store={"url": "memory://"}, coordinator={"url": NOBODY})) as node:
        with pytest.raises(CoordinatorUnavailableError):
            await node.coordinator.queue.push([an_entry(7)])


async def test_an_embedded_schema_is_made_and_upgraded_without_asking(tmp_path: Path) -> None:
    settings = a_plan(tmp_path).settings
    assert not (await read_schema(settings)).is_current
    await prepare_schema(settings)
    assert (await read_schema(settings)).is_current


async def test_that_the_schema_is_a_later_releases_is_in_the_log(tmp_path: Path) -> None:
    settings = a_plan(tmp_path).settings
    now = await upgrade_schema(settings)
    with closing(sqlite3.connect(tmp_path / "rota.db")) as connection, connection:
        connection.execute("UPDATE rota_schema_version SET version_num = '9999'")
    with capture_logs() as lines:
        await prepare_schema(settings)
    told = {"event": "schema.later_than_release", "log_level": "warning", "schema": "9999", "release": now.newest}
    assert told in lines


@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
async def test_the_schema_of_a_server_is_the_operators_to_upgrade(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server: MariaDbServer | PostgresServer = request.getfixturevalue(f"{kind}_server")
    name = fresh_name("wiring")
    server.create_database(name)
    settings: Settings = a_plan(tmp_path, store={"url": server.url(name)}).settings
    with pytest.raises(ConfigError, match="schema is at nothing, this release needs") as refused:
        await prepare_schema(settings)
    assert refused.value.fix == "rota db upgrade"
    await upgrade_schema(settings)
    await prepare_schema(settings)
    async with rota.Rota({"store": {"url": server.url(name)}, "coordinator": {"url": "sql://"}}, roles=()) as app:
        with pytest.raises(NotFoundError):
            await app.get("7")


async def test_results_are_spooled_in_the_folder_that_the_settings_name(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    plan = a_plan(tmp_path, worker={"spool": str(folder), "name": "me"})
    async with open_node(plan) as node:
        await build_roles(plan, node, roles=[Role.WORKER])
    assert [file.name for file in folder.iterdir()] == ["me.1.lock"]
