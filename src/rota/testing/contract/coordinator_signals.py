"""The contract of `Signals`."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from rota.domain.events import Event, EventKind, Told, check_event_id
from rota.domain.ids import TenantId
from rota.domain.log import Progress
from rota.domain.task import TaskStatus
from rota.testing.contract.coordinator_backend import (
    LONG,
    MANY,
    NOON,
    WORKER_1,
    CoordinatorBackend,
    begin,
    hear,
    make_ids,
)

FLOOD = 12  # batches of MANY events: further behind than a listener may fall without losing some


def make_events(count: int) -> list[Event]:
    return [Event(kind=EventKind.TASK_CREATED, at=NOON, task_id=task_id) for task_id in make_ids(count)]


async def read(events: AsyncIterator[Told], count: int) -> list[Event]:
    return [await hear(events) for _ in range(count)]


@pytest.mark.asyncio
class TestSignals:
    async def test_every_node_sees_a_cancel_request(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        one, other, third = make_ids(3)
        await a.signals.request_cancel([one, third], ttl=LONG)
        assert await b.signals.find_cancelled([one, other, third]) == {one, third}

    async def test_who_asks_again_soon_hears_of_a_request(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        one, other = make_ids(2)
        assert await b.signals.find_cancelled([one, other]) == frozenset()
        await a.signals.request_cancel([one], ttl=LONG)
        while not (found := await b.signals.find_cancelled([one, other])):
            await backend.wait(backend.tick / 10)
        assert found == {one}
        assert await b.signals.find_cancelled([other]) == frozenset()
        assert await b.signals.find_cancelled([one]) == {one}

    async def test_only_the_tasks_asked_about_are_answered(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        one, other = make_ids(2)
        await node.signals.request_cancel([one, other], ttl=LONG)
        assert await node.signals.find_cancelled([other]) == {other}

    async def test_a_cancel_request_is_forgotten_after_its_ttl(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        one, other = make_ids(2)
        await node.signals.request_cancel([one], ttl=backend.tick)
        await node.signals.request_cancel([other], ttl=LONG)
        await backend.wait(backend.tick * 2)
        assert await node.signals.find_cancelled([one, other]) == {other}

    async def test_a_repeated_cancel_request_is_remembered_anew(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(1)
        await node.signals.request_cancel(ids, ttl=backend.tick)
        await node.signals.request_cancel(ids, ttl=LONG)
        await backend.wait(backend.tick * 2)
        assert await node.signals.find_cancelled(ids) == set(ids)

    async def test_many_tasks_are_cancelled_at_once(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(MANY)
        await node.signals.request_cancel(ids, ttl=LONG)
        assert await node.signals.find_cancelled(ids) == set(ids)

    async def test_empty_batches_do_nothing(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        await node.signals.request_cancel([], ttl=LONG)
        await node.signals.publish([])
        assert await node.signals.find_cancelled([]) == frozenset()

    async def test_a_lost_memory_forgets_cancel_requests(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        ids = make_ids(1)
        await node.signals.request_cancel(ids, ttl=LONG)
        await backend.forget()
        assert await node.signals.find_cancelled(ids) == frozenset()

    async def test_a_listener_hears_an_event_as_it_was_published(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        event = Event(
            kind=EventKind.TASK_FAILED,
            at=NOON.replace(microsecond=123_457),
            tenant_id=TenantId("租户"),
            task_id=make_ids(1)[0],
            task_type="mail",
            status=TaskStatus.TIMEOUT,
            attempt=3,
            worker_id=WORKER_1,
            progress=Progress(0.5, "半分"),
        )
        async with a.signals.subscribe() as events:
            await b.signals.publish([event])
            assert await hear(events) == event

    async def test_an_event_about_no_task_is_heard_too(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        event = Event(kind=EventKind.WORKER_ONLINE, at=NOON, worker_id=WORKER_1)
        async with node.signals.subscribe() as events:
            await node.signals.publish([event])
            assert await hear(events) == event

    async def test_events_are_heard_in_the_order_of_their_publisher(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        published = make_events(MANY)
        async with a.signals.subscribe() as events:
            await b.signals.publish(published[:1])
            await b.signals.publish(published[1:])
            assert await read(events, MANY) == published

    async def test_every_listener_hears_every_event(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        published = make_events(3)
        async with a.signals.subscribe() as one, b.signals.subscribe() as other:
            await a.signals.publish(published)
            assert await read(one, 3) == published
            assert await read(other, 3) == published

    async def test_a_waiting_listener_is_woken(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        published = make_events(1)
        async with node.signals.subscribe() as events:
            reading = await begin(backend, read(events, 1))
            await node.signals.publish(published)
            assert await reading == published

    async def test_who_listens_later_misses_what_was_published_before(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        early, late = make_events(2)
        await node.signals.publish([early])
        async with node.signals.subscribe() as events:
            await node.signals.publish([late])
            assert await hear(events) == late

    async def test_a_listener_that_has_left_disturbs_nobody(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        published = make_events(2)
        async with node.signals.subscribe() as staying:
            async with node.signals.subscribe() as leaving:
                await node.signals.publish(published[:1])
                assert await hear(leaving) == published[0]
            await node.signals.publish(published[1:])
            assert await read(staying, 2) == published

    async def test_who_comes_back_gets_what_was_published_since_and_then_what_comes(
        self, backend: CoordinatorBackend
    ) -> None:
        a, b = await backend.connect(), await backend.connect()
        published = make_events(MANY)
        async with a.signals.subscribe() as events:
            await a.signals.publish(published[:10])
            told = [await anext(events) for _ in range(10)]
        await a.signals.publish(published[10:1000])
        for place in (0, 4, 9):  # also in the midst of a batch, and on another node
            async with b.signals.subscribe(after=told[place].id) as events:
                assert await read(events, 999 - place) == published[place + 1 : 1000]
        async with b.signals.subscribe(after=told[-1].id) as events:
            await a.signals.publish(published[1000:])
            assert await read(events, MANY - 10) == published[10:]

    async def test_who_has_missed_nothing_hears_only_what_is_new(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        early, late = make_events(2)
        async with node.signals.subscribe() as events:
            await node.signals.publish([early])
            last = await anext(events)
        async with node.signals.subscribe(after=last.id) as events:
            await node.signals.publish([late])
            assert await hear(events) == late

    async def test_what_is_told_again_has_the_id_it_had(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        async with node.signals.subscribe() as events:
            await node.signals.publish(make_events(3))
            first, *rest = [await anext(events) for _ in range(3)]
        assert len({first.id, *(told.id for told in rest)}) == 3
        assert check_event_id("id", first.id), "servers hand on no other id"
        async with node.signals.subscribe(after=first.id) as events:
            assert [await anext(events) for _ in range(2)] == rest

    async def test_nothing_is_missed_or_repeated_while_others_publish(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        published = make_events(600)

        async def publish() -> None:
            for start in range(0, 600, 3):
                await a.signals.publish(published[start : start + 3])

        async with a.signals.subscribe() as events:
            publishing = asyncio.create_task(publish())
            told = await anext(events)
        heard = [told.event]
        while len(heard) < 600:
            async with b.signals.subscribe(after=told.id) as events:
                for _ in range(min(50, 600 - len(heard))):
                    told = await anext(events)
                    heard.append(told.event)
        await publishing
        assert heard == published

    @pytest.mark.parametrize("after", ["", "x", "17", "r-1", "s٣", "m1.5", "r" + "9" * 30, "~"])
    async def test_an_id_of_another_kind_is_answered_that_some_were_missed(
        self, backend: CoordinatorBackend, after: str
    ) -> None:
        node = await backend.connect()
        early, late = make_events(2)
        await node.signals.publish([early])
        async with node.signals.subscribe(after=after) as events:
            await node.signals.publish([late])
            assert (await anext(events)).event is None
            assert await hear(events) == late

    async def test_after_a_lost_memory_who_comes_back_is_told_that_some_were_missed(
        self, backend: CoordinatorBackend
    ) -> None:
        node = await backend.connect()
        early, lost, late, last = make_events(4)
        async with node.signals.subscribe() as events:
            await node.signals.publish([early])
            told = await anext(events)
        await backend.forget()
        async with node.signals.subscribe(after=told.id) as events:
            assert (await anext(events)).event is None
        await node.signals.publish([lost])
        async with node.signals.subscribe(after=told.id) as events:
            gap = await anext(events)
            assert gap.event is None
            await node.signals.publish([late])
            assert await hear(events) == late
        async with node.signals.subscribe(after=gap.id) as events:
            await node.signals.publish([last])
            assert await read(events, 2) == [late, last], "the word that some were missed has a place of its own"

    async def test_a_slow_listener_holds_up_nobody_and_loses_the_oldest(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        last = replace(make_events(1)[0], kind=EventKind.TASK_COMPLETED)
        async with node.signals.subscribe() as slow, node.signals.subscribe() as quick:
            for _ in range(FLOOD):
                await node.signals.publish(make_events(MANY))
                assert len(await read(quick, MANY)) == MANY
            await node.signals.publish([last])
            assert await hear(quick) == last
            await backend.wait(backend.tick)  # what was sent has arrived at the slow one too
            assert (await anext(slow)).event is None, "it is told"
            assert await _count_until(slow, last) < FLOOD * MANY

    async def test_leaving_ends_a_subscription_that_heard_nothing(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        async with node.signals.subscribe():
            before = asyncio.all_tasks()  # an adapter may have tasks of its own from its first call on
        async with node.signals.subscribe():
            await backend.wait(backend.tick)
        assert asyncio.all_tasks() <= before


async def _count_until(events: AsyncIterator[Told], last: Event) -> int:
    count = 0
    while (event := (await anext(events)).event) != last:
        count += event is not None
    return count
