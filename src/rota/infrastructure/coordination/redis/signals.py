"""Cancel requests as keys that expire, and events as JSON on a channel.

A message is an array of events, because redis-py takes some 50 µs for each message, however small. A listener reads all
the time, into a buffer of its own: Redis would otherwise store up what a slow one has not read, and in the end hang up
on it. What this release cannot read comes from a newer one, or from a stranger, and is left out.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

import msgspec

from rota.domain.events import Event, EventKind
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.task import TaskStatus
from rota.infrastructure.coordination.event_buffer import EventBuffer
from rota.infrastructure.coordination.redis.keys import RedisKeys, milliseconds
from rota.infrastructure.coordination.redis_client import RedisClient, load_script

LONGEST_MESSAGE = 500  # events, about 100 KB


class RedisSignals:
    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self._client = client
        self._keys = keys
        self._request_cancel = load_script("request_cancel")

    async def request_cancel(self, task_ids: Sequence[TaskId], *, ttl: timedelta) -> None:
        if task_ids:
            keys = [self._keys.cancel(task_id) for task_id in task_ids]
            await self._client.run(self._request_cancel, keys=keys, args=(milliseconds(ttl),))

    async def find_cancelled(self, task_ids: Sequence[TaskId]) -> frozenset[TaskId]:
        if not task_ids:
            return frozenset()
        marks = await self._client.command("MGET", *map(self._keys.cancel, task_ids))
        return frozenset(task_id for task_id, mark in zip(task_ids, marks, strict=True) if mark is not None)

    async def publish(self, events: Sequence[Event]) -> None:
        chunks = (events[first : first + LONGEST_MESSAGE] for first in range(0, len(events), LONGEST_MESSAGE))
        await self._client.batch([["PUBLISH", self._keys.events, _to_json(chunk)] for chunk in chunks])

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[Event]]:
        buffer = EventBuffer()
        async with self._client.listen(self._keys.events) as messages:
            reader = asyncio.create_task(_read(messages, buffer))
            try:
                yield buffer
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)


async def _read(messages: AsyncIterator[bytes], buffer: EventBuffer) -> None:
    try:
        async for message in messages:
            for event in _from_json(message):
                buffer.put(event)
    except Exception as exc:  # whatever ends the reading must reach the listener, or it would wait for ever
        buffer.fail(exc)


class _Event(msgspec.Struct, omit_defaults=True):
    """An event on the wire: ids are decimal strings, for readers whose numbers end at 2^53."""

    kind: EventKind
    at: datetime
    tenant_id: str = DEFAULT_TENANT
    task_id: str | None = None
    task_type: str = ""
    status: TaskStatus | None = None
    attempt: int = 0
    worker_id: str | None = None


_MESSAGE = msgspec.json.Decoder(list[msgspec.Raw])
_EVENT = msgspec.json.Decoder(_Event)


def _to_json(events: Sequence[Event]) -> bytes:
    return msgspec.json.encode([_to_wire(event) for event in events])


def _from_json(message: bytes) -> Iterator[Event]:
    with suppress(msgspec.DecodeError):
        for text in _MESSAGE.decode(message):
            with suppress(msgspec.DecodeError, ValueError):
                yield _from_wire(_EVENT.decode(text))


def _to_wire(event: Event) -> _Event:
    return _Event(
        kind=event.kind,
        at=event.at,
        tenant_id=event.tenant_id,
        task_id=None if event.task_id is None else str(event.task_id),
        task_type=event.task_type,
        status=event.status,
        attempt=event.attempt,
        worker_id=None if event.worker_id is None else str(event.worker_id),
    )


def _from_wire(event: _Event) -> Event:
    return Event(
        kind=event.kind,
        at=event.at,
        tenant_id=TenantId(event.tenant_id),
        task_id=None if event.task_id is None else TaskId(int(event.task_id)),
        task_type=event.task_type,
        status=event.status,
        attempt=event.attempt,
        worker_id=None if event.worker_id is None else WorkerId(int(event.worker_id)),
    )
