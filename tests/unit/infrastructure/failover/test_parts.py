"""What each part of the failover coordinator does while processes see different sides."""

import asyncio
from datetime import timedelta

import pytest

from rota.application.ports.coordinator import Coordinator
from rota.domain.attempt import Attempt
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event, EventKind
from rota.domain.ids import WorkerId
from rota.domain.priority import LEVELS
from rota.domain.worker import Heartbeat
from rota.infrastructure.coordination.memory import MemoryState, join_memory
from rota.testing.contract.coordinator_backend import (
    AT_ONCE,
    LONG,
    NODE_A,
    NODE_B,
    NOON,
    WORKER_1,
    WORKER_2,
    make_attempts,
    make_entries,
    make_ids,
    make_pages,
    make_worker,
)
from rota.testing.faults import Fault
from rota.testing.virtual_time import run_virtually
from tests.unit.infrastructure.failover.cluster import Cluster, Process

ORDER = tuple(reversed(LEVELS))
LEASE = timedelta(seconds=12)
TTL = timedelta(seconds=6)
BACK_S = 5  # a primary that answers again is in use after this


async def switch_over(process: Process) -> None:
    process.primary_way.begin()
    await process.node.queue.wake()


async def switch_back(cluster: Cluster, process: Process) -> None:
    process.primary_way.end()
    await cluster.pass_time(BACK_S)
    assert process.switches[-1] is False


async def list_ids(node: Coordinator) -> list[WorkerId]:
    return [worker.id for worker in await node.pool.list_alive()]


def make_event(kind: EventKind) -> Event:
    return Event(kind=kind, at=NOON, task_id=make_ids(1)[0])


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


class TestElection:
    def test_a_lease_is_renewed_on_its_own_side_only(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as process:
                lease = await process.node.election.campaign(NODE_A, TTL)
                assert lease is not None
                process.primary_way.begin()
                with pytest.raises(CoordinatorUnavailableError):
                    await process.node.election.renew(NODE_A, lease, ttl=TTL)
                assert process.switches == [True]
                await cluster.pass_time(TTL.total_seconds())
                second = await process.node.election.campaign(NODE_A, TTL)
                assert second is not None
                assert second > lease
                assert await process.node.election.renew(NODE_A, second, ttl=TTL)
                with pytest.raises(CoordinatorUnavailableError):
                    await process.node.election.renew(NODE_A, lease, ttl=TTL)

        run_virtually(main())

    def test_equal_numbers_of_the_two_sides_are_told_apart(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as process:
                old = await process.node.election.campaign(NODE_A, TTL)
                assert old is not None
                await switch_over(process)
                await cluster.pass_time(TTL.total_seconds())
                new = await process.node.election.campaign(NODE_A, LONG)
                assert (cluster.primary.last_lease, cluster.fallback.last_lease) == (1, 1)
                process.primary_way.end()
                await process.node.election.resign(NODE_A, old)
                assert await process.node.election.find_leader() == NODE_A, f"lease {new} was ended by lease {old}"

        run_virtually(main())

    def test_a_node_without_the_primary_leaves_its_leader_alone(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader, cluster.start() as cut_off:
                lease = await leader.node.election.campaign(NODE_A, TTL)
                assert lease is not None
                await switch_over(cut_off)
                for _ in range(10):
                    assert await cut_off.node.election.campaign(NODE_B, TTL) is None
                    await cluster.pass_time(2)
                    assert await leader.node.election.renew(NODE_A, lease, ttl=TTL)
                await cluster.pass_time(TTL.total_seconds())
                assert await cut_off.node.election.campaign(NODE_B, TTL) is not None, "nobody leads any more"

        run_virtually(main())

    def test_a_number_that_is_unknown_here_is_asked_for_on_the_side_in_use(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as one, cluster.start() as other:
                lease = await one.node.election.campaign(NODE_A, TTL)
                assert lease is not None
                assert await other.node.election.renew(NODE_A, lease, ttl=TTL)

        run_virtually(main())


class TestQueue:
    def test_after_a_switch_there_is_no_generation_until_it_was_rebuilt(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            await join_memory(cluster.fallback).queue.rebuild("last week", make_pages())
            async with cluster.start() as leader:
                await leader.node.queue.rebuild("first", make_pages())
                assert await leader.node.queue.find_generation() == "first"
                leader.primary_way.begin()
                assert [await leader.node.queue.find_generation() for _ in range(2)] == [None, None]
                await leader.node.queue.rebuild("second", make_pages(make_entries(make_ids(1))))
                assert await leader.node.queue.find_generation() == "second"
                assert (await leader.node.queue.take(5, order=ORDER)).task_ids == tuple(make_ids(1))
                await switch_back(cluster, leader)
                assert await leader.node.queue.find_generation() is None
                await leader.node.queue.rebuild("third", make_pages())
                assert await leader.node.queue.find_generation() == "third"

        run_virtually(main())

    def test_a_memory_that_another_process_rebuilt_after_the_switch_is_trusted(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as one, cluster.start() as other:
                await switch_over(one)
                assert await one.node.queue.find_generation() is None
                await switch_over(other)
                await other.node.queue.rebuild("second", make_pages())
                assert await one.node.queue.find_generation() == "second"

        run_virtually(main())

    def test_a_rebuild_that_was_cut_off_is_not_repeated_with_what_is_left_of_its_pages(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader:
                leader.primary_way.inject("queue.rebuild", Fault.EXECUTE_AND_TIMEOUT)
                with pytest.raises(CoordinatorUnavailableError):
                    await leader.node.queue.rebuild("first", make_pages(make_entries(make_ids(1))))
                assert leader.switches == [True]
                assert await leader.node.queue.find_generation() is None

        run_virtually(main())

    def test_entries_are_moved_and_discarded_on_the_side_in_use(self) -> None:
        async def main() -> None:
            async with Cluster().start() as leader:
                await switch_over(leader)
                ids = make_ids(2)
                await leader.node.queue.push(make_entries(ids, due_at=NOON))
                await leader.node.queue.discard(make_entries(ids[:1], due_at=NOON))
                assert (await leader.node.queue.move_due(NOON, 10)).moved == 1

        run_virtually(main())

    def test_what_is_queued_on_the_other_side_is_taken_too(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            one, other, third = make_ids(3)
            async with cluster.start() as leader, cluster.start() as cut_off:
                await switch_over(cut_off)
                await leader.node.queue.push(make_entries([one]))
                await cut_off.node.queue.push(make_entries([other]) + make_entries([third], due_at=NOON))
                await leader.node.queue.move_due(NOON, 10)
                assert (await leader.node.queue.take(1, order=ORDER)).task_ids == (other,)
                assert (await leader.node.queue.take(5, order=ORDER)).task_ids == (one,)
                await cluster.pass_time(1)
                assert (await leader.node.queue.take(5, order=ORDER)).task_ids == (third,)

        run_virtually(main())


class TestSignals:
    def test_a_cancel_request_reaches_a_worker_on_the_other_side(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as api, cluster.start() as worker:
                await switch_over(worker)
                await api.node.signals.request_cancel(make_ids(1), ttl=LONG)
                assert await worker.node.signals.find_cancelled(make_ids(2)) == set(make_ids(1))

        run_virtually(main())

    def test_for_a_minute_after_a_switch_the_requests_of_both_sides_are_found(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as worker:
                await switch_over(worker)
                await worker.node.signals.request_cancel(make_ids(1), ttl=timedelta(hours=1))
                await switch_back(cluster, worker)
                assert await worker.node.signals.find_cancelled(make_ids(1)) == set(make_ids(1))
                await cluster.pass_time(60)
                asked = worker.fallback_way.calls
                await worker.node.signals.find_cancelled(make_ids(1))
                assert worker.fallback_way.calls == asked

        run_virtually(main())

    def test_a_listener_hears_both_sides(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as api, cluster.start() as worker, api.node.signals.subscribe() as events:
                await worker.node.signals.publish([make_event(EventKind.TASK_CREATED)])
                assert (await anext(events)).kind is EventKind.TASK_CREATED
                await switch_over(worker)
                await worker.node.signals.publish([make_event(EventKind.TASK_COMPLETED)])
                assert (await anext(events)).kind is EventKind.TASK_COMPLETED

        run_virtually(main())

    @pytest.mark.parametrize("lost", ["primary", "fallback"])
    def test_a_listener_survives_the_loss_of_one_side_and_hears_it_again(self, lost: str) -> None:
        async def main() -> None:
            cluster = Cluster()
            states = {"primary": cluster.primary, "fallback": cluster.fallback}
            state = states.pop(lost)
            (other,) = states.values()
            async with cluster.start() as api, api.node.signals.subscribe() as events:
                _hang_up(state)
                await join_memory(other).signals.publish([make_event(EventKind.TASK_CREATED)])
                assert (await anext(events)).kind is EventKind.TASK_CREATED
                await cluster.pass_time(2)
                await join_memory(state).signals.publish([make_event(EventKind.TASK_COMPLETED)])
                assert (await anext(events)).kind is EventKind.TASK_COMPLETED

        run_virtually(main())

    def test_a_listener_is_told_when_both_sides_are_lost(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as api, api.node.signals.subscribe() as events:
                _hang_up(cluster.primary)
                _hang_up(cluster.fallback)
                with pytest.raises(CoordinatorUnavailableError):
                    await anext(events)

        run_virtually(main())

    def test_an_unforeseen_failure_reaches_the_listener(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as api, api.node.signals.subscribe() as events:
                _hang_up(cluster.primary, ValueError("a bug"))
                with pytest.raises(ValueError, match="a bug"):
                    await anext(events)

        run_virtually(main())

    def test_listening_begins_while_the_primary_is_away(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as api:
                api.primary_way.begin()
                for _ in range(2):  # the first finds out, the second knows
                    async with api.node.signals.subscribe() as events:
                        await api.node.signals.publish([make_event(EventKind.TASK_CREATED)])
                        assert (await anext(events)).kind is EventKind.TASK_CREATED

        run_virtually(main())

    def test_listening_does_not_begin_when_both_are_away(self) -> None:
        async def main() -> None:
            async with Cluster().start() as api:
                api.primary_way.begin()
                api.fallback_way.begin()
                with pytest.raises(CoordinatorUnavailableError):
                    async with api.node.signals.subscribe():
                        pass

        run_virtually(main())


def _hang_up(state: MemoryState, failure: Exception | None = None) -> None:
    for listener in state.listeners:
        listener.fail(failure or CoordinatorUnavailableError("hung up"))


async def _take_for(cluster: Cluster, worker: Process, *, seconds: float) -> None:
    end = cluster.clock.monotonic() + seconds
    while cluster.clock.monotonic() < end:
        await worker.node.deliveries.take(WORKER_1, 5, wait=timedelta(seconds=1))
        await asyncio.sleep(0)  # noqa: TID251 one turn of the loop


async def _hold(state: MemoryState, attempts: list[Attempt]) -> None:
    await join_memory(state).deliveries.assign(attempts)
    await join_memory(state).deliveries.take(WORKER_1, len(attempts), wait=AT_ONCE)
