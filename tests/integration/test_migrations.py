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
import pytest_asyncio
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

import rota
from rota.domain.errors import ConfigError, StoreUnavailableError
from rota.infrastructure.database import connect, coordination_schema, migrations
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import DatabaseDefectError
from rota.infrastructure.database.migrate import (
    FLOOR_TABLE,
    LOCK_NAME,
    LOCK_NUMBER,
    VERSION_TABLE,
    SchemaStatus,
    known_revisions,
    status,
    upgrade,
)
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.sdk.tasks import TaskFunction, TaskOptions, define
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


@pytest_asyncio.fixture
async def later(url: str) -> str:
    """A database that a later release has upgraded."""
    await upgrade(url)
    for table in ("task", "task_live", "task_config"):
        await execute(url, f"ALTER TABLE {table} ADD COLUMN of_later INTEGER NOT NULL DEFAULT 7")
    await execute(url, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")  # noqa: S608 our own name
    return url


def on(url: str) -> dict[str, Any]:
    return {"store": {"url": url}, "coordinator": {"url": "sql://"}, "metrics": {"collector": "none"}}


async def test_an_empty_database_is_behind_and_upgrade_brings_it_up(url: str) -> None:
    before = await status(url)
    assert before.current is None
    assert not before.is_current
    assert (await upgrade(url)).is_current
    assert (await upgrade(url)).is_current, "a second upgrade finds nothing to do"


async def test_a_schema_of_a_later_release_is_told_and_left_alone(later: str) -> None:
    now = await upgrade(later)
    assert now == await status(later)
    assert (now.current, now.is_later, now.is_current, now.can_be_used) == ("9999", True, False, True)
    assert (await upgrade(later, lock_wait=timedelta(seconds=5))).is_later, "the lock is free"


async def test_a_task_runs_on_the_schema_of_a_later_release(later: str) -> None:
    async def double(number: int) -> int:
        return 2 * number

    tasks = [TaskFunction(double, define("double", TaskOptions()))]
    async with rota.Rota(on(later), tasks=tasks) as app:
        task = await (await app.submit("double", {"number": 4})).wait("20s")
    assert task.result is not None
    assert task.result.data == 8


async def test_a_release_that_is_too_old_for_a_later_schema_does_not_start_on_it(later: str) -> None:
    await execute(later, f"CREATE TABLE {FLOOR_TABLE} (version_num VARCHAR(32))")
    await execute(later, f"INSERT INTO {FLOOR_TABLE} VALUES ('0001')")  # noqa: S608 our own name
    async with rota.Rota(on(later), roles=()):
        pass
    await execute(later, f"UPDATE {FLOOR_TABLE} SET version_num = '9998'")  # noqa: S608 our own name
    with pytest.raises(ConfigError, match=r"at 9999, later than .*: 9998 is the least that runs on it") as refused:
        async with rota.Rota(on(later), roles=()):
            pass
    assert refused.value.fix == "pip install --upgrade rota"


async def test_the_migrations_make_exactly_the_schema_of_the_code(url: str) -> None:
    await upgrade(url)
    database = open_database(url, clock=SystemClock(), random=SystemRandom())
    try:
        assert await database.read(_differences) == []
    finally:
        await database.close()


def test_the_migrations_are_known_by_their_files_as_alembic_reads_them() -> None:
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert known_revisions() == [script.revision for script in reversed(list(scripts.walk_revisions()))]
    assert known_revisions()[-1] == scripts.get_current_head()


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
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
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
