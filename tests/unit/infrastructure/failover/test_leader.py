"""Leases and queues, while processes see different sides."""

from datetime import timedelta

import pytest

from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.priority import LEVELS
from rota.infrastructure.coordination.memory import join_memory
from rota.testing.contract.coordinator_backend import (
    LONG,
    NODE_A,
    NODE_B,
    NOON,
    make_entries,
    make_ids,
    make_pages,
)
from rota.testing.faults import Fault
from rota.testing.virtual_time import run_virtually
from tests.unit.infrastructure.failover.cluster import Cluster, switch_back, switch_over

ORDER = tuple(reversed(LEVELS))
TTL = timedelta(seconds=6)


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
                await cluster.pass_time(1.5)  # until it is seen to answer
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

    def test_a_leader_that_loses_the_primary_may_lead_on_the_fallback_at_once(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader, cluster.start() as other:
                lease = await leader.node.election.campaign(NODE_A, TTL)
                assert lease is not None
                for process in (leader, other):
                    await switch_over(process)
                assert await other.node.election.campaign(NODE_B, TTL) is None
                with pytest.raises(CoordinatorUnavailableError):
                    await leader.node.election.renew(NODE_A, lease, ttl=TTL)
                assert await other.node.election.campaign(NODE_B, TTL) is not None

        run_virtually(main())

    def test_a_leader_that_wakes_up_late_leaves_the_mark_of_its_successor(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as late, cluster.start() as leader:
                old = await late.node.election.campaign(NODE_A, TTL)
                assert old is not None
                await cluster.pass_time(TTL.total_seconds())
                assert await leader.node.election.campaign(NODE_B, TTL) is not None
                await switch_over(late)
                with pytest.raises(CoordinatorUnavailableError):
                    await late.node.election.renew(NODE_A, old, ttl=TTL)
                assert await late.node.election.campaign(NODE_A, TTL) is None

        run_virtually(main())

    def test_a_primary_that_is_known_to_be_away_is_not_waited_for_to_resign(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            async with cluster.start() as leader:
                lease = await leader.node.election.campaign(NODE_A, TTL)
                assert lease is not None
                await switch_over(leader)
                leader.primary_way.end()  # it would answer, but nobody has seen that yet
                with pytest.raises(CoordinatorUnavailableError):
                    await leader.node.election.resign(NODE_A, lease)

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

    def test_what_was_taken_on_the_other_side_is_brought_though_the_side_in_use_falls_silent(self) -> None:
        async def main() -> None:
            cluster = Cluster()
            ids = make_ids(2)
            async with cluster.start() as leader, cluster.start() as other:
                await switch_over(leader)
                leader.primary_way.end()
                await cluster.pass_time(1.5)  # it answers again, but is not in use yet
                await other.node.queue.push(make_entries(ids))
                leader.fallback_way.inject("queue.take", Fault.TIMEOUT, times=2)
                taken = await leader.node.queue.take(5, order=ORDER)
                assert (taken.task_ids, taken.heads) == (tuple(ids), {})
                with pytest.raises(CoordinatorUnavailableError):
                    await leader.node.queue.take(5, order=ORDER)

        run_virtually(main())
