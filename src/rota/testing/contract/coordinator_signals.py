"""The contract of `Signals`."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from rota.domain.events import Event, EventKind
from rota.domain.ids import TenantId
from rota.domain.task import TaskStatus
from rota.testing.contract.coordinator_backend import (
    LONG,
    MANY,
    NOON,
    WORKER_1,
    CoordinatorBackend,
    begin,
    make_ids,
)

FLOOD = 12  # batches of MANY events: further behind than a listener may fall without losing some


def make_events(count: int) -> list[Event]:
    return [Event(kind=EventKind.TASK_CREATED, at=NOON, task_id=task_id) for task_id in make_ids(count)]


async def read(events: AsyncIterator[Event], count: int) -> list[Event]:
    return [await anext(events) for _ in range(count)]


@pytest.mark.asyncio
class TestSignals:
    async def test_every_node_sees_a_cancel_request(self, backend: CoordinatorBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        one, other, third = make_ids(3)
        await a.signals.request_cancel([one, third], ttl=LONG)
        assert await b.signals.find_cancelled([one, other, third]) == {one, third}

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
        )
        async with a.signals.subscribe() as events:
            await b.signals.publish([event])
            assert await anext(events) == event

    async def test_an_event_about_no_task_is_heard_too(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        event = Event(kind=EventKind.WORKER_ONLINE, at=NOON, worker_id=WORKER_1)
        async with node.signals.subscribe() as events:
            await node.signals.publish([event])
            assert await anext(events) == event

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
            assert await anext(events) == late

    async def test_a_listener_that_has_left_disturbs_nobody(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        published = make_events(2)
        async with node.signals.subscribe() as staying:
            async with node.signals.subscribe() as leaving:
                await node.signals.publish(published[:1])
                assert await anext(leaving) == published[0]
            await node.signals.publish(published[1:])
            assert await read(staying, 2) == published

    async def test_a_slow_listener_holds_up_nobody_and_loses_the_oldest(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        last = replace(make_events(1)[0], kind=EventKind.TASK_COMPLETED)
        async with node.signals.subscribe() as slow, node.signals.subscribe() as quick:
            for _ in range(FLOOD):
                await node.signals.publish(make_events(MANY))
                assert len(await read(quick, MANY)) == MANY
            await node.signals.publish([last])
            assert await anext(quick) == last
            await backend.wait(backend.tick)  # what was sent has arrived at the slow one too
            assert await _count_until(slow, last) < FLOOD * MANY

    async def test_leaving_ends_a_subscription_that_heard_nothing(self, backend: CoordinatorBackend) -> None:
        node = await backend.connect()
        before = asyncio.all_tasks()
        async with node.signals.subscribe():
            await backend.wait(backend.tick)
        assert asyncio.all_tasks() <= before


async def _count_until(events: AsyncIterator[Event], last: Event) -> int:
    count = 0
    while await anext(events) != last:
        count += 1
    return count
