"""Workers and what is handed to them, while processes see different sides."""

import asyncio
from datetime import timedelta

import pytest

from rota.application.loop import Loops
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import NO_METRICS
from rota.domain.attempt import Attempt
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.ids import WorkerId
from rota.domain.worker import Heartbeat
from rota.infrastructure.coordination.failover.homes import Homes
from rota.infrastructure.coordination.failover.pool import FailoverWorkerPool
from rota.infrastructure.coordination.failover.switch import IN_DOUBT_FOR, Switch
from rota.infrastructure.coordination.memory import MemoryState, join_memory
from rota.infrastructure.system import SystemRandom
from rota.testing.contract.coordinator_backend import (
    AT_ONCE,
    LONG,
    NODE_A,
    WORKER_1,
    WORKER_2,
    make_attempts,
    make_ids,
    make_worker,
)
from rota.testing.faults import Fault
from rota.testing.virtual_time import run_virtually
from tests.unit.infrastructure.failover.cluster import Cluster, Process, switch_back, switch_over

LEASE = timedelta(seconds=12)
TTL = timedelta(seconds=6)


async def list_ids(node: Coordinator) -> list[WorkerId]:
    return [worker.id for worker in await node.pool.list_alive()]


class TestPool:
    def test_a_worker_that_moves_is_asked_to_register_again(self) -> None:
        async def main() -> None:
            async with Cluster().start() as process:
                await process.node.pool.register(make_worker(), LEASE)
                process.primary_way.begin()
                assert not await process.node.pool.heartbeat(WORKER_1, Heartbeat(0), lease=LEASE)
                await process.node.pool.register(make_worker(), LEASE)
                assert await process.node.pool.heartbeat(WORKER_1, Heartbeat(0), lease=LEASE)

        run_virtually(main())

    def test_a_leader_sees_the_workers_of_both_sides(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader, cluster.start() as worker:
                await switch_over(worker)
                await leader.node.pool.register(make_worker(WORKER_1), LONG)
                await worker.node.pool.register(make_worker(WORKER_2), LONG)
                await worker.node.pool.heartbeat(WORKER_2, Heartbeat(3), lease=LONG)
                assert await list_ids(leader.node) == [WORKER_1, WORKER_2]
                assert await leader.node.pool.list_beats() == {WORKER_2: Heartbeat(3)}

        run_virtually(main())

    def test_a_worker_that_leaves_while_both_sides_know_it_is_gone_at_once(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader, cluster.start() as worker:
                await switch_over(worker)
                await worker.node.pool.register(make_worker(), LONG)
                await switch_back(cluster, worker)
                await worker.node.pool.register(make_worker(), LONG)
                assert await list_ids(leader.node) == [WORKER_1]
                await worker.node.pool.remove([WORKER_1])
                assert await list_ids(leader.node) == []

        run_virtually(main())

    def test_the_other_side_is_looked_at_once_a_second_at_most(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader:
                for _ in range(50):
                    await leader.node.pool.list_alive()
                    await cluster.pass_time(0.1)
                assert leader.fallback_way.calls <= 6

        run_virtually(main())

    def test_a_fallback_that_is_away_does_not_disturb_while_the_primary_works(self) -> None:
        async def main() -> None:
            async with Cluster().start() as leader:
                leader.fallback_way.begin()
                await leader.node.pool.register(make_worker(), LONG)
                assert await list_ids(leader.node) == [WORKER_1]
                await leader.node.signals.request_cancel(make_ids(1), ttl=LONG)
                await leader.node.pool.remove([WORKER_1])
                assert await leader.node.election.campaign(NODE_A, TTL) is not None
                assert leader.switches == []

        run_virtually(main())

    def test_of_a_worker_on_both_sides_its_new_home_is_believed(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader, cluster.start() as worker:
                await worker.node.pool.register(make_worker(capacity=10), LEASE)
                await leader.node.pool.list_alive()
                await switch_over(worker)
                await worker.node.pool.register(make_worker(capacity=20), LEASE)
                await cluster.pass_time(1)
                assert [one.capacity for one in await leader.node.pool.list_alive()] == [20]

        run_virtually(main())

    def test_a_removed_worker_is_gone_from_both_sides(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader, cluster.start() as worker:
                await worker.node.pool.register(make_worker(), LONG)
                await switch_over(worker)
                await worker.node.pool.register(make_worker(), LONG)
                await leader.node.pool.list_alive()
                await leader.node.pool.remove([WORKER_1])
                assert await list_ids(leader.node) == []

        run_virtually(main())


class TestHomes:
    def test_a_minute_after_everybody_came_back_all_are_here(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            sides, moves = (join_memory(cluster.primary), join_memory(cluster.fallback)), list[bool]()
            switch = Switch(*sides, loops=Loops(cluster.clock, SystemRandom(), NO_METRICS), on_switch=moves.append)
            homes = Homes(switch)
            leaders = FailoverWorkerPool(switch, homes)
            primary, fallback = (side.pool for side in sides)
            for left, home in ((fallback, primary), (primary, fallback), (fallback, primary)):
                await left.remove([WORKER_1])
                await home.register(make_worker(), LONG)
                await cluster.pass_time(1)
                await leaders.list_alive()
            assert not homes.are_all_here
            await cluster.pass_time(IN_DOUBT_FOR.total_seconds())
            await primary.register(make_worker(), LONG)
            await leaders.list_alive()
            assert homes.are_all_here

        run_virtually(main())


class TestDeliveries:
    def test_work_is_handed_over_where_the_worker_beats(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            one, other = make_ids(2)
            async with cluster.start() as leader, cluster.start() as worker:
                await switch_over(worker)
                await cluster.pass_time(90)  # it no longer looks at the primary
                await leader.node.pool.register(make_worker(WORKER_1), LONG)
                await worker.node.pool.register(make_worker(WORKER_2), LONG)
                await leader.node.pool.list_alive()
                attempts = [*make_attempts([one]), *make_attempts([other], worker_id=WORKER_2)]
                await leader.node.deliveries.assign(attempts)
                assert await leader.node.deliveries.take(WORKER_1, 5, wait=AT_ONCE) == attempts[:1]
                assert (await leader.node.queue.depths()).assigned == {WORKER_2: 1}
                assert await leader.node.deliveries.list_assigned(WORKER_2) == attempts[1:]
                assert await worker.node.deliveries.take(WORKER_2, 5, wait=AT_ONCE) == attempts[1:]
                assert (await leader.node.queue.depths()).in_flight == {WORKER_1: 1, WORKER_2: 1}
                assert await leader.node.deliveries.held(WORKER_2) == attempts[1:]
                await leader.node.deliveries.acknowledge(attempts)
                assert (await leader.node.queue.depths()).in_flight == {}

        run_virtually(main())

    def test_work_for_a_home_that_falls_silent_goes_to_the_side_in_use(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader, cluster.start() as worker:
                await switch_over(worker)
                await worker.node.pool.register(make_worker(), LONG)
                await leader.node.pool.list_alive()
                leader.fallback_way.begin()
                attempts = make_attempts(make_ids(1))
                await leader.node.deliveries.assign(attempts)
                assert await join_memory(cluster.primary).deliveries.list_assigned(WORKER_1) == attempts
                assert await leader.node.deliveries.list_assigned(WORKER_1) == attempts

        run_virtually(main())

    def test_a_worker_is_at_home_again_where_it_returned_to(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader, cluster.start() as worker:
                await worker.node.pool.register(make_worker(), LONG)
                await leader.node.pool.list_alive()
                await switch_over(worker)
                await worker.node.pool.register(make_worker(), timedelta(seconds=3))
                await cluster.pass_time(1)
                await leader.node.pool.list_alive()
                await switch_back(cluster, worker)
                assert await worker.node.pool.heartbeat(WORKER_1, Heartbeat(0), lease=LONG)
                await leader.node.pool.list_alive()
                attempts = make_attempts(make_ids(1))
                await leader.node.deliveries.assign(attempts)
                assert await join_memory(cluster.primary).deliveries.list_assigned(WORKER_1) == attempts

        run_virtually(main())

    def test_what_a_silent_home_holds_is_never_said_to_be_nothing(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader, cluster.start() as worker:
                await switch_over(worker)
                await worker.node.pool.register(make_worker(), LONG)
                await leader.node.pool.list_alive()
                leader.fallback_way.inject("deliveries.held", Fault.TIMEOUT)
                with pytest.raises(CoordinatorUnavailableError):
                    await leader.node.deliveries.held(WORKER_1)

        run_virtually(main())

    def test_a_leader_without_the_primary_hands_over_on_the_fallback(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader, cluster.start() as worker:
                await worker.node.pool.register(make_worker(), LONG)
                await leader.node.pool.list_alive()
                for process in (leader, worker):
                    process.primary_way.begin()
                attempts = make_attempts(make_ids(1))
                await leader.node.deliveries.assign(attempts)
                assert await worker.node.deliveries.take(WORKER_1, 5, wait=timedelta(seconds=1)) == attempts

        run_virtually(main())

    def test_a_worker_that_moved_takes_what_was_assigned_where_it_came_from(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            attempts = make_attempts(make_ids(2))
            async with cluster.start() as worker:
                await switch_over(worker)
                await worker.node.pool.register(make_worker(), LONG)
                await switch_back(cluster, worker)
                await join_memory(cluster.fallback).deliveries.assign(attempts)
                assert await worker.node.deliveries.take(WORKER_1, 5, wait=timedelta(seconds=2)) == attempts
                assert await worker.node.deliveries.held(WORKER_1) == attempts
                await worker.node.deliveries.acknowledge(attempts)
                assert await join_memory(cluster.fallback).deliveries.held(WORKER_1) == []

        run_virtually(main())

    def test_a_worker_looks_where_it_came_from_once_a_second_for_a_minute(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as worker:
                await switch_over(worker)
                await worker.node.pool.register(make_worker(), LONG)
                await switch_back(cluster, worker)
                await _take_for(cluster, worker, seconds=10)
                assert 9 <= worker.fallback_way.calls - 3 <= 13
                await _take_for(cluster, worker, seconds=60)
                asked = worker.fallback_way.calls
                await _take_for(cluster, worker, seconds=20)
                assert worker.fallback_way.calls == asked

        run_virtually(main())

    def test_an_attempt_handed_over_on_both_sides_is_brought_once(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            attempts = make_attempts(make_ids(2))
            async with cluster.start() as worker:
                await worker.node.pool.register(make_worker(), LONG)
                await worker.node.deliveries.assign(attempts)
                assert await worker.node.deliveries.take(WORKER_1, 5, wait=AT_ONCE) == attempts
                await switch_over(worker)
                await worker.node.deliveries.assign(attempts)
                assert await worker.node.deliveries.take(WORKER_1, 5, wait=timedelta(seconds=2)) == []
                await worker.node.deliveries.acknowledge(attempts)
                assert await worker.node.deliveries.held(WORKER_1) == []
                await worker.node.deliveries.assign(attempts[:1])
                assert await worker.node.deliveries.take(WORKER_1, 5, wait=AT_ONCE) == attempts[:1]

        run_virtually(main())

    def test_what_is_held_on_both_sides_is_listed_once_and_in_order(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            attempts = make_attempts(make_ids(3))
            await _hold(cluster.primary, attempts[1:])
            await _hold(cluster.fallback, attempts[:2])
            async with cluster.start() as worker:
                await switch_over(worker)
                await worker.node.pool.register(make_worker(), LONG)
                assert await worker.node.deliveries.held(WORKER_1) == attempts[:2]
                await switch_back(cluster, worker)
                assert await worker.node.deliveries.held(WORKER_1) == attempts

        run_virtually(main())


async def _take_for(cluster: Cluster, worker: Process, *, seconds: float) -> None:
    end = cluster.clock.monotonic() + seconds
    while cluster.clock.monotonic() < end:
        await worker.node.deliveries.take(WORKER_1, 5, wait=timedelta(seconds=1))
        await asyncio.sleep(0)  # noqa: TID251 one turn of the loop


async def _hold(state: MemoryState, attempts: list[Attempt]) -> None:
    await join_memory(state).deliveries.assign(attempts)
    await join_memory(state).deliveries.take(WORKER_1, len(attempts), wait=AT_ONCE)
