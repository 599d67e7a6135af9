"""The stores that the contract is run on. A new adapter adds its function to `BACKENDS`.

A schema is made once per run: a file that is copied, or a database on each server whose tables are emptied.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, insert

from rota.application.ports.store import Store
from rota.infrastructure.database import migrate, schema
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.store.memory.state import MemoryState
from rota.infrastructure.store.memory.store import join_memory
from rota.infrastructure.store.sql.store import open_sql_store
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.contract.store import StoreBackend
from tests.support.clock import FakeClock

OpenBackend = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[StoreBackend]]


class MemoryBackend:
    """In one process, on a virtual clock."""

    tick = timedelta(seconds=1)

    def __init__(self) -> None:
        self._clock = FakeClock()
        self._state = MemoryState(self._clock)

    async def connect(self) -> Store:
        return join_memory(self._state)

    async def wait(self, duration: timedelta) -> None:
        await self._clock.run(duration)


class SqlBackend:
    """A database by its URL; each node has its own connections."""

    tick = timedelta(milliseconds=40)

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self._url = url
        self._stack = stack

    async def connect(self) -> Store:
        opened = open_sql_store(self._url, clock=SystemClock(), random=SystemRandom())
        return await self._stack.enter_async_context(opened)

    async def wait(self, duration: timedelta) -> None:
        await SystemClock().sleep(duration)


@asynccontextmanager
async def open_memory(_: pytest.FixtureRequest) -> AsyncIterator[StoreBackend]:
    yield MemoryBackend()


@asynccontextmanager
async def open_sqlite(request: pytest.FixtureRequest) -> AsyncIterator[StoreBackend]:
    path: Path = request.getfixturevalue("tmp_path") / "rota.db"
    shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
    async with AsyncExitStack() as stack:
        yield SqlBackend(f"sqlite:///{path}", stack)


@asynccontextmanager
async def open_mariadb(request: pytest.FixtureRequest) -> AsyncIterator[StoreBackend]:
    async with _open_server(request.getfixturevalue("mariadb_url")) as backend:
        yield backend


@asynccontextmanager
async def open_postgres(request: pytest.FixtureRequest) -> AsyncIterator[StoreBackend]:
    async with _open_server(request.getfixturevalue("postgres_url")) as backend:
        yield backend


BACKENDS: Mapping[str, OpenBackend] = {
    "memory": open_memory,
    "sqlite": open_sqlite,
    "mariadb": open_mariadb,
    "postgres": open_postgres,
}


def make_schema(url: str) -> str:
    """Create the tables, before any event loop runs; the URL again."""
    asyncio.run(migrate.upgrade(url))
    return url


@asynccontextmanager
async def _open_server(url: str) -> AsyncIterator[StoreBackend]:
    database = open_database(url, clock=SystemClock(), random=SystemRandom())
    try:
        await database.transact(_empty_tables)
    finally:
        await database.close()
    async with AsyncExitStack() as stack:
        yield SqlBackend(url, stack)


def _empty_tables(connection: Connection) -> None:
    for table in schema.metadata.sorted_tables:
        connection.execute(delete(table))
    connection.execute(insert(schema.leadership).values(id=1, term=0))
