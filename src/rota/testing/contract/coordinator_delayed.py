"""The contract of `TaskQueue`: what is not due yet. The time is passed in; the backend's own clock has no say."""

from datetime import timedelta

import pytest

from rota.domain.priority import HIGH, LEVELS, NORMAL
from rota.testing.contract.coordinator_backend import (
    AT_ONCE,
    LONG,
    MANY,
    MICROSECOND,
    NOON,
    CoordinatorBackend,
    begin,
    make_entries,
    make_ids,
)

DESCENDING = tuple(reversed(LEVELS))
MINUTE = timedelta(minutes=1)


@pytest.mark.asyncio
class TestDelayed:
    async def test_a_delayed_task_is_not_ready(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.queue.push(make_entries(make_ids(1), due_at=NOON))
        assert (await node.queue.take(10, order=DESCENDING)).task_ids == ()

    async def test_a_task_whose_time_has_passed_waits_to_be_moved_too(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.queue.push(make_entries(make_ids(1), due_at=NOON.replace(year=1999)))
        assert (await node.queue.take(10, order=DESCENDING)).task_ids == ()
        assert (await node.queue.move_due(NOON, 10)).moved == 1

    async def test_a_task_is_moved_when_due_and_not_a_microsecond_before(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        (task_id,) = ids = make_ids(1)
        await node.queue.push(make_entries(ids, due_at=NOON))
        early = await node.queue.move_due(NOON - MICROSECOND, 10)
        assert (early.moved, early.next_due_at) == (0, NOON)
        due = await node.queue.move_due(NOON, 10)
        assert (due.moved, due.next_due_at) == (1, None)
        assert (await node.queue.take(10, order=DESCENDING)).task_ids == (task_id,)

    async def test_a_moved_task_is_ready_at_its_priority(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        high, normal = make_ids(2)
        await node.queue.push(make_entries([normal], priority=NORMAL, due_at=NOON - MINUTE))
        await node.queue.push(make_entries([high], priority=HIGH, due_at=NOON))
        await node.queue.move_due(NOON, 10)
        assert (await node.queue.take(1, order=(HIGH,))).task_ids == (high,)
        assert (await node.queue.take(1, order=(NORMAL,))).task_ids == (normal,)

    async def test_the_earliest_due_are_moved_first_up_to_the_limit(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        late, early, middle = make_ids(3)
        for task_id, due_at in ((late, NOON), (early, NOON - 2 * MINUTE), (middle, NOON - MINUTE)):
            await node.queue.push(make_entries([task_id], due_at=due_at))
        move = await node.queue.move_due(NOON, 2)
        assert (move.moved, move.next_due_at) == (2, NOON)
        assert (await node.queue.take(10, order=DESCENDING)).task_ids == (early, middle)

    async def test_moving_tells_when_the_next_is_due(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        one, other = make_ids(2)
        later = NOON + timedelta(days=1, microseconds=1)
        await node.queue.push(make_entries([one], due_at=NOON) + make_entries([other], due_at=later))
        assert (await node.queue.move_due(NOON, 10)).next_due_at == later

    async def test_nothing_delayed_means_nothing_to_move(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        move = await node.queue.move_due(NOON, 10)
        assert (move.moved, move.next_due_at) == (0, None)

    async def test_a_large_batch_is_moved_whole(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(MANY)
        await node.queue.push(make_entries(ids, due_at=NOON))
        assert (await node.queue.move_due(NOON, MANY)).moved == MANY
        assert sorted((await node.queue.take(MANY, order=DESCENDING)).task_ids) == ids

    async def test_ready_and_delayed_tasks_may_share_a_batch(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ready, delayed = make_ids(2)
        await node.queue.push(make_entries([delayed], due_at=NOON) + make_entries([ready]))
        assert (await node.queue.take(10, order=DESCENDING)).task_ids == (ready,)
        assert (await node.queue.depths()).delayed == 1

    async def test_a_task_pushed_again_keeps_only_its_last_due_time(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(1)
        await node.queue.push(make_entries(ids, due_at=NOON))
        await node.queue.push(make_entries(ids, due_at=NOON + MINUTE))
        move = await node.queue.move_due(NOON, 10)
        assert (move.moved, move.next_due_at) == (0, NOON + MINUTE)

    async def test_a_discarded_task_never_becomes_ready(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        kept, dropped = make_ids(2)
        await a.queue.push(make_entries([kept, dropped], priority=HIGH, due_at=NOON))
        await b.queue.discard(make_entries([dropped], priority=HIGH))  # the due time need not be known
        assert (await a.queue.move_due(NOON, 10)).moved == 1
        assert (await a.queue.take(10, order=DESCENDING)).task_ids == (kept,)

    async def test_discarding_leaves_what_is_ready(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(1)
        await node.queue.push(make_entries(ids))
        await node.queue.discard(make_entries(ids))
        assert (await node.queue.take(10, order=DESCENDING)).task_ids == tuple(ids)

    async def test_discarding_many_unknown_or_none_is_fine(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        entries = make_entries(make_ids(MANY), due_at=NOON)
        await node.queue.discard([])
        await node.queue.discard(entries)
        await node.queue.push(entries)
        await node.queue.discard(entries)
        assert (await node.queue.depths()).delayed == 0

    async def test_moving_due_tasks_wakes_the_scheduler(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.queue.push(make_entries(make_ids(1), due_at=NOON))
        await _hush(backend)
        await node.queue.move_due(NOON, 10)
        assert await node.queue.wait_for_work(LONG)

    async def test_moving_nothing_wakes_nobody(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.queue.push(make_entries(make_ids(1), due_at=NOON))
        await _hush(backend)
        await node.queue.move_due(NOON - MINUTE, 10)
        assert not await node.queue.wait_for_work(AT_ONCE)

    async def test_a_task_due_before_all_others_wakes_the_scheduler(self, backend: CoordinatorBackend) -> None:
        scheduler, api = await backend.connect(), await backend.connect()
        one, other = make_ids(2)
        await api.queue.push(make_entries([one], due_at=NOON))
        await _hush(backend)
        waiting = await begin(backend, scheduler.queue.wait_for_work(LONG))
        await api.queue.push(make_entries([other], due_at=NOON - MINUTE))
        assert await waiting

    async def test_a_task_due_after_another_wakes_nobody(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        one, other = make_ids(2)
        await node.queue.push(make_entries([one], due_at=NOON))
        await _hush(backend)
        await node.queue.push(make_entries([other], due_at=NOON + MINUTE))
        assert not await node.queue.wait_for_work(AT_ONCE)

    async def test_a_lost_memory_delays_nothing(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.queue.push(make_entries(make_ids(1), due_at=NOON))
        await backend.forget()
        move = await node.queue.move_due(NOON, 10)
        assert (move.moved, move.next_due_at) == (0, None)


async def _hush(backend: CoordinatorBackend) -> None:
    """Use up the wake that the pushes before have left."""
    node = await backend.connect()
    await node.queue.wait_for_work(AT_ONCE)
