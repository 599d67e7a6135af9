"""What the contract cannot see of the memory adapter: wakes that meet a cancellation, and what it leaves behind."""

import asyncio
from datetime import timedelta

import pytest

from rota.domain.events import Event, EventKind
from rota.domain.ids import WorkerId
from rota.domain.priority import LEVELS, NORMAL
from rota.domain.queue import MOST_BROUGHT, QueueEntry
from rota.infrastructure.coordination.memory import Bell, memory_coordinator
from rota.testing.contract.coordinator_backend import make_added, make_ids
from tests.support.clock import FakeClock, settle

LONG = timedelta(hours=1)
AT_ONCE = timedelta(0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def bell(clock: FakeClock) -> Bell:
    return Bell(clock)


async def start(bell: Bell) -> asyncio.Task[bool]:
    waiting = asyncio.create_task(bell.wait(LONG))
    await settle()
    return waiting


async def test_a_ring_for_someone_who_is_leaving_wakes_the_next(bell: Bell) -> None:
    leaving, staying = await start(bell), await start(bell)
    bell.ring()
    leaving.cancel()
    assert await staying
    assert leaving.cancelled()


async def test_a_ring_for_the_last_one_leaving_is_kept(bell: Bell) -> None:
    leaving = await start(bell)
    bell.ring()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert await bell.wait(AT_ONCE)


async def test_one_ring_wakes_one(bell: Bell) -> None:
    first, second = await start(bell), await start(bell)
    bell.ring()
    await settle()
    assert first.done()
    assert not second.done()
    bell.ring()
    assert await second


async def test_waiting_leaves_no_task_behind_however_it_ends(bell: Bell, clock: FakeClock) -> None:
    before = asyncio.all_tasks()
    rung, cancelled, timed_out = [await start(bell) for _ in range(3)]
    bell.ring()
    cancelled.cancel()
    await clock.run(LONG)
    await asyncio.gather(rung, cancelled, timed_out, return_exceptions=True)
    assert (rung.result(), cancelled.cancelled(), timed_out.result()) == (True, True, False)
    assert asyncio.all_tasks() == before


async def test_a_take_that_waits_is_sent_away_when_its_worker_is_removed(clock: FakeClock) -> None:
    node = memory_coordinator(clock)
    taking = asyncio.create_task(node.deliveries.take(WorkerId(1), 1, wait=LONG))
    await settle()
    await node.pool.remove([WorkerId(1)])
    assert await taking == []


async def test_who_comes_back_to_a_process_that_was_restarted_is_told_that_some_were_missed(clock: FakeClock) -> None:
    event = Event(kind=EventKind.WORKER_ONLINE, at=clock.now())
    before = memory_coordinator(clock)
    async with before.signals.subscribe() as events:
        await before.signals.publish([event])
        heard = await anext(events)
    clock.advance(LONG)
    after = memory_coordinator(clock)
    await after.signals.publish([event] * 5)
    async with after.signals.subscribe(after=heard.id) as events:
        assert (await anext(events)).event is None


async def test_in_a_long_queue_no_more_tasks_bring_themselves_along(clock: FakeClock) -> None:
    queue = memory_coordinator(clock).queue
    ids = make_ids(MOST_BROUGHT + 1)
    await queue.push([QueueEntry(task_id, NORMAL, added=make_added(task_id)) for task_id in ids])
    assert len((await queue.take(len(ids), order=LEVELS)).added) == MOST_BROUGHT
