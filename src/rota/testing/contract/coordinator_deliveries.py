"""The contract of `Deliveries`."""

import asyncio

import pytest

from rota.domain.attempt import Attempt
from rota.testing.contract.coordinator_backend import (
    AT_ONCE,
    LONG,
    MANY,
    WORKER_1,
    WORKER_2,
    CoordinatorBackend,
    begin,
    make_attempts,
    make_entries,
    make_ids,
    make_worker,
    outlast,
)


@pytest.mark.asyncio
class TestDeliveries:
    async def test_a_worker_takes_what_it_was_assigned_oldest_first(self, backend: CoordinatorBackend) -> None:
        scheduler, worker = await backend.connect(), await backend.connect()
        first, second = make_attempts(make_ids(6)[3:]), make_attempts(make_ids(3))
        await scheduler.deliveries.assign(first)
        await scheduler.deliveries.assign(second)
        assert await worker.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == first + second

    async def test_a_worker_takes_from_its_own_queue_only(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(4)
        mine, others = make_attempts(ids[:2]), make_attempts(ids[2:], worker_id=WORKER_2)
        await node.deliveries.assign([others[0], mine[0], others[1], mine[1]])
        assert await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == mine
        assert await node.deliveries.take(WORKER_2, 10, wait=AT_ONCE) == others

    async def test_what_a_limit_leaves_needs_no_other_wake(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(3))
        await node.deliveries.assign(attempts)
        assert [await node.deliveries.take(WORKER_1, 1, wait=LONG) for _ in attempts] == [[each] for each in attempts]

    async def test_a_take_brings_no_more_than_its_limit(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(5))
        await node.deliveries.assign(attempts)
        assert await node.deliveries.take(WORKER_1, 2, wait=LONG) == attempts[:2]
        assert await node.deliveries.take(WORKER_1, 2, wait=LONG) == attempts[2:4]
        assert await node.deliveries.take(WORKER_1, 2, wait=LONG) == attempts[4:]

    async def test_the_number_of_the_attempt_travels_with_it(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(1), number=4_711)
        await node.deliveries.assign(attempts)
        assert await node.deliveries.take(WORKER_1, 1, wait=AT_ONCE) == attempts

    async def test_an_attempt_assigned_twice_is_taken_once(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(3))
        await node.deliveries.assign(attempts[:2])
        await node.deliveries.assign(attempts)
        assert await node.deliveries.take(WORKER_1, 1, wait=AT_ONCE) == attempts[:1]
        await node.deliveries.acknowledge(attempts[:1])
        assert await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == attempts[1:]
        assert await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == []

    async def test_an_attempt_twice_in_one_assignment_is_taken_once(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(2))
        await node.deliveries.assign(attempts + attempts)
        assert await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == attempts

    async def test_an_attempt_assigned_again_while_it_is_in_flight_is_not_taken_again(
        self, backend: CoordinatorBackend
    ) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(3))
        await node.deliveries.assign(attempts[:2])
        await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE)
        await node.deliveries.assign(attempts)
        assert await node.deliveries.take(WORKER_1, 1, wait=AT_ONCE) == attempts[2:]
        await node.deliveries.acknowledge(attempts)
        assert await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == []

    async def test_a_later_attempt_of_a_task_in_flight_is_taken(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(1)
        await node.deliveries.assign(make_attempts(ids, number=1))
        await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE)
        await node.deliveries.assign(make_attempts(ids, number=2))
        assert await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == make_attempts(ids, number=2)

    async def test_what_is_assigned_and_not_yet_taken_is_listed_oldest_first(self, backend: CoordinatorBackend) -> None:
        scheduler, worker = await backend.connect(), await backend.connect()
        first, second = make_attempts(make_ids(6)[3:]), make_attempts(make_ids(3))
        assert await scheduler.deliveries.list_assigned(WORKER_1) == []
        await scheduler.deliveries.assign(first + make_attempts(make_ids(1), worker_id=WORKER_2))
        await scheduler.deliveries.assign(second + first)
        assert await scheduler.deliveries.list_assigned(WORKER_1) == first + second
        await worker.deliveries.take(WORKER_1, 2, wait=AT_ONCE)
        assert await scheduler.deliveries.list_assigned(WORKER_1) == first[2:] + second

    async def test_a_large_batch_arrives_whole_and_in_order(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(MANY))
        await node.deliveries.assign(attempts)
        assert await node.deliveries.take(WORKER_1, MANY, wait=AT_ONCE) == attempts
        assert await node.deliveries.held(WORKER_1) == attempts
        await node.deliveries.acknowledge(attempts)
        assert await node.deliveries.held(WORKER_1) == []

    async def test_a_waiting_take_is_woken_by_an_assignment(self, backend: CoordinatorBackend) -> None:
        scheduler, worker = await backend.connect(), await backend.connect()
        taking = await begin(backend, worker.deliveries.take(WORKER_1, 10, wait=LONG))
        attempts = make_attempts(make_ids(3))
        await scheduler.deliveries.assign(attempts)
        assert await taking == attempts

    async def test_an_assignment_to_another_worker_wakes_nobody(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.deliveries.assign(make_attempts(make_ids(1), worker_id=WORKER_2))
        assert await outlast(backend, node.deliveries.take(WORKER_1, 10, wait=backend.tick)) == []

    async def test_one_assignment_wakes_each_of_its_workers(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        taking = [
            await begin(backend, node.deliveries.take(WORKER_1, 10, wait=LONG)),
            await begin(backend, node.deliveries.take(WORKER_2, 10, wait=LONG)),
        ]
        one, other = make_ids(2)
        await node.deliveries.assign([*make_attempts([one]), *make_attempts([other], worker_id=WORKER_2)])
        taken = await asyncio.gather(*taking)
        assert taken == [make_attempts([one]), make_attempts([other], worker_id=WORKER_2)]

    async def test_a_take_waits_again_after_it_has_emptied_the_queue(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        one, other = make_ids(2)
        await node.deliveries.assign(make_attempts([one]))
        await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE)
        taking = await begin(backend, node.deliveries.take(WORKER_1, 10, wait=LONG))
        assert not taking.done()
        await node.deliveries.assign(make_attempts([other]))
        assert await taking == make_attempts([other])

    async def test_a_take_from_an_empty_queue_ends_with_its_wait(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        assert await outlast(backend, node.deliveries.take(WORKER_1, 10, wait=backend.tick)) == []
        assert await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == []

    async def test_what_comes_between_two_waits_is_taken_by_the_next(self, backend: CoordinatorBackend) -> None:
        scheduler, worker = await backend.connect(), await backend.connect()
        assert await outlast(backend, worker.deliveries.take(WORKER_1, 10, wait=backend.tick)) == []
        first, second = make_attempts(make_ids(4)[:2]), make_attempts(make_ids(4)[2:])
        await scheduler.deliveries.assign(first)
        assert await worker.deliveries.take(WORKER_1, 10, wait=LONG) == first
        assert await outlast(backend, worker.deliveries.take(WORKER_1, 10, wait=backend.tick)) == []
        await scheduler.deliveries.assign(second)
        assert await worker.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == second

    async def test_what_was_taken_after_a_wait_for_nothing_is_held(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(3))
        assert await outlast(backend, node.deliveries.take(WORKER_1, 10, wait=backend.tick)) == []
        assert await node.deliveries.held(WORKER_1) == []
        await node.deliveries.assign(attempts)
        assert await node.deliveries.take(WORKER_1, 2, wait=LONG) == attempts[:2]
        assert await node.deliveries.held(WORKER_1) == attempts[:2]
        assert await node.deliveries.take(WORKER_1, 2, wait=AT_ONCE) == attempts[2:]
        assert await outlast(backend, node.deliveries.take(WORKER_1, 10, wait=backend.tick)) == []
        assert await node.deliveries.held(WORKER_1) == attempts

    async def test_a_take_that_was_cancelled_leaves_what_comes_later(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        taking = await begin(backend, node.deliveries.take(WORKER_1, 10, wait=LONG))
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        attempts = make_attempts(make_ids(2))
        await node.deliveries.assign(attempts)
        assert await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == attempts

    async def test_what_was_taken_is_held_until_acknowledged(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(3))
        await node.deliveries.assign(attempts)
        assert await node.deliveries.held(WORKER_1) == []
        await node.deliveries.take(WORKER_1, 2, wait=AT_ONCE)
        assert _by_id(await node.deliveries.held(WORKER_1)) == attempts[:2]
        await node.deliveries.acknowledge(attempts[:1])
        assert await node.deliveries.held(WORKER_1) == attempts[1:2]

    async def test_acknowledging_one_attempt_leaves_another_of_the_same_task(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(1)
        old, new = make_attempts(ids, number=1), make_attempts(ids, number=2)
        await node.deliveries.assign(old + new)
        await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE)
        await node.deliveries.acknowledge(old)
        assert await node.deliveries.held(WORKER_1) == new

    async def test_an_acknowledgement_may_cover_several_workers(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        one, other = make_ids(2)
        attempts = [*make_attempts([one]), *make_attempts([other], worker_id=WORKER_2)]
        await node.deliveries.assign(attempts)
        await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE)
        await node.deliveries.take(WORKER_2, 10, wait=AT_ONCE)
        await node.deliveries.acknowledge(attempts)
        assert await node.deliveries.held(WORKER_1) == []
        assert await node.deliveries.held(WORKER_2) == []

    async def test_acknowledging_what_is_not_held_does_no_harm(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(2))
        await node.deliveries.assign(attempts)
        await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE)
        for _ in range(2):
            await node.deliveries.acknowledge(attempts[:1])
        assert await node.deliveries.held(WORKER_1) == attempts[1:]

    async def test_what_is_acknowledged_before_it_was_taken_is_taken_no_more(self, backend: CoordinatorBackend) -> None:
        scheduler, worker = await backend.connect(), await backend.connect()
        attempts = make_attempts(make_ids(4))
        await scheduler.deliveries.assign(attempts)
        await worker.deliveries.take(WORKER_1, 1, wait=AT_ONCE)
        await scheduler.deliveries.acknowledge(attempts[:3:2])  # one in flight, one in the queue
        assert await worker.deliveries.held(WORKER_1) == []
        assert await scheduler.deliveries.list_assigned(WORKER_1) == attempts[1::2]
        assert await worker.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == attempts[1::2]

    async def test_a_take_waits_when_all_was_acknowledged_before_it(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        one, other = make_ids(2)
        await node.deliveries.assign(make_attempts([one]))
        await node.deliveries.acknowledge(make_attempts([one]))
        taking = await begin(backend, node.deliveries.take(WORKER_1, 10, wait=LONG))
        assert not taking.done()
        await node.deliveries.assign(make_attempts([other]))
        assert await taking == make_attempts([other])

    async def test_a_large_batch_is_forgotten_before_it_was_taken(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(MANY))
        await node.deliveries.assign(attempts)
        await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE)
        await node.deliveries.acknowledge(attempts[:-1])
        assert await node.deliveries.held(WORKER_1) == []
        assert await node.deliveries.list_assigned(WORKER_1) == attempts[-1:]

    async def test_an_acknowledgement_wakes_the_scheduler(self, backend: CoordinatorBackend) -> None:
        scheduler, worker = await backend.connect(), await backend.connect()
        attempts = make_attempts(make_ids(1))
        await scheduler.deliveries.assign(attempts)
        await worker.deliveries.take(WORKER_1, 1, wait=AT_ONCE)
        waiting = await begin(backend, scheduler.queue.wait_for_work(LONG))
        await worker.deliveries.acknowledge(attempts)
        assert await waiting

    async def test_empty_batches_do_nothing(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.deliveries.assign([])
        await node.deliveries.acknowledge([])
        assert not await node.queue.wait_for_work(AT_ONCE)

    async def test_the_depths_count_what_each_worker_has(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(WORKER_1), LONG)
        await node.pool.register(make_worker(WORKER_2), LONG)
        await node.deliveries.assign(make_attempts(make_ids(5)))
        await node.deliveries.take(WORKER_1, 2, wait=AT_ONCE)
        depths = await node.queue.depths()
        assert depths.assigned == {WORKER_1: 3}
        assert depths.in_flight == {WORKER_1: 2}

    async def test_the_loads_say_what_each_worker_has(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(WORKER_1), LONG)
        ids = make_ids(8)
        await node.queue.push(make_entries(ids[:3]))
        await node.deliveries.assign(make_attempts(ids[3:]))
        await node.deliveries.take(WORKER_1, 2, wait=AT_ONCE)
        loads = await node.queue.loads()
        assert loads.assigned == {WORKER_1: 3}
        assert loads.in_flight == {WORKER_1: 2}

    async def test_a_lost_memory_holds_nothing(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.deliveries.assign(make_attempts(make_ids(2)))
        await node.deliveries.take(WORKER_1, 1, wait=AT_ONCE)
        await backend.forget()
        assert await node.deliveries.held(WORKER_1) == []
        assert await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == []


def _by_id(attempts: list[Attempt]) -> list[Attempt]:
    return sorted(attempts, key=lambda attempt: attempt.task_id)
