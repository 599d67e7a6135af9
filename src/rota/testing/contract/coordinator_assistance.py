"""The contract of `Assistance`, which not every coordinator offers: import it beside the others where yours does."""

import asyncio
from collections.abc import Iterable

import pytest

from rota.application.ports.coordinator import Assistance, Coordinator, Holder
from rota.domain.priority import LEVELS
from rota.testing.contract.coordinator_backend import (
    AT_ONCE,
    LONG,
    NODE_A,
    NODE_B,
    NODE_C,
    WORKER_1,
    WORKER_2,
    CoordinatorBackend,
    begin,
    make_attempts,
    make_entries,
    make_ids,
    make_pages,
    make_worker,
    outlast,
)
from rota.testing.contract.in_time import in_time

FIRST, SECOND, BOTH = frozenset({WORKER_1}), frozenset({WORKER_2}), frozenset({WORKER_1, WORKER_2})


def assistance_of(coordinator: Coordinator) -> Assistance:
    assert coordinator.assistance is not None, "this coordinator offers no assistance: leave this class out"
    return coordinator.assistance


async def look(coordinator: Coordinator) -> int:
    """The moment that places are chosen by."""
    return (await coordinator.queue.loads()).as_of


async def take_seats(coordinator: Coordinator, nodes: Iterable[str] = (NODE_A, NODE_B)) -> list[Holder]:
    return [Holder(f"{node} ä/", await assistance_of(coordinator).join(NODE_A, LONG)) for node in nodes]


@pytest.mark.asyncio
class TestSeats:
    async def test_who_has_a_seat_is_present(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        await assistance_of(b).join(NODE_B, LONG)
        await assistance_of(a).join(NODE_A, LONG)
        assert await assistance_of(b).list_present() == [NODE_A, NODE_B]

    async def test_a_seat_that_is_not_renewed_is_over(self, backend: CoordinatorBackend) -> None:
        assistance = assistance_of(await backend.connect())
        seat = await assistance.join(NODE_A, backend.tick)
        await backend.wait(backend.tick * 4)
        assert await assistance.list_present() == []
        assert not await assistance.renew(NODE_A, seat)

    async def test_a_renewed_seat_lasts_longer(self, backend: CoordinatorBackend) -> None:
        assistance = assistance_of(await backend.connect())

        async def outlive() -> bool:
            seat = await assistance.join(NODE_A, backend.tick * 5)
            await backend.wait(backend.tick * 3)
            is_renewed = await assistance.renew(NODE_A, seat)
            await backend.wait(backend.tick * 3)
            return is_renewed and await assistance.list_present() == [NODE_A]

        assert await in_time(outlive)

    async def test_a_seat_that_was_given_up_is_over(self, backend: CoordinatorBackend) -> None:
        assistance = assistance_of(await backend.connect())
        seat = await assistance.join(NODE_A, LONG)
        await assistance.leave(NODE_A, seat)
        await assistance.leave(NODE_A, seat)
        assert await assistance.list_present() == []
        assert not await assistance.renew(NODE_A, seat)

    async def test_an_earlier_seat_of_a_node_may_be_given_up_without_harm(self, backend: CoordinatorBackend) -> None:
        assistance = assistance_of(await backend.connect())
        old, new = await assistance.join(NODE_A, LONG), await assistance.join(NODE_A, LONG)
        assert old != new
        await assistance.leave(NODE_A, old)
        assert await assistance.list_present() == [NODE_A]
        assert await assistance.renew(NODE_A, new)

    async def test_a_lost_memory_has_no_seats(self, backend: CoordinatorBackend) -> None:
        assistance = assistance_of(await backend.connect())
        seat = await assistance.join(NODE_A, LONG)
        await backend.forget()
        assert await assistance.list_present() == []
        assert not await assistance.renew(NODE_A, seat)


@pytest.mark.asyncio
class TestPlaces:
    async def test_what_is_reserved_is_seen_by_everybody(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        (holder,) = await take_seats(a, [NODE_A])
        places = {WORKER_1: 3, WORKER_2: 1}
        assert await assistance_of(a).reserve(holder, places, since=await look(a)) == BOTH
        looks = [await b.queue.loads(), await b.queue.depths(), await b.queue.loads()]
        for seen in looks:
            assert seen.reserved == {WORKER_1: {holder.name: 3}, WORKER_2: {holder.name: 1}}
            assert (seen.assigned, seen.in_flight) == ({}, {})
        moments = [seen.as_of for seen in looks]
        assert moments == sorted(moments), "depths and loads tell of the same moments"

    async def test_of_two_who_looked_at_the_same_time_one_gets_the_places(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        first, second = await take_seats(a)
        since = await look(b)
        assert await assistance_of(a).reserve(first, {WORKER_1: 3}, since=await look(a)) == FIRST
        assert await assistance_of(b).reserve(second, {WORKER_1: 3, WORKER_2: 1}, since=since) == SECOND
        assert await assistance_of(b).reserve(second, {WORKER_1: 2}, since=await look(b)) == FIRST
        assert (await a.queue.depths()).reserved[WORKER_1] == {first.name: 3, second.name: 2}

    async def test_many_at_once_never_get_the_same_places(self, backend: CoordinatorBackend) -> None:
        nodes = [await backend.connect() for _ in range(4)]
        holders = await take_seats(nodes[0], [f"node {number}" for number in range(len(nodes))])
        since = await look(nodes[0])
        calls = [
            assistance_of(node).reserve(holder, {WORKER_1: 1, WORKER_2: 1}, since=since)
            for node, holder in zip(nodes, holders, strict=True)
        ]
        won = [one for answer in await asyncio.gather(*calls) if answer for one in answer]
        assert sorted(won) == [WORKER_1, WORKER_2]

    async def test_what_was_assigned_meanwhile_is_noticed(self, backend: CoordinatorBackend) -> None:
        """Also when the places that it filled were given back by then, and when its worker has taken it."""
        a, b = await backend.connect(), await backend.connect()
        first, second = await take_seats(a)
        since = await look(b)
        await assistance_of(a).reserve(first, {WORKER_1: 2}, since=await look(a))
        await a.deliveries.assign(make_attempts(make_ids(2)))
        await assistance_of(a).release(first, [WORKER_1])
        await a.deliveries.take(WORKER_1, 1, wait=AT_ONCE)
        assert await assistance_of(b).reserve(second, {WORKER_1: 1}, since=since) == frozenset()

    async def test_what_was_taken_or_has_ended_meanwhile_is_no_reason_to_refuse(
        self, backend: CoordinatorBackend
    ) -> None:
        a = await backend.connect()
        (holder,) = await take_seats(a, [NODE_A])
        attempts = make_attempts(make_ids(3))
        await a.deliveries.assign(attempts)
        since = await look(a)
        await a.deliveries.take(WORKER_1, 2, wait=AT_ONCE)
        await a.deliveries.acknowledge(attempts[:1])
        assert await assistance_of(a).reserve(holder, {WORKER_1: 1}, since=since) == FIRST

    async def test_a_holder_has_only_its_last_places(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        first, second = await take_seats(a)
        await assistance_of(a).reserve(first, {WORKER_1: 3}, since=await look(a))
        since = await look(a)
        assert await assistance_of(a).reserve(first, {WORKER_1: 2}, since=since) == FIRST
        assert (await a.queue.depths()).reserved == {WORKER_1: {first.name: 2}}
        assert await assistance_of(a).reserve(second, {WORKER_1: 1}, since=since) == frozenset()

    async def test_places_are_given_back(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        first, second = await take_seats(a)
        for holder in (first, second):
            await assistance_of(a).reserve(holder, {WORKER_1: 1, WORKER_2: 1}, since=await look(a))
        for _ in range(2):
            await assistance_of(a).release(first, [WORKER_1])
        assert (await a.queue.depths()).reserved == {
            WORKER_1: {second.name: 1},
            WORKER_2: {first.name: 1, second.name: 1},
        }

    async def test_with_a_seat_its_places_are_gone(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        seat = await assistance_of(a).join(NODE_A, LONG)
        brief = await assistance_of(a).join(NODE_B, backend.tick)
        await assistance_of(a).reserve(Holder("a", seat), {WORKER_1: 1}, since=await look(a))
        await assistance_of(a).reserve(Holder("b", brief), {WORKER_2: 1}, since=await look(a))
        await assistance_of(a).leave(NODE_A, seat)
        await backend.wait(backend.tick * 4)
        assert (await a.queue.depths()).reserved == {}

    async def test_without_a_seat_nothing_is_reserved(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        seat = await assistance_of(a).join(NODE_A, LONG)
        await assistance_of(a).leave(NODE_A, seat)
        assert await assistance_of(a).reserve(Holder("a", seat), {WORKER_1: 1}, since=await look(a)) is None
        assert (await a.queue.depths()).reserved == {}

    async def test_with_a_worker_its_places_are_gone(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        (holder,) = await take_seats(a, [NODE_A])
        await a.pool.register(make_worker(), LONG)
        await assistance_of(a).reserve(holder, {WORKER_1: 1}, since=await look(a))
        await a.pool.remove([WORKER_1])
        assert (await a.queue.depths()).reserved == {}

    async def test_places_are_nothing_that_a_worker_takes(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        (holder,) = await take_seats(a, [NODE_A])
        await assistance_of(a).reserve(holder, {WORKER_1: 1}, since=await look(a))
        assert await a.deliveries.take(WORKER_1, 10, wait=AT_ONCE) == []
        assert await a.deliveries.list_assigned(WORKER_1) == await a.deliveries.held(WORKER_1) == []


@pytest.mark.asyncio
class TestPassedOn:
    async def test_what_is_passed_on_is_taken_once_and_in_order(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        ids = make_ids(5)
        await assistance_of(b).pass_on([*ids[3:], *ids[:3]])
        assert await assistance_of(a).take_passed(3) == [*ids[3:], ids[0]]
        assert await assistance_of(a).take_passed(3) == ids[1:3]
        assert await assistance_of(a).take_passed(3) == []

    async def test_it_is_not_in_the_queue(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        await assistance_of(a).pass_on(make_ids(2))
        assert (await a.queue.take(10, order=LEVELS)).task_ids == ()

    async def test_it_wakes_the_leader(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        waiting = await begin(backend, a.queue.wait_for_work(LONG))
        await assistance_of(b).pass_on(make_ids(1))
        assert await waiting

    async def test_a_rebuild_leaves_nothing_passed_on(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        await assistance_of(a).pass_on(make_ids(2))
        await a.queue.rebuild("new", make_pages(make_entries(make_ids(2))))
        assert await assistance_of(a).take_passed(10) == []


@pytest.mark.asyncio
class TestAssistantsWake:
    async def test_what_becomes_ready_wakes_the_leader_and_one_beside_it(self, backend: CoordinatorBackend) -> None:
        a, b, c = [await backend.connect() for _ in (NODE_A, NODE_B, NODE_C)]
        leader = await begin(backend, a.queue.wait_for_work(LONG))
        assistant = await begin(backend, assistance_of(b).wait_for_work(LONG))
        await a.queue.push(make_entries(make_ids(1)))
        assert all(await asyncio.gather(leader, assistant))
        assert not await outlast(backend, assistance_of(c).wait_for_work(backend.tick))

    async def test_an_attempt_that_ended_wakes_both(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        leader = await begin(backend, a.queue.wait_for_work(LONG))
        assistant = await begin(backend, assistance_of(b).wait_for_work(LONG))
        await a.deliveries.acknowledge(make_attempts(make_ids(1)))
        assert all(await asyncio.gather(leader, assistant))

    async def test_a_wake_that_nobody_heard_is_kept(self, backend: CoordinatorBackend) -> None:
        a = await backend.connect()
        await a.queue.wake()
        assert await assistance_of(a).wait_for_work(LONG)
        assert not await outlast(backend, assistance_of(a).wait_for_work(backend.tick))
