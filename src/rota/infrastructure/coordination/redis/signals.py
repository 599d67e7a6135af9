"""Cancel requests as keys that expire, and events as JSON on a channel.

A message is an array of events, because redis-py takes some 50 µs for each message, however small. Its first element is
the number of its last event: events are numbered one by one. A listener reads all the time, into a buffer of its own:
Redis would otherwise store up what a slow one has not read, and in the end hang up on it. What this release cannot read
comes from a newer one, or from a stranger, and is left out.

The same script that publishes a batch keeps it in a stream. Who comes back listens first and reads the stream then, so
that nothing is missed in between; what came both ways is told once.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

import msgspec

from rota.domain.events import Event, EventKind, Told
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.log import Progress
from rota.domain.task import TaskStatus
from rota.infrastructure.coordination.event_buffer import REMEMBERED, EventBuffer, find_number
from rota.infrastructure.coordination.redis.keys import RedisKeys, milliseconds
from rota.infrastructure.coordination.redis_client import RedisClient, load_script

LONGEST_MESSAGE = 500  # events, about 100 KB
RECALLED_AT_ONCE = 100  # messages
EVENT_ID = "r"


class RedisSignals:
    def __init__(self, client: RedisClient, keys: RedisKeys) -> None:
        self._client = client
        self._keys = keys
        self._recalling = asyncio.Semaphore(1)  # after a restart all listeners come back at once
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
        if not events:
            return
        args: list[bytes | int] = [REMEMBERED]
        for first in range(0, len(events), LONGEST_MESSAGE):
            chunk = events[first : first + LONGEST_MESSAGE]
            args += (len(chunk), _to_json(chunk))
        keys = (self._keys.remembered_events, self._keys.last_event, self._keys.events)
        await self._client.run(self._publish, keys=keys, args=args)

    @asynccontextmanager
    async def subscribe(self, *, after: str | None = None) -> AsyncIterator[AsyncIterator[Told]]:
        async with self._client.listen(self._keys.events) as messages:
            last, replayed = (0, []) if after is None else await self._recall(find_number(after, EVENT_ID))
            buffer = EventBuffer(replayed)
            reader = asyncio.create_task(_read(messages, buffer, replayed=last))
            try:
                yield buffer
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

    async def _recall(self, after: int | None) -> tuple[int, list[Told]]:
        """The number up to which events were told, and what to tell of those after the one asked for."""
        async with self._recalling:
            counted = int(await self._client.command_aside("GET", self._keys.last_event) or 0)
            if after is None or after > counted:
                return counted, [Told(f"{EVENT_ID}{counted}", None)]
            last, is_whole = after, True
            replayed: list[Told] = []
            async for end, texts in self._read_log(after):
                is_whole &= end - len(texts) <= last  # or those between are forgotten
                replayed += _tell(texts, end, after=after)
                last = end
        if is_whole and last >= counted:
            return last, replayed
        last = max(last, counted)
        return last, [Told(f"{EVENT_ID}{last}", None)]

    async def _read_log(self, after: int) -> AsyncIterator[tuple[int, list[msgspec.Raw]]]:
        """The entries that are remembered, each with the number of its last event; a page is one step of this loop."""
        while True:
            page = ("XRANGE", self._keys.remembered_events, f"{after + 1}-0", "+", "COUNT", RECALLED_AT_ONCE)
            entries = await self._client.command_aside(*page)
            for entry_id, fields in entries:
                after = int(entry_id.partition(b"-")[0])
                yield after, _split(fields[1])
            if len(entries) < RECALLED_AT_ONCE:
                return


async def _read(messages: AsyncIterator[bytes], buffer: EventBuffer, *, replayed: int) -> None:
    try:
        async for message in messages:
            end, texts = _open(message)
            for told in _tell(texts, end, after=replayed):
                buffer.put(told)
            if end > replayed:
                replayed = 0  # what came both ways is past; whatever is counted from now on is new
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
    progress: Progress | None = None


_BATCH = msgspec.json.Decoder(list[msgspec.Raw])
_NUMBER = msgspec.json.Decoder(int)
_EVENT = msgspec.json.Decoder(_Event)


def _to_json(events: Sequence[Event]) -> bytes:
    return msgspec.json.encode([_to_wire(event) for event in events])


def _split(batch: bytes) -> list[msgspec.Raw]:
    try:
        return _BATCH.decode(batch)
    except msgspec.DecodeError:
        return []


def _open(message: bytes) -> tuple[int, list[msgspec.Raw]]:
    """The number of the last event of a message, and its events."""
    texts = _split(message)
    try:
        return _NUMBER.decode(texts[0]), texts[1:]
    except (msgspec.DecodeError, IndexError):
        return 0, []


def _tell(texts: Sequence[msgspec.Raw], end: int, *, after: int) -> Iterator[Told]:
    """The events of the batch with this last number, but for those up to `after`."""
    for number, text in enumerate(texts, start=end - len(texts) + 1):
        if number > after:
            with suppress(msgspec.DecodeError, ValueError):
                yield Told(f"{EVENT_ID}{number}", _from_wire(_EVENT.decode(text)))


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
        progress=event.progress,
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
        progress=event.progress,
    )
