"""The contract of `TaskQueue`: what is ready, and who is woken."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from rota.application.ports.coordinator import Coordinator
from rota.domain.ids import TaskId
from rota.domain.priority import HIGH, LEVELS, NORMAL, URGENT
from rota.domain.queue import QueueEntry
from rota.testing.contract.coordinator_backend import (
    AT_ONCE,
    LONG,
    MANY,
    NOON,
    CoordinatorBackend,
    begin,
    make_added,
    make_entries,
    make_ids,
    make_pages,
    outlast,
)

DESCENDING = tuple(reversed(LEVELS))


@pytest.mark.asyncio
class TestTaskQueue:
    async def test_tasks_are_taken_oldest_first(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        late, early = make_ids(2)  # the order of arrival counts, not that of the ids
        await a.queue.push(make_entries([early]))
        await a.queue.push(make_entries([late]))
        assert (await b.queue.take(10, order=DESCENDING)).task_ids == (early, late)

    async def test_levels_are_exhausted_in_the_order_given(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(6)
        for level, some in ((NORMAL, ids[:2]), (HIGH, ids[2:4]), (URGENT, ids[4:])):
            await node.queue.push(make_entries(some, priority=level))
        taken = await node.queue.take(10, order=(HIGH, URGENT, NORMAL))
        assert taken.task_ids == (*ids[2:4], *ids[4:], *ids[:2])

    async def test_every_level_can_be_used(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(len(LEVELS))
        entries = [entry for level in LEVELS for entry in make_entries([ids[level]], priority=level)]
        await node.queue.push(entries)
        taken = await node.queue.take(100, order=DESCENDING)
        assert taken.task_ids == tuple(reversed(ids))

    async def test_a_take_brings_no_more_than_its_limit(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(5)
        await node.queue.push(make_entries(ids[:2], priority=URGENT) + make_entries(ids[2:]))
        assert (await node.queue.take(3, order=DESCENDING)).task_ids == tuple(ids[:3])
        assert (await node.queue.take(3, order=DESCENDING)).task_ids == tuple(ids[3:])

    async def test_a_take_leaves_the_levels_it_was_not_told(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        urgent, normal = make_ids(2)
        await node.queue.push(make_entries([urgent], priority=URGENT) + make_entries([normal]))
        taken = await node.queue.take(10, order=(NORMAL,))
        assert taken.task_ids == (normal,)
        assert taken.heads == {URGENT: urgent}

    async def test_a_take_shows_the_oldest_of_each_level_with_some_left(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(6)
        for level, some in ((NORMAL, ids[:2]), (HIGH, ids[2:4]), (URGENT, ids[4:])):
            await node.queue.push(make_entries(some, priority=level))
        taken = await node.queue.take(3, order=DESCENDING)
        assert taken.heads == {HIGH: ids[3], NORMAL: ids[0]}

    async def test_a_take_of_none_shows_the_heads_only(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(2)
        await node.queue.push(make_entries(ids))
        taken = await node.queue.take(0, order=DESCENDING)
        assert taken.task_ids == ()
        assert taken.heads == {NORMAL: ids[0]}

    async def test_an_empty_queue_has_nothing_to_take(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        taken = await node.queue.take(10, order=DESCENDING)
        assert taken.task_ids == ()
        assert taken.heads == {}

    async def test_a_large_batch_comes_out_whole_and_in_order(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(MANY)
        await node.queue.push(make_entries(ids))
        assert (await node.queue.take(MANY, order=DESCENDING)).task_ids == tuple(ids)

    async def test_two_nodes_that_take_at_once_share_without_overlap_or_loss(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        ids = make_ids(2 * MANY)
        await a.queue.push(make_entries(ids[:MANY]))
        await b.queue.push(make_entries(ids[MANY:], priority=HIGH))
        shares = await asyncio.gather(_take_all(a), _take_all(b))
        assert sorted(shares[0] + shares[1]) == ids

    async def test_a_push_wakes_the_scheduler(self, backend: CoordinatorBackend) -> None:
        scheduler, api = await backend.connect(), await backend.connect()
        waiting = await begin(backend, scheduler.queue.wait_for_work(LONG))
        await api.queue.push(make_entries(make_ids(1)))
        assert await waiting

    async def test_a_push_before_the_wait_is_not_missed(self, backend: CoordinatorBackend) -> None:
        scheduler, api = await backend.connect(), await backend.connect()
        await api.queue.push(make_entries(make_ids(1)))
        assert await scheduler.queue.wait_for_work(LONG)

    async def test_a_take_that_waits_brings_what_is_pushed(self, backend: CoordinatorBackend) -> None:
        scheduler, api = await backend.connect(), await backend.connect()
        task_id, later = make_ids(2)
        waiting = await begin(backend, scheduler.queue.take(10, order=DESCENDING, wait=LONG))
        await api.queue.push(make_entries([task_id]))
        assert (await waiting).task_ids == (task_id,)
        await api.queue.push(make_entries([later]))
        assert (await scheduler.queue.take(10, order=DESCENDING, wait=LONG)).task_ids == (later,)
        assert not await scheduler.queue.wait_for_work(AT_ONCE), "the wake was used"

    async def test_a_take_that_waits_is_woken_for_other_reasons_too(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        waiting = await begin(backend, a.queue.take(10, order=DESCENDING, wait=LONG))
        await b.queue.wake()
        taken = await waiting
        assert taken.task_ids == ()
        assert taken.is_woken

    async def test_a_take_that_waits_in_vain_brings_what_is_there(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        (task_id,) = make_ids(1)
        assert not await outlast(backend, node.queue.take(10, order=DESCENDING, wait=backend.tick))
        await node.queue.push(make_entries([task_id]))
        assert await node.queue.wait_for_work(LONG)  # its wake is gone
        taken = await outlast(backend, node.queue.take(10, order=DESCENDING, wait=backend.tick))
        assert taken.task_ids == (task_id,)
        assert not taken.is_woken

    async def test_what_a_task_brings_along_is_given_to_its_taker_or_forgotten(
        self, backend: CoordinatorBackend
    ) -> None:
        api, scheduler = await backend.connect(), await backend.connect()
        plain, *ids = make_ids(4)
        added = {task_id: make_added(task_id) for task_id in ids}
        await api.queue.push([QueueEntry(plain, HIGH), *(QueueEntry(each, HIGH, added=added[each]) for each in ids)])
        first = await scheduler.queue.take(2, order=DESCENDING)
        assert first.task_ids == (plain, ids[0])
        assert first.heads == {HIGH: ids[1]}
        rest = await scheduler.queue.take(2, order=DESCENDING)
        assert rest.task_ids == tuple(ids[1:])
        brought = {**first.added, **rest.added}
        assert brought in ({}, added)

    async def test_a_task_that_is_queued_anew_brings_nothing_of_what_it_was(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        [task_id] = make_ids(1)
        await node.queue.push([QueueEntry(task_id, NORMAL, added=make_added(task_id))])
        await node.queue.push([QueueEntry(task_id, URGENT)])
        taken = await node.queue.take(1, order=DESCENDING)
        assert (taken.task_ids, taken.added) == ((task_id,), {})

    async def test_waiting_for_work_ends_without_any(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        assert not await outlast(backend, node.queue.wait_for_work(backend.tick))
        assert not await node.queue.wait_for_work(AT_ONCE)

    async def test_an_empty_push_does_nothing(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.queue.push([])
        assert not await node.queue.wait_for_work(AT_ONCE)
        assert (await node.queue.depths()).ready == {}

    async def test_a_wake_lets_a_present_wait_return(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        waiting = await begin(backend, a.queue.wait_for_work(LONG))
        await b.queue.wake()
        assert await waiting

    async def test_a_wake_before_the_wait_is_not_lost(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        await b.queue.wake()
        assert await a.queue.wait_for_work(LONG)

    async def test_many_wakes_let_one_wait_return(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        for _ in range(5):
            await node.queue.wake()
        assert await node.queue.wait_for_work(AT_ONCE)
        assert not await node.queue.wait_for_work(AT_ONCE)

    async def test_a_wait_that_was_cancelled_takes_no_later_wake_with_it(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        waiting = await begin(backend, node.queue.wait_for_work(LONG))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await backend.wait(backend.tick)  # a server learns of it by a closed connection
        await node.queue.wake()
        assert await node.queue.wait_for_work(LONG)

    async def test_the_depths_count_what_waits(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(6)
        await node.queue.push(make_entries(ids[:1], priority=URGENT) + make_entries(ids[1:3]))
        await node.queue.push(make_entries(ids[3:], due_at=NOON))
        depths = await node.queue.depths()
        assert depths.ready == {URGENT: 1, NORMAL: 2}
        assert depths.delayed == 3
        assert depths.assigned == {}
        assert depths.in_flight == {}


@pytest.mark.asyncio
class TestGeneration:
    async def test_a_fresh_memory_has_no_generation(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        assert await node.queue.find_generation() is None

    async def test_a_rebuild_names_the_memory_for_all(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        await a.queue.rebuild("first", make_pages())
        assert await b.queue.find_generation() == "first"

    async def test_a_lost_memory_has_no_generation(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.queue.rebuild("first", make_pages())
        await backend.forget()
        assert await node.queue.find_generation() is None

    async def test_a_rebuild_replaces_what_was_queued(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        old, ready, later, delayed = make_ids(4)
        await node.queue.push(make_entries([old]) + make_entries([later], due_at=NOON))
        pages = make_pages(make_entries([ready], priority=HIGH), make_entries([delayed], due_at=NOON))
        await node.queue.rebuild("second", pages)
        assert (await node.queue.take(10, order=DESCENDING)).task_ids == (ready,)
        assert (await node.queue.move_due(NOON, 10)).moved == 1
        assert (await node.queue.take(10, order=DESCENDING)).task_ids == (delayed,)

    async def test_a_rebuild_of_many_pages_brings_them_all(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(2 * MANY)
        await node.queue.rebuild("first", make_pages(make_entries(ids[:MANY]), [], make_entries(ids[MANY:])))
        assert await _take_all(node) == ids

    async def test_a_rebuild_keeps_what_is_pushed_meanwhile(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        before, page, during = make_ids(3)
        await b.queue.push(make_entries([before]))

        async def read_pages() -> AsyncIterator[Sequence[QueueEntry]]:
            await b.queue.push(make_entries([during]))
            yield make_entries([page])

        await a.queue.rebuild("first", read_pages())
        assert sorted(await _take_all(a)) == [page, during]

    async def test_there_is_no_generation_while_a_rebuild_goes_on(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        await a.queue.rebuild("first", make_pages())
        seen: list[str | None] = []

        async def read_pages() -> AsyncIterator[Sequence[QueueEntry]]:
            seen.append(await b.queue.find_generation())
            yield []

        await a.queue.rebuild("second", read_pages())
        assert seen == [None]

    async def test_an_interrupted_rebuild_leaves_no_generation(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.queue.rebuild("first", make_pages())

        async def read_pages() -> AsyncIterator[Sequence[QueueEntry]]:
            yield make_entries(make_ids(1))
            raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await node.queue.rebuild("second", read_pages())
        assert await node.queue.find_generation() is None

    async def test_a_memory_lost_during_its_rebuild_gets_no_generation(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()

        async def read_pages() -> AsyncIterator[Sequence[QueueEntry]]:
            yield make_entries(make_ids(1))
            await backend.forget()
            yield make_entries(make_ids(1))

        await node.queue.rebuild("first", read_pages())
        assert await node.queue.find_generation() is None

    async def test_a_rebuild_wakes_the_scheduler(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.queue.rebuild("first", make_pages(make_entries(make_ids(1))))
        assert await node.queue.wait_for_work(LONG)


async def _take_all(node: Coordinator) -> list[TaskId]:
    """Everything that is ready, in small bites."""
    taken: list[TaskId] = []
    while some := (await node.queue.take(97, order=DESCENDING)).task_ids:
        taken += some
    return taken
