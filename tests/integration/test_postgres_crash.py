"""What a PostgreSQL that has crashed knows: all of the store, and nothing of what was coordinated."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest

from rota.application.ports.coordinator import Coordinator
from rota.application.ports.store import Store
from rota.domain.ids import TaskId
from rota.domain.priority import NORMAL
from rota.domain.queue import QueueEntry
from rota.infrastructure.coordination.sql.coordinator import open_sql_coordinator
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.store.sql.store import open_sql_store
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support.builders import a_new_task
from tests.support.require import require_server
from tests.support.servers.postgres import PostgresServer

TASK = TaskId(1)


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    require_server("postgres")
    with PostgresServer() as server:
        yield server


@asynccontextmanager
async def connected(postgres: PostgresServer) -> AsyncIterator[tuple[Store, Coordinator]]:
    url, clock, random = postgres.url(), SystemClock(), SystemRandom()
    async with (
        open_sql_store(url, clock=clock, random=random) as store,
        open_sql_coordinator(url, clock=clock, random=random) as coordinator,
    ):
        yield store, coordinator


async def one_page(*entries: QueueEntry) -> AsyncIterator[Sequence[QueueEntry]]:
    yield entries


async def test_a_crash_empties_coordination_as_a_whole_and_a_restart_in_good_order_does_not(
    postgres: PostgresServer,
) -> None:
    await upgrade(postgres.url())
    async with connected(postgres) as (store, coordinator):
        await store.tasks.add([a_new_task(TASK)])
        await coordinator.queue.rebuild("first", one_page(QueueEntry(TASK, NORMAL)))
    postgres.restart()
    async with connected(postgres) as (_, coordinator):
        assert await coordinator.queue.find_generation() == "first"
        assert sum((await coordinator.queue.depths()).ready.values()) == 1
    postgres.kill()
    postgres.start()
    async with connected(postgres) as (store, coordinator):
        assert await coordinator.queue.find_generation() is None
        assert sum((await coordinator.queue.depths()).ready.values()) == 0
        assert list(await store.tasks.load([TASK])) == [TASK]
