"""What is particular to locks on SQL: what stays of them, and where."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from sqlalchemy import Connection, select

from rota.application.ports.coordinator import Locks
from rota.domain.errors import CoordinatorUnavailableError
from rota.infrastructure.coordination.sql.coordinator import open_sql_coordinator
from rota.infrastructure.coordination.sql.locks import KEPT, SqlLocks
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.coordination_schema import lock
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.contract.sql_coordinator_backends import prepare
from tests.support.clock import FakeClock

TTL = timedelta(minutes=1)


async def read(url: str, statement: str) -> Sequence[object]:
    """The first column of what a statement finds."""

    def work(connection: Connection) -> Sequence[object]:
        return connection.exec_driver_sql(statement).scalars().all()

    database = open_database(url, clock=SystemClock(), random=SystemRandom())
    try:
        return await database.read(work)
    finally:
        await database.close()


async def take_and_release(locks: Locks, name: str) -> int:
    fence = await locks.take(name, "owner", ttl=TTL)
    assert fence is not None
    assert await locks.release(name, "owner", fence=fence)
    return fence


async def test_what_stays_of_a_lock_is_deleted_after_a_day(request: pytest.FixtureRequest) -> None:
    url, clock, names = await prepare("sqlite", request), FakeClock(), str(select(lock.c.name).order_by(lock.c.name))
    async with open_sql_coordinator(url, clock=clock, random=SystemRandom()) as node:
        for name in ("a", "b", "c"):
            await take_and_release(node.locks, name)
        clock.advance(KEPT)
        before = await take_and_release(node.locks, "b")
    async with open_sql_coordinator(url, clock=clock, random=SystemRandom()) as node:
        assert await read(url, names) == ["a", "b", "c"]
        clock.advance(TTL)
        assert await take_and_release(node.locks, "d") > before
    assert await read(url, names) == ["b", "d"]


async def test_fences_grow_though_the_clock_is_set_back(request: pytest.FixtureRequest) -> None:
    url, clock, early = await prepare("sqlite", request), FakeClock(), FakeClock()
    clock.advance(KEPT)
    fences = list[int]()
    for now in (clock, early, early):
        async with open_sql_coordinator(url, clock=now, random=SystemRandom()) as node:
            fences.append(await take_and_release(node.locks, "import"))
    assert fences == sorted(set(fences))


async def test_a_lock_is_taken_though_old_ones_cannot_be_deleted(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object, __: object) -> None:
        raise CoordinatorUnavailableError("the row is locked")

    monkeypatch.setattr(SqlLocks, "_prune", refuse)
    url = await prepare("sqlite", request)
    async with open_sql_coordinator(url, clock=SystemClock(), random=SystemRandom()) as node:
        assert await node.locks.take("import", "owner", ttl=TTL) is not None


async def test_a_crash_of_postgres_ends_no_lock(request: pytest.FixtureRequest) -> None:
    kept = "SELECT relpersistence FROM pg_class WHERE relname IN ('coordination_lock', 'coordination_queue') ORDER BY 1"
    found = [
        bytes(one) if isinstance(one, bytes) else str(one).encode()
        for one in await read(await prepare("postgres", request), kept)
    ]
    assert found == [b"p", b"u"], "locks are logged, and what can be rebuilt is not"
