"""A listener's buffer: bounded, in order, and never silent about its end."""

import asyncio
from datetime import UTC, datetime

import pytest

from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event, EventKind, Told
from rota.domain.ids import TaskId
from rota.infrastructure.coordination.event_buffer import EventBuffer

EVENTS = [
    Told(str(number), Event(kind=EventKind.TASK_CREATED, at=datetime(2030, 1, 1, tzinfo=UTC), task_id=TaskId(number)))
    for number in range(1, 6)
]


async def test_a_full_buffer_drops_the_oldest_and_tells() -> None:
    buffer = EventBuffer(size=3)
    for event in EVENTS:
        buffer.put(event)
    assert [await anext(buffer) for _ in range(4)] == [Told("2", None), *EVENTS[2:]]


async def test_what_is_replayed_comes_first_and_does_not_count() -> None:
    buffer = EventBuffer(EVENTS[:2], size=2)
    for event in EVENTS[2:4]:
        buffer.put(event)
    assert [await anext(buffer) for _ in range(4)] == EVENTS[:4]


async def test_a_failure_comes_after_what_arrived_before_it() -> None:
    buffer = EventBuffer()
    buffer.put(EVENTS[0])
    buffer.fail(CoordinatorUnavailableError("gone"))
    assert await anext(buffer) == EVENTS[0]
    for _ in range(2):
        with pytest.raises(CoordinatorUnavailableError):
            await anext(buffer)


async def test_a_failure_wakes_a_reader() -> None:
    buffer = EventBuffer()
    reading = asyncio.ensure_future(anext(buffer))
    await asyncio.wait([reading], timeout=0)
    buffer.fail(CoordinatorUnavailableError("gone"))
    with pytest.raises(CoordinatorUnavailableError):
        await reading
