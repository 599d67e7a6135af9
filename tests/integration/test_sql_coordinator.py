"""What is particular to coordination on SQL: locks between processes, query plans, lost answers, leftovers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, Select, func, select, update

from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import MetricsCollector
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event, EventKind
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.priority import HIGH, LEVELS, NORMAL
from rota.domain.queue import QueueEntry
from rota.domain.worker import Heartbeat
from rota.infrastructure.coordination.sql import deliveries, queue
from rota.infrastructure.coordination.sql.coordinator import ERRORS, open_sql_coordinator, sql_coordinator
from rota.infrastructure.coordination.sql.pool import LEFTOVERS_KEPT
from rota.infrastructure.coordination.sql.signals import EVENTS_KEPT, SqlSignals
from rota.infrastructure.database import coordination_schema
from rota.infrastructure.database.bulk import Bulk
from rota.infrastructure.database.bulk_sqlite import SqliteBulk
from rota.infrastructure.database.connect import bulk_for, open_database, open_runner, parse_url, server_engine
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.runners import Runner, Work
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.contract.coordinator_backend import (
    AT_ONCE,
    LONG,
    NODE_A,
    WORKER_1,
    hear,
    make_attempts,
    make_entries,
    make_ids,
    make_worker,
)
from tests.contract.sql_coordinator_backends import prepare
from tests.support.clock import FakeClock
from tests.support.patience import PATIENCE_S
from tests.support.proxy import FaultyProxy

T = TypeVar("T")

DESCENDING = tuple(reversed(LEVELS))
SHARED_BY_TWO = 5_000
MANY_QUEUED = 100_000
PUSHED_AT_ONCE = 5_000
INDEX = "coordination_queue_order"


@pytest.fixture(params=["sqlite", "mariadb", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def url(kind: str, request: pytest.FixtureRequest) -> str:
    return await prepare(kind, request)


@pytest.fixture
async def sqlite_url(request: pytest.FixtureRequest) -> str:
    """For what needs a clock that is moved by hand: only SQLite takes the time from us."""
    return await prepare("sqlite", request)


@asynccontextmanager
async def connect(url: str, clock: FakeClock | None = None) -> AsyncIterator[Coordinator]:
    async with open_sql_coordinator(url, clock=clock or SystemClock(), random=SystemRandom()) as opened:
        yield opened


@asynccontextmanager
async def look_inside(url: str) -> AsyncIterator[Database]:
    database = open_database(url, clock=SystemClock(), random=SystemRandom(), deadline_s=PATIENCE_S)
    try:
        yield database
    finally:
        await database.close()


class TestLocks:
    async def test_takers_in_two_processes_share_without_overlap_or_loss(self, url: str) -> None:
        ids = make_ids(SHARED_BY_TWO)
        async with connect(url) as node:
            await node.queue.push(make_entries(ids[::2]) + make_entries(ids[1::2], priority=HIGH))
        loop = asyncio.get_running_loop()
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
            shares = await asyncio.gather(*(loop.run_in_executor(processes, _take_all, url) for _ in range(2)))
        assert sorted(shares[0] + shares[1]) == ids

    @pytest.mark.parametrize("kind", ["mariadb", "postgres"])
    async def test_a_take_waits_for_no_row_that_another_has_locked(self, url: str) -> None:
        locked, *free = make_ids(20)  # so few that a database might rather read them all
        engine = server_engine(parse_url(url))
        async with connect(url) as node, engine.connect() as other:
            await node.queue.push(make_entries([locked, *free]))
            table = coordination_schema.queue
            await other.execute(select(table.c.id).where(table.c.id == locked).with_for_update())
            assert (await node.queue.take(100, order=DESCENDING)).task_ids == tuple(free)
        await engine.dispose()

    @pytest.mark.parametrize("kind", ["mariadb", "postgres"])
    async def test_an_acknowledgement_waits_for_no_other_worker(self, url: str) -> None:
        mine, others = make_attempts(make_ids(20)), make_attempts(make_ids(1), worker_id=WorkerId(1))
        engine = server_engine(parse_url(url))
        async with connect(url) as node, engine.connect() as other:
            await node.deliveries.assign(mine + others)
            table = coordination_schema.delivery
            await other.execute(select(table).where(table.c.worker_id == 1).with_for_update())
            assert await node.deliveries.take(WORKER_1, 100, wait=AT_ONCE) == mine
            await node.deliveries.acknowledge(mine)
            assert await node.deliveries.held(WORKER_1) == []
        await engine.dispose()

    async def test_events_whose_number_is_gone_again_are_told_all_the_same(
        self, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        insert, calls = SqliteBulk.insert_missing, list[object]()

        def insert_late(bulk: SqliteBulk, *what: Any, **how: Any) -> None:
            calls.append(what)
            if len(calls) > 1:
                insert(bulk, *what, **how)

        monkeypatch.setattr(SqliteBulk, "insert_missing", insert_late)
        async with connect(sqlite_url) as node, node.signals.subscribe() as events:
            event = Event(kind=EventKind.WORKER_ONLINE, at=SystemClock().now(), worker_id=WORKER_1)
            await node.signals.publish([event])
            assert await hear(events) == event
        assert len(calls) == 2

    async def test_events_of_publishers_that_compete_are_all_heard_each_in_its_order(self, url: str) -> None:
        async with connect(url) as a, connect(url) as b, a.signals.subscribe() as events:
            batches = [
                [Event(kind=EventKind.TASK_CREATED, at=SystemClock().now(), task_id=one)] for one in make_ids(80)
            ]
            await asyncio.gather(_publish_all(a, batches[::2]), _publish_all(b, batches[1::2]))
            heard = [(await hear(events)).task_id for _ in batches]
        published = [event.task_id for batch in batches for event in batch]
        assert [one for one in heard if one in published[::2]] == published[::2]
        assert [one for one in heard if one in published[1::2]] == published[1::2]


class TestPlans:
    async def test_the_work_of_a_take_does_not_grow_with_the_queue(self, kind: str, url: str) -> None:
        ids = make_ids(MANY_QUEUED)
        async with connect(url) as node, look_inside(url) as database:
            for start in range(0, MANY_QUEUED, PUSHED_AT_ONCE):
                due_at = None if start % (2 * PUSHED_AT_ONCE) else SystemClock().now()
                await node.queue.push(make_entries(ids[start : start + PUSHED_AT_ONCE], due_at=due_at))
            for statement in (
                queue.TAKE.params(lane=NORMAL, from_us=0, count=500),
                queue.FIND_DUE.params(from_us=0, now_us=2**62, count=500),
            ):
                _check_plan(kind, await database.transact(partial(_explain, statement=statement, bulk=database.bulk)))

    @pytest.mark.parametrize("kind", ["mariadb"])
    async def test_a_worker_reads_its_own_deliveries_only(self, url: str) -> None:
        async with connect(url) as node, look_inside(url) as database:
            for number in range(1, 50):
                await node.deliveries.assign(make_attempts(make_ids(20), worker_id=WorkerId(number)))
            taking = deliveries.TAKE.params(worker_id=7, count=100)
            plan = await database.transact(partial(_explain, statement=taking, bulk=database.bulk))
        assert "PRIMARY" in plan, plan
        assert "ALL" not in plan, plan


class TestQueue:
    async def test_a_ready_task_that_is_pushed_again_keeps_its_place(self, url: str) -> None:
        one, other = make_ids(2)
        async with connect(url) as node:
            for entries in ([one], [other], [one]):
                await node.queue.push(make_entries(entries))
            assert (await node.queue.take(10, order=DESCENDING)).task_ids == (one, other)

    async def test_a_task_that_is_pushed_with_another_priority_moves(self, url: str) -> None:
        ids = make_ids(1)
        async with connect(url) as node:
            await node.queue.push(make_entries(ids))
            await node.queue.push(make_entries(ids, priority=HIGH))
            assert (await node.queue.depths()).ready == {HIGH: 1}

    async def test_a_task_pushed_twice_in_a_batch_is_there_as_it_was_last(self, url: str) -> None:
        (task_id,) = make_ids(1)
        async with connect(url) as node:
            await node.queue.push([QueueEntry(task_id, NORMAL, SystemClock().now()), QueueEntry(task_id, HIGH)])
            depths = await node.queue.depths()
            assert (depths.ready, depths.delayed) == ({HIGH: 1}, 0)

    async def test_a_rebuild_empties_queues_of_any_length(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queue, "EMPTYING_BATCH", 10)
        async with connect(url) as node:
            await node.queue.push(make_entries(make_ids(30)))
            await node.queue.rebuild("first", _no_pages())
            assert (await node.queue.depths()).ready == {}


class TestLostAnswers:
    """The transaction was committed; its answer never came."""

    async def test_a_campaign_that_was_won_is_known_to_be_won(self, url: str) -> None:
        async with lose_an_answer(url) as node:
            lease = await node.election.campaign(NODE_A, LONG)
            assert lease is not None
            assert await node.election.renew(NODE_A, lease, ttl=LONG)

    async def test_a_push_is_there_once(self, url: str) -> None:
        ids = make_ids(3)
        async with lose_an_answer(url) as node:
            await node.queue.push(make_entries(ids))
            assert (await node.queue.take(10, order=DESCENDING)).task_ids == tuple(ids)

    async def test_a_take_says_that_it_does_not_know(self, url: str) -> None:
        ids = make_ids(4)
        async with connect(url) as other, lose_an_answer(url) as node:
            await other.queue.push(make_entries(ids))
            with pytest.raises(CoordinatorUnavailableError):
                await node.queue.take(2, order=DESCENDING)
            assert (await node.queue.take(10, order=DESCENDING)).task_ids == tuple(ids[2:])

    async def test_what_a_worker_took_is_held(self, url: str) -> None:
        attempts = make_attempts(make_ids(4))
        async with connect(url) as other, lose_an_answer(url) as node:
            await other.deliveries.assign(attempts)
            with pytest.raises(CoordinatorUnavailableError):
                await node.deliveries.take(WORKER_1, 2, wait=AT_ONCE)
            assert await node.deliveries.held(WORKER_1) == attempts[:2]

    async def test_a_delayed_push_wakes_the_scheduler_all_the_same(self, url: str) -> None:
        async with lose_an_answer(url) as node:
            await node.queue.push(make_entries(make_ids(1), due_at=SystemClock().now()))
            assert await node.queue.wait_for_work(AT_ONCE)


class TestTime:
    async def test_lease_numbers_grow_though_the_clock_is_set_back(self, sqlite_url: str) -> None:
        clock = FakeClock()
        numbers = []
        async with connect(sqlite_url, clock) as node:
            for _ in range(3):
                lease = await node.election.campaign(NODE_A, LONG)
                assert lease is not None
                await node.election.resign(NODE_A, lease)
                numbers.append(lease)
                clock.advance(timedelta(seconds=-10))
        assert all(later > earlier for earlier, later in pairwise(numbers))

    async def test_a_vacancy_is_news_for_a_second(self, sqlite_url: str) -> None:
        clock = FakeClock()
        async with connect(sqlite_url, clock) as node:
            lease = await node.election.campaign(NodeId("node-a"), LONG)
            assert lease is not None
            await node.election.resign(NODE_A, lease)
            assert await node.election.wait_for_vacancy(AT_ONCE)
            clock.advance(timedelta(seconds=1))
            assert not await node.election.wait_for_vacancy(AT_ONCE)

    async def test_expired_cancel_requests_are_dropped(self, sqlite_url: str) -> None:
        clock = FakeClock()
        old, new = make_ids(2)
        async with connect(sqlite_url, clock) as node:
            await node.signals.request_cancel([old], ttl=LONG)
            clock.advance(LONG)
            await node.signals.request_cancel([new], ttl=LONG)
        assert await _count(sqlite_url, "cancel") == 1

    async def test_what_a_vanished_worker_left_is_dropped_in_the_end(self, sqlite_url: str) -> None:
        clock = FakeClock()
        vanished, unknown = WorkerId(1), WorkerId(2)
        async with connect(sqlite_url, clock) as node:
            await node.pool.register(make_worker(vanished), LONG)
            for worker_id in (vanished, unknown):
                await node.deliveries.assign(make_attempts(make_ids(2), worker_id=worker_id))
            await node.pool.register(make_worker(WORKER_1), LONG)
            assert await _count(sqlite_url, "delivery") == 4, "not yet: they may come back"
            clock.advance(LEFTOVERS_KEPT + 2 * LONG)
            await node.pool.register(make_worker(WORKER_1), LONG)
        assert (await _count(sqlite_url, "worker"), await _count(sqlite_url, "delivery")) == (1, 0)


async def test_a_database_that_is_away_is_reported_as_such() -> None:
    async with connect("mysql://root@127.0.0.1:1/none") as node:
        with pytest.raises(CoordinatorUnavailableError):
            await node.queue.push(make_entries(make_ids(1)))


@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
async def test_a_listener_that_can_hear_no_more_is_told(url: str) -> None:
    address = parse_url(url)
    assert address.port is not None
    async with FaultyProxy("127.0.0.1", address.port) as proxy:
        through_proxy = url.replace(str(address.port), str(proxy.port))
        async with connect(through_proxy) as node, node.signals.subscribe() as events:
            proxy.cut()
            with pytest.raises(CoordinatorUnavailableError):
                await anext(events)


async def test_the_last_ten_thousand_events_are_remembered_and_older_ones_go_in_time(sqlite_url: str) -> None:
    clock = FakeClock()
    event = Event(kind=EventKind.WORKER_ONLINE, at=clock.now(), worker_id=WORKER_1)
    async with connect(sqlite_url, clock) as node:
        async with node.signals.subscribe() as events:
            await node.signals.publish([event])
            first = await anext(events)
        await node.signals.publish([event] * 9_999)
        clock.advance(2 * EVENTS_KEPT)
        await node.signals.publish([event])
        async with node.signals.subscribe(after=first.id) as events:
            assert [(await anext(events)).event for _ in range(10_000)] == [event] * 10_000
        await node.signals.publish([event] * 1_500)
        async with node.signals.subscribe(after=first.id) as events:
            assert (await anext(events)).event is None


async def test_events_are_told_though_old_ones_cannot_be_deleted(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = list[object]()

    def refuse(_: object, connection: object) -> None:
        tries.append(connection)
        raise CoordinatorUnavailableError("the row is locked")

    monkeypatch.setattr(SqlSignals, "_prune", refuse)
    event = Event(kind=EventKind.WORKER_ONLINE, at=SystemClock().now(), worker_id=WORKER_1)
    async with connect(sqlite_url) as node, node.signals.subscribe() as events:
        await node.signals.publish([event])
        assert await hear(events) == event
    assert len(tries) == 1


async def test_an_event_of_a_newer_release_is_left_out(url: str) -> None:
    event = Event(kind=EventKind.WORKER_ONLINE, at=SystemClock().now(), worker_id=WORKER_1)
    async with connect(url) as node, look_inside(url) as database, node.signals.subscribe() as events:
        await node.signals.publish([event, event])
        await anext(events)
        await anext(events)
        renamed = (
            "UPDATE coordination_event SET id=id+1, events_json=REPLACE(events_json, 'worker.online', 'worker.new')"
        )
        await database.transact(lambda link: link.exec_driver_sql(renamed).rowcount)
        await database.transact(
            lambda link: link.exec_driver_sql("UPDATE coordination_tally SET number=number+1 WHERE id=2").rowcount
        )
        await node.signals.publish([event])
        assert await hear(events) == event


@pytest.mark.parametrize(
    "document",
    ["", "{", '{"id": 1}', '{"id": 1, "name": "two words"}', '{"id": 1, "name": "pod-1", "weight": "light"}'],
)
async def test_a_worker_that_cannot_be_read_hides_no_other(url: str, document: str) -> None:
    strange = WorkerId(1)
    async with connect(url) as node:
        await node.pool.register(make_worker(strange), LONG)
        await node.pool.register(make_worker(WORKER_1), LONG)
        await _set_worker(url, strange, worker_json=document)
        assert await node.pool.list_alive() == [make_worker(WORKER_1)]


@pytest.mark.parametrize("document", ["{", "{}", '{"load": -1}', '{"load": 1, "held": [1]}'])
async def test_a_heartbeat_that_cannot_be_read_hides_no_other(url: str, document: str) -> None:
    strange = WorkerId(1)
    async with connect(url) as node:
        for worker_id in (strange, WORKER_1):
            await node.pool.register(make_worker(worker_id), LONG)
            await node.pool.heartbeat(worker_id, Heartbeat(1), lease=LONG)
        await _set_worker(url, strange, beat_json=document)
        assert await node.pool.list_beats() == {WORKER_1: Heartbeat(1)}


class _LosesOneAnswer:
    """A runner whose first write is committed, and then fails as if the connection had gone."""

    def __init__(self, inner: Runner) -> None:
        self._inner = inner
        self._has_lost = False
        self.deadline_s = inner.deadline_s

    async def run(self, work: Work[T], *, writes: bool, is_brief: bool = False) -> T:
        result = await self._inner.run(work, writes=writes, is_brief=is_brief)
        if writes and not self._has_lost:
            self._has_lost = True
            raise ConnectionResetError
        return result

    def measure(self, collector: MetricsCollector, *, server: str) -> None:
        self._inner.measure(collector, server=server)

    async def drop_connections(self) -> None:
        await self._inner.drop_connections()

    async def close(self) -> None:
        await self._inner.close()


@asynccontextmanager
async def lose_an_answer(url: str) -> AsyncIterator[Coordinator]:
    clock = SystemClock()
    parts = (_LosesOneAnswer(open_runner(url)), bulk_for(url, clock))
    database = Database(*parts, clock=clock, random=SystemRandom(), errors=ERRORS)
    try:
        yield sql_coordinator(database, clock)
    finally:
        await database.close()


def _take_all(url: str) -> list[TaskId]:
    """What another process does: take everything that is ready, in small bites."""
    return asyncio.run(_take_in_bites(url))


async def _take_in_bites(url: str) -> list[TaskId]:
    taken: list[TaskId] = []
    async with connect(url) as node:
        while some := (await node.queue.take(97, order=DESCENDING)).task_ids:
            taken += some
    return taken


async def _publish_all(node: Coordinator, batches: Sequence[Sequence[Event]]) -> None:
    for batch in batches:
        await node.signals.publish(batch)


async def _no_pages() -> AsyncIterator[Sequence[QueueEntry]]:
    pages: tuple[Sequence[QueueEntry], ...] = ()
    for page in pages:
        yield page


async def _set_worker(url: str, worker_id: WorkerId, **values: str) -> None:
    table = coordination_schema.worker
    change = update(table).where(table.c.id == worker_id).values(**values)
    async with look_inside(url) as database:
        await database.transact(lambda link: link.execute(change).rowcount)


async def _count(url: str, name: str) -> int:
    query = select(func.count()).select_from(getattr(coordination_schema, name))
    async with look_inside(url) as database:
        return await database.read(lambda link: int(link.execute(query).scalar_one()))


def _explain(connection: Connection, *, statement: Select[Any], bulk: Bulk) -> str:
    """The plan, as text on one line."""
    bulk.avoid_sorting(connection)
    sql = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
    how = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
    rows = connection.exec_driver_sql(f"{how} {sql}").fetchall()
    return " ".join(str(value) for row in rows for value in row)


def _check_plan(kind: str, plan: str) -> None:
    assert INDEX in plan, plan
    sorts_and_scans = {
        "sqlite": ("SCAN", "TEMP B-TREE"),
        "mariadb": (" ALL ", "filesort", "temporary"),
        "postgres": ("Seq Scan", "Sort"),
    }
    assert not any(word in plan for word in sorts_and_scans[kind]), plan


async def test_a_database_that_refuses_is_a_coordinator_that_is_away(tmp_path: Path) -> None:
    """Without the schema, say: who submits has committed before, and must not be told that it failed."""
    url = f"sqlite:///{tmp_path}/empty.db"
    async with open_sql_coordinator(url, clock=SystemClock(), random=SystemRandom()) as coordinator:
        with pytest.raises(CoordinatorUnavailableError, match="upgrade it first"):
            await coordinator.queue.push(make_entries([TaskId(1)]))
