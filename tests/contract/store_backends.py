"""The stores that the contract is run on. A new adapter adds its function to `BACKENDS`.

A schema is made once per run: a file that is copied, or a database on each server whose tables are emptied.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, insert

from rota.application.ports.store import Store
from rota.infrastructure.database import migrate, schema
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import Database
from rota.infrastructure.store.memory.state import MemoryState
from rota.infrastructure.store.memory.store import join_memory
from rota.infrastructure.store.sql.store import sql_store
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.contract.store import StoreBackend
from tests.contract.etcd_backends import open_etcd_store
from tests.contract.redis_backends import open_redis_cluster_store, open_redis_sentinel_store, open_redis_store
from tests.support.clock import FakeClock
from tests.support.patience import PATIENCE_S

# Called while no event loop runs: it may ask for fixtures that make a schema.
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

    tick = timedelta(milliseconds=50)

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self._url = url
        self._stack = stack
        self._first: Database | None = self._open()

    async def connect(self) -> Store:
        database, self._first = self._first or self._open(), None
        return sql_store(database, SystemRandom())

    async def wait(self, duration: timedelta) -> None:
        await SystemClock().sleep(duration)

    async def empty(self) -> None:
        """Delete what an earlier test left behind, through the connections of the first node."""
        if self._first is not None:
            await self._first.transact(_empty_tables)

    def _open(self) -> Database:
        database = open_database(self._url, clock=SystemClock(), random=SystemRandom(), deadline_s=PATIENCE_S)
        self._stack.push_async_callback(database.close)
        return database


def open_memory(_: pytest.FixtureRequest) -> AbstractAsyncContextManager[StoreBackend]:
    return nullcontext(MemoryBackend())


def open_sqlite(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[StoreBackend]:
    path: Path = request.getfixturevalue("tmp_path") / "rota.db"
    shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
    return _open_sql(f"sqlite:///{path}")


def open_mariadb(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[StoreBackend]:
    return _open_sql(request.getfixturevalue("mariadb_url"), is_used=True)


def open_postgres(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[StoreBackend]:
    return _open_sql(request.getfixturevalue("postgres_url"), is_used=True)


BACKENDS: Mapping[str, OpenBackend] = {
    "memory": open_memory,
    "sqlite": open_sqlite,
    "mariadb": open_mariadb,
    "postgres": open_postgres,
    "etcd": open_etcd_store,
    "redis": open_redis_store,
    "redis-sentinel": open_redis_sentinel_store,
    "redis-cluster": open_redis_cluster_store,
}


def make_schema(url: str) -> str:
    """Create the tables, while no event loop runs; the URL again."""
    asyncio.run(migrate.upgrade(url))
    return url


@asynccontextmanager
async def _open_sql(url: str, *, is_used: bool = False) -> AsyncIterator[StoreBackend]:
    async with AsyncExitStack() as stack:
        backend = SqlBackend(url, stack)
        if is_used:
            await backend.empty()
        yield backend


def _empty_tables(connection: Connection) -> None:
    for table in schema.metadata.sorted_tables:
        connection.execute(delete(table))
    connection.execute(insert(schema.leadership).values(id=1, term=0))
