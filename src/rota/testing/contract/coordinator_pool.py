"""The contract of `WorkerPool`."""

from dataclasses import replace
from datetime import timedelta

import pytest

from rota.application.ports.coordinator import Coordinator
from rota.domain.ids import WorkerId
from rota.domain.priority import LEVELS
from rota.domain.worker import MAX_CAPACITY, Heartbeat, Worker
from rota.testing.contract.coordinator_backend import (
    AT_ONCE,
    LONG,
    WORKER_1,
    WORKER_2,
    CoordinatorBackend,
    make_attempts,
    make_ids,
    make_worker,
)
from rota.testing.contract.in_time import in_time


@pytest.mark.asyncio
class TestWorkerPool:
    async def test_a_fresh_pool_is_empty(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        assert await node.pool.list_alive() == []

    async def test_every_node_sees_a_registered_worker_as_it_is(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        worker = Worker(
            id=WORKER_1,
            name="pod-3",
            address="10.0.0.3:7000",
            capacity=64,
            types=frozenset({"mail", "report.daily"}),
            weight=3,
            labels={"zone": "北", "size": "größer"},
            load=7,
            is_draining=True,
        )
        await a.pool.register(worker, LONG)
        assert await b.pool.list_alive() == [worker]

    async def test_workers_are_listed_by_id(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = [WorkerId(9), WorkerId(100), WORKER_2, WORKER_1]
        for worker_id in ids:
            await node.pool.register(make_worker(worker_id), LONG)
        assert [worker.id for worker in await node.pool.list_alive()] == sorted(ids)

    async def test_registering_again_replaces_what_was_known(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        first = replace(make_worker(capacity=10), labels={"zone": "north"})
        await node.pool.register(first, LONG)
        second = replace(make_worker(capacity=50, load=3), is_draining=True)
        await node.pool.register(second, LONG)
        assert await node.pool.list_alive() == [second]

    async def test_a_heartbeat_reports_the_load_and_changes_nothing_else(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        worker = replace(make_worker(capacity=10), is_draining=True)
        await node.pool.register(worker, LONG)
        assert await node.pool.heartbeat(WORKER_1, Heartbeat(4), lease=LONG)
        assert await node.pool.list_alive() == [replace(worker, load=4)]

    async def test_a_heartbeat_of_an_unknown_worker_is_refused(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        assert not await node.pool.heartbeat(WORKER_1, Heartbeat(0), lease=LONG)
        assert await node.pool.list_alive() == []

    async def test_a_worker_whose_lease_ran_out_is_gone(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(WORKER_1), backend.tick)
        await node.pool.register(make_worker(WORKER_2), LONG)
        await backend.wait(backend.tick * 2)
        assert [worker.id for worker in await node.pool.list_alive()] == [WORKER_2]

    async def test_a_heartbeat_that_comes_too_late_is_refused(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(), backend.tick)
        await backend.wait(backend.tick * 2)
        assert not await node.pool.heartbeat(WORKER_1, Heartbeat(0), lease=LONG)

    async def test_a_heartbeat_prolongs_the_lease(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()

        async def prolong() -> bool:
            await node.pool.register(make_worker(), backend.tick * 4)
            return await node.pool.heartbeat(WORKER_1, Heartbeat(0), lease=LONG)

        assert await in_time(prolong)
        await backend.wait(backend.tick * 5)
        assert [worker.id for worker in await node.pool.list_alive()] == [WORKER_1]

    async def test_a_heartbeat_that_says_nothing_new_prolongs_the_lease(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        lease, beat = backend.tick * 5, Heartbeat(2)

        async def stay() -> bool:
            await node.pool.register(make_worker(), lease)
            for _ in range(6):
                if not await node.pool.heartbeat(WORKER_1, beat, lease=lease):
                    return False
                await backend.wait(backend.tick)
            is_alive = [worker.load for worker in await node.pool.list_alive()] == [2]
            return is_alive and await node.pool.list_beats() == {WORKER_1: beat}

        assert await in_time(stay)

    async def test_a_heartbeat_that_says_nothing_new_is_refused_when_the_worker_is_gone(
        self, backend: CoordinatorBackend
    ) -> None:
        a, b = await backend.connect(), await backend.connect()
        for worker_id in (WORKER_1, WORKER_2):
            await a.pool.register(make_worker(worker_id), LONG)
            assert await a.pool.heartbeat(worker_id, Heartbeat(1), lease=LONG)
        await b.pool.remove([WORKER_1])
        assert not await a.pool.heartbeat(WORKER_1, Heartbeat(1), lease=LONG)
        await backend.forget()
        assert not await a.pool.heartbeat(WORKER_2, Heartbeat(1), lease=LONG)
        assert await b.pool.list_beats() == {}

    async def test_a_heartbeat_that_says_what_was_forgotten_is_news(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        beat = Heartbeat(load=1, completed=5)
        await a.pool.register(make_worker(), LONG)
        await a.pool.heartbeat(WORKER_1, beat, lease=LONG)
        await b.pool.register(make_worker(), LONG)
        assert await a.pool.heartbeat(WORKER_1, beat, lease=LONG)
        await b.pool.heartbeat(WORKER_1, replace(beat, load=2), lease=LONG)
        assert await a.pool.heartbeat(WORKER_1, beat, lease=LONG)
        assert await b.pool.list_beats() == {WORKER_1: beat}

    async def test_registering_again_prolongs_the_lease(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()

        async def stay() -> list[WorkerId]:
            for _ in range(2):
                await node.pool.register(make_worker(), backend.tick * 5)
                await backend.wait(backend.tick * 3)
            return [worker.id for worker in await node.pool.list_alive()]

        assert await in_time(stay) == [WORKER_1]

    async def test_registering_again_may_change_the_lease(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        for worker_id, lease in ((WORKER_1, backend.tick), (WORKER_2, LONG)):
            await node.pool.register(make_worker(worker_id), LONG)
            await node.pool.register(make_worker(worker_id), lease)
        await backend.wait(backend.tick * 2)
        assert [worker.id for worker in await node.pool.list_alive()] == [WORKER_2]

    async def test_a_worker_that_was_gone_can_register_again(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(), backend.tick)
        await backend.wait(backend.tick * 2)
        assert await node.pool.list_alive() == []
        await node.pool.register(make_worker(), LONG)
        assert await node.pool.list_alive() == [make_worker()]

    async def test_a_removed_worker_is_gone_at_once(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        await a.pool.register(make_worker(WORKER_1), LONG)
        await a.pool.register(make_worker(WORKER_2), LONG)
        await a.pool.remove([WORKER_1])
        assert [worker.id for worker in await b.pool.list_alive()] == [WORKER_2]
        assert not await a.pool.heartbeat(WORKER_1, Heartbeat(0), lease=LONG)

    async def test_any_number_of_workers_is_removed_at_once(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(WORKER_1), LONG)
        await node.pool.register(make_worker(WORKER_2), LONG)
        await node.pool.remove([WORKER_1, *(WorkerId(WORKER_2 + number) for number in range(1, 1101))])
        assert [worker.id for worker in await node.pool.list_alive()] == [WORKER_2]

    async def test_removing_a_worker_drops_its_queues(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(), LONG)
        await node.deliveries.assign(make_attempts(make_ids(3)))
        await node.deliveries.take(WORKER_1, 1, wait=AT_ONCE)
        await node.pool.remove([WORKER_1])
        assert await node.deliveries.held(WORKER_1) == []
        assert await node.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == []

    async def test_removing_a_worker_leaves_the_queues_of_others(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        attempts = make_attempts(make_ids(3), worker_id=WORKER_2)
        await node.deliveries.assign(attempts)
        await node.pool.remove([WORKER_1])
        assert await node.deliveries.take(WORKER_2, 10, wait=AT_ONCE) == attempts

    async def test_removing_unknown_workers_or_none_does_nothing(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(WORKER_1), LONG)
        await node.pool.remove([WORKER_2])
        await node.pool.remove([])
        assert await node.pool.list_alive() == [make_worker(WORKER_1)]

    async def test_a_lost_memory_asks_the_workers_to_register_again(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(), LONG)
        await backend.forget()
        assert not await node.pool.heartbeat(WORKER_1, Heartbeat(0), lease=LONG)

    async def test_hundreds_of_workers_are_listed(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        workers = [make_worker(WorkerId(WORKER_1 + number), load=number % 10) for number in range(200)]
        for worker in workers:
            await node.pool.register(worker, timedelta(minutes=1))
        assert await node.pool.list_alive() == workers

    async def test_every_node_sees_the_last_heartbeat_of_each_worker(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        one, other = make_ids(2)
        await a.pool.register(make_worker(WORKER_1), LONG)
        await a.pool.register(make_worker(WORKER_2), LONG)
        beat = Heartbeat(load=2, completed=2**40, held=frozenset({(one, 1), (other, 4_711)}))
        await a.pool.heartbeat(WORKER_1, Heartbeat(load=1, completed=7, held=frozenset({(one, 1)})), lease=LONG)
        await a.pool.heartbeat(WORKER_1, beat, lease=LONG)
        await a.pool.heartbeat(WORKER_2, Heartbeat(load=0), lease=LONG)
        assert await b.pool.list_beats() == {WORKER_1: beat, WORKER_2: Heartbeat(load=0)}

    async def test_a_heartbeat_carries_as_much_as_a_worker_may_hold(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(), LONG)
        held = frozenset((task_id, number) for number, task_id in enumerate(make_ids(MAX_CAPACITY), start=1))
        await node.pool.heartbeat(WORKER_1, Heartbeat(load=len(held), held=held), lease=LONG)
        assert (await node.pool.list_beats())[WORKER_1].held == held

    async def test_a_worker_that_has_not_beaten_yet_is_not_said_to_hold_nothing(
        self, backend: CoordinatorBackend
    ) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(load=3), LONG)
        assert await node.pool.list_beats() == {}

    async def test_registering_again_forgets_the_heartbeat(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.pool.register(make_worker(), LONG)
        await node.pool.heartbeat(WORKER_1, Heartbeat(load=1, completed=5), lease=LONG)
        await node.pool.register(make_worker(), LONG)
        assert await node.pool.list_beats() == {}

    async def test_registering_again_as_it_is_known_may_keep_the_heartbeat(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        beat = Heartbeat(load=1, completed=5)
        await a.pool.register(make_worker(), LONG)
        await a.pool.heartbeat(WORKER_1, beat, lease=LONG)
        await b.pool.register(make_worker(load=1), LONG)
        assert await a.pool.list_alive() == [make_worker(load=1)]
        assert await a.pool.list_beats() in ({}, {WORKER_1: beat})
        await b.pool.register(replace(make_worker(load=1), is_draining=True), LONG)
        assert await a.pool.list_beats() == {}
        assert await a.pool.heartbeat(WORKER_1, beat, lease=LONG)
        assert await b.pool.list_beats() == {WORKER_1: beat}

    async def test_the_heartbeat_of_a_worker_that_is_gone_is_not_shown(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        for worker_id in (WORKER_1, WORKER_2):
            await node.pool.register(make_worker(worker_id), LONG)
        await node.pool.heartbeat(WORKER_1, Heartbeat(load=1), lease=backend.tick)
        await node.pool.heartbeat(WORKER_2, Heartbeat(load=1), lease=LONG)
        await node.pool.remove([WORKER_2])
        await backend.wait(backend.tick * 2)
        assert await node.pool.list_beats() == {}

    async def test_who_takes_is_told_that_the_pool_has_changed_if_changes_are_counted(
        self, backend: CoordinatorBackend
    ) -> None:
        node, scheduler = await backend.connect(), await backend.connect()
        for worker_id in (WORKER_1, WORKER_2):
            await node.pool.register(make_worker(worker_id), LONG)
        first = await _find_changes(scheduler)
        await node.pool.heartbeat(WORKER_1, Heartbeat(load=1), lease=LONG)
        assert await _find_changes(scheduler) == first
        await node.pool.register(replace(make_worker(), is_draining=True), LONG)
        second = await _find_changes(scheduler)
        await node.pool.remove([WORKER_1])
        third = await _find_changes(scheduler)
        assert len({first, second, third}) == (1 if first is None else 3)


async def _find_changes(node: Coordinator) -> int | None:
    return (await node.queue.take(0, order=LEVELS)).changes
