"""The SQL coordinator on each of its databases: one database for the whole run, emptied before every test."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete

from rota.application.ports.coordinator import Coordinator
from rota.infrastructure.coordination.sql.coordinator import open_sql_coordinator
from rota.infrastructure.database import coordination_schema
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.contract.coordinator import CoordinatorBackend
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.postgres import PostgresServer

NAME = "coordination"
TABLES = (
    coordination_schema.cancel,
    coordination_schema.delivery,
    coordination_schema.event,
    coordination_schema.lease,
    coordination_schema.lock,
    coordination_schema.memory,
    coordination_schema.queue,
    coordination_schema.tally,
    coordination_schema.worker,
)

_prepared: set[str] = set()  # the databases that this run has made


class SqlBackend:
    """Each node has its own connections."""

    tick = timedelta(milliseconds=200)

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self._url = url
        self._stack = stack

    async def connect(self) -> Coordinator:
        opened = open_sql_coordinator(self._url, clock=SystemClock(), random=SystemRandom())
        return await self._stack.enter_async_context(opened)

    async def wait(self, duration: timedelta) -> None:
        await SystemClock().sleep(duration)

    async def forget(self) -> None:
        await forget_all(self._url)


async def forget_all(url: str) -> None:
    """Empty the tables of coordination."""
    database = open_database(url, clock=SystemClock(), random=SystemRandom())
    try:
        await database.transact(_delete_all)
    finally:
        await database.close()


async def prepare(kind: str, request: pytest.FixtureRequest) -> str:
    """The URL of a database of this kind, with the schema in it and no memory."""
    if kind == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path_factory").getbasetemp()
        url = f"sqlite:///{folder}/{NAME}.db"
    else:
        server: MariaDbServer | PostgresServer = request.getfixturevalue(f"{kind}_server")
        url = server.url(NAME)
        if url not in _prepared:
            server.create_database(NAME)
    if url not in _prepared:
        await upgrade(url)
        _prepared.add(url)
    await forget_all(url)
    return url


@asynccontextmanager
async def open_sql(request: pytest.FixtureRequest, *, kind: str) -> AsyncIterator[CoordinatorBackend]:
    async with AsyncExitStack() as stack:
        yield SqlBackend(await prepare(kind, request), stack)


def _delete_all(connection: Connection) -> None:
    for table in TABLES:
        connection.execute(delete(table))


SQL_BACKENDS: Mapping[str, Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[CoordinatorBackend]]] = {
    kind: partial(open_sql, kind=kind) for kind in ("sqlite", "mariadb", "postgres")
}
