"""The schema in the wheel: complete, repeatable, and safe when two processes migrate at once."""

import asyncio
import socket
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from rota.domain.errors import ConfigError, StoreUnavailableError
from rota.infrastructure.database import connect, coordination_schema
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import DatabaseDefectError
from rota.infrastructure.database.migrate import LOCK_NAME, LOCK_NUMBER, VERSION_TABLE, SchemaStatus, status, upgrade
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support.names import fresh_name
from tests.support.servers.postgres import PostgresServer

LONG_WAIT = (
    "SELECT 'waits' FROM pg_stat_activity"
    " WHERE wait_event = 'advisory' AND clock_timestamp() - query_start > interval '200 ms'"
)


@pytest.fixture(params=["sqlite", "mariadb", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rota.db"
    server = request.getfixturevalue(f"{request.param}_server")
    name = fresh_name("migrate")
    server.create_database(name)
    return str(server.url(name))


async def test_an_empty_database_is_behind_and_upgrade_brings_it_up(url: str) -> None:
    before = await status(url)
    assert before.current is None
    assert not before.is_current
    assert (await upgrade(url)).is_current
    assert (await upgrade(url)).is_current, "a second upgrade finds nothing to do"


async def test_a_schema_of_a_later_release_is_told_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "rota.db"
    await upgrade(f"sqlite:///{file}")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")  # noqa: S608 our own name
    with pytest.raises(ConfigError, match="the schema is at 9999, and this release knows it up to "):
        await upgrade(f"sqlite:///{file}")
    assert (await status(f"sqlite:///{file}")).current == "9999"


async def test_the_migrations_make_exactly_the_schema_of_the_code(url: str) -> None:
    await upgrade(url)
    database = open_database(url, clock=SystemClock(), random=SystemRandom())
    try:
        assert await database.read(_differences) == []
    finally:
        await database.close()


async def test_two_processes_that_migrate_at_once_take_turns(url: str) -> None:
    both = await asyncio.gather(upgrade(url), upgrade(url))
    assert [state.is_current for state in both] == [True, True]


async def test_a_lock_that_another_process_keeps_is_reported_and_nothing_is_changed(url: str) -> None:
    async with held_lock(url):
        with pytest.raises(StoreUnavailableError, match=r"another process .* for 0.2 s; wait until it has finished"):
            await upgrade(url, lock_wait=timedelta(seconds=0.2))
    assert (await status(url)).current is None
    assert (await upgrade(url)).is_current


async def test_the_turn_is_awaited_for_longer_than_a_statement_waits_for_a_table(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "LOCK_WAIT_S", 0.05)
    name = fresh_name("turn")
    postgres_server.create_database(name)
    async with held_lock(postgres_server.url(name)):
        waiting = asyncio.create_task(upgrade(postgres_server.url(name)))
        while not waiting.done() and "waits" not in await asyncio.to_thread(postgres_server.execute, LONG_WAIT):
            pass
    assert (await waiting).is_current


async def test_after_a_failure_the_cause_is_told_and_the_lock_is_free(url: str) -> None:
    await execute(url, "CREATE TABLE leadership (id INTEGER)")
    with pytest.raises(DatabaseDefectError, match=r"leadership.* already exists"):
        await upgrade(url)
    await execute(url, "DROP TABLE leadership")
    assert (await upgrade(url, lock_wait=timedelta(seconds=5))).is_current


@pytest.mark.parametrize("scheme", ["mysql", "postgresql"])
@pytest.mark.parametrize("act", [status, upgrade])
async def test_a_refused_connection_is_unavailable_and_says_where_without_the_password(
    scheme: str, act: Callable[[str], Awaitable[SchemaStatus]]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StoreUnavailableError, match=f"{scheme}://me:\\*\\*\\*@127.0.0.1:{port}/rota gave no answer"):
        await act(f"{scheme}://me:secret@127.0.0.1:{port}/rota")


async def test_a_file_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="gave no answer"):
        await upgrade(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
async def test_a_database_that_does_not_exist_is_refused_by_name(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"{kind}_server").url("nowhere")
    with pytest.raises(DatabaseDefectError, match=r"nowhere.* — try: "):
        await upgrade(url)


@asynccontextmanager
async def held_lock(url: str) -> AsyncIterator[None]:
    """The lock of a migration, taken as another process would."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as holder:
            holder.execute("PRAGMA journal_mode=WAL")
            holder.execute("BEGIN IMMEDIATE")
            yield
    else:
        postgres, mysql = f"SELECT pg_advisory_lock({LOCK_NUMBER})", f"SELECT GET_LOCK({LOCK_NAME}, 0)"
        async with connected(url) as connection:
            await connection.exec_driver_sql(postgres if url.startswith("postgresql") else mysql)
            yield


async def execute(url: str, statement: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute(statement)
    else:
        async with connected(url) as server:
            await server.exec_driver_sql(statement)
            await server.commit()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[AsyncConnection]:
    engine = connect.server_engine(connect.parse_url(url))
    try:
        async with engine.connect() as connection:
            yield connection
    finally:
        await engine.dispose()


def _differences(connection: Connection) -> list[object]:
    options = {"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": _has_other_default}
    context = MigrationContext.configure(connection, opts=options)
    return list(compare_metadata(context, coordination_schema.lease.metadata))


def _has_other_default(*facts: Any) -> bool | None:
    # Alembic hands over: context, column found, column of the code, default found, default of the code, that as SQL.
    # None lets it judge by itself; but an empty text loses its quotes on the side of the code only, and is the same.
    found, wanted = facts[3], facts[5]
    return False if wanted == "" and found in {"''", "('')"} else None
