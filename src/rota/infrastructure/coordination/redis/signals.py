"""Cancel requests as keys that expire, and events as JSON on a channel.

A listener reads all the time, into a buffer of its own: Redis would otherwise store up what a slow one has not read
and in the end hang up on it. An event that this release cannot read comes from a newer one, and is left out.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import msgspec

from rota.domain.events import Event, EventKind
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.task import TaskStatus
from rota.infrastructure.coordination.event_buffer import EventBuffer
from rota.infrastructure.coordination.redis.keys import RedisKeys, milliseconds
from rota.infrastructure.coordination.redis_client import RedisClient, load_script


class RedisSignals:
    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self._client = client
        self._keys = keys
        self._request_cancel = load_script("request_cancel")
        self._publish = load_script("publish")

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
        if events:
            await self._client.run(self._publish, keys=(self._keys.events,), args=[*map(_to_json, events)])

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
            event = _find_event(message)
            if event is not None:
                buffer.put(event)
    except Exception as exc:  # whatever ends the reading must reach the listener, or it would wait for ever
        buffer.fail(exc)


class _Message(msgspec.Struct, omit_defaults=True):
    """An event on the wire: ids are decimal strings, for readers whose numbers end at 2^53."""

    kind: EventKind
    at: datetime
    tenant_id: str = DEFAULT_TENANT
    task_id: str | None = None
    task_type: str = ""
    status: TaskStatus | None = None
    attempt: int = 0
    worker_id: str | None = None


_DECODER = msgspec.json.Decoder(_Message)


def _to_json(event: Event) -> bytes:
    return msgspec.json.encode(
        _Message(
            kind=event.kind,
            at=event.at,
            tenant_id=event.tenant_id,
            task_id=None if event.task_id is None else str(event.task_id),
            task_type=event.task_type,
            status=event.status,
            attempt=event.attempt,
            worker_id=None if event.worker_id is None else str(event.worker_id),
        )
    )


def _find_event(message: bytes) -> Event | None:
    try:
        read = _DECODER.decode(message)
    except msgspec.DecodeError:
        return None
    return Event(
        kind=read.kind,
        at=read.at,
        tenant_id=TenantId(read.tenant_id),
        task_id=None if read.task_id is None else TaskId(int(read.task_id)),
        task_type=read.task_type,
        status=read.status,
        attempt=read.attempt,
        worker_id=None if read.worker_id is None else WorkerId(int(read.worker_id)),
    )
