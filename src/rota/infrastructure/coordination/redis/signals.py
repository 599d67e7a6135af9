"""Cancel requests as keys that expire, and events as JSON on a channel.

A message is an array of events, because redis-py takes some 50 µs for each message, however small. Its first element is
the place of the batch: the number of its last event (events are numbered one by one), and a mark. A server that was put
back to an older state counts on from there and uses numbers again; the mark, the microsecond of the batch, then tells
that an event with such a number is not the one that was heard. A listener reads all the time, into a buffer of its own:
Redis would otherwise store up what a slow one has not read, and in the end hang up on it. What this release cannot read
comes from a newer one, or from a stranger, and is left out.

The same script that publishes a batch keeps it in a stream. Who comes back listens first and reads the stream then, so
that nothing is missed in between; what came both ways is told once.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import NamedTuple, Self

import msgspec

from rota.domain.events import Event, EventKind, Told
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.log import Progress
from rota.domain.task import TaskStatus
from rota.infrastructure.coordination.event_buffer import REMEMBERED, EventBuffer, filled_by
from rota.infrastructure.coordination.redis.keys import RedisKeys, milliseconds
from rota.infrastructure.coordination.redis_client import RedisClient, load_script

LONGEST_MESSAGE = 500  # events, about 100 KB
RECALLED_AT_ONCE = 100  # messages
EVENT_ID = "r"
_ID = re.compile(EVENT_ID + r"([0-9]{1,18}-[0-9]{1,18})")


class _Place(NamedTuple):
    """Where a batch, or an event of it, is in the sequence of all."""

    number: int
    mark: int

    @classmethod
    def of(cls, text: str) -> Self:
        number, _, mark = text.partition("-")
        return cls(int(number), int(mark))

    def id_of(self, number: int) -> str:
        """The id of an event of this batch."""
        return f"{EVENT_ID}{number}-{self.mark}"


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
            last, replayed = (0, []) if after is None else await self._recall(_find_place(after))
            buffer = EventBuffer(replayed)
            async with filled_by(_read(messages, buffer, replayed=last)):
                yield buffer

    async def _recall(self, after: _Place | None) -> tuple[int, list[Told]]:
        """The number up to which events were told, and what to tell of those after the one asked for."""
        async with self._recalling:
            if after is not None and (replayed := await self._replay(after)) is not None:
                return replayed
            newest = await self._client.command_aside("XREVRANGE", self._keys.remembered_events, "+", "-", "COUNT", 1)
            place = _Place.of(newest[0][0].decode()) if newest else _Place(0, 0)
            return place.number, [Told(place.id_of(place.number), None)]

    async def _replay(self, after: _Place) -> tuple[int, list[Told]] | None:
        """The same; None when some of what came after the event, or the event itself, is not remembered."""
        last, replayed = None, list[Told]()
        async for place, texts in self._read_log(after.number):
            first = place.number - len(texts) + 1
            if last is None and (first > after.number or place.mark != after.mark):
                return None  # its batch is forgotten, or another one has its number
            if last is not None and first > last + 1:
                return None
            replayed += _tell(texts, place, after=after.number)
            last = place.number
        return None if last is None else (last, replayed)

    async def _read_log(self, start: int) -> AsyncIterator[tuple[_Place, list[msgspec.Raw]]]:
        """The entries that are remembered from a number on, each with its place; a page is one step of this loop."""
        while True:
            page = ("XRANGE", self._keys.remembered_events, f"{start}-0", "+", "COUNT", RECALLED_AT_ONCE)
            entries = await self._client.command_aside(*page)
            for entry_id, fields in entries:
                place = _Place.of(entry_id.decode())
                start = place.number + 1
                yield place, _split(fields[1])
            if len(entries) < RECALLED_AT_ONCE:
                return


async def _read(messages: AsyncIterator[bytes], buffer: EventBuffer, *, replayed: int) -> None:
    try:
        async for message in messages:
            place, texts = _open(message)
            for told in _tell(texts, place, after=replayed):
                buffer.put(told)
            if place.number > replayed:
                replayed = 0  # what came both ways is past; whatever is counted from now on is new
    except Exception as exc:  # whatever ends the reading must reach the listener, or it would wait for ever
        buffer.fail(exc)


class _Event(msgspec.Struct, omit_defaults=True, gc=False):
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
_TEXT = msgspec.json.Decoder(str)
_ENCODER = msgspec.json.Encoder()
_EVENT = msgspec.json.Decoder(_Event)
_MARKS = (
    (b'"task_id":""', b'"task_id":"%d"'),
    (b'"task_type":"?"', b'"task_type":%b'),
    (b'"worker_id":""', b'"worker_id":"%d"'),
)


def _to_json(events: Sequence[Event]) -> bytes:
    """As an array of `_Event`. The events of a batch differ in their tasks, types and workers and little else: that is
    written once."""
    forms: dict[tuple[object, ...], bytes] = {}
    texts = []
    for event in events:
        worker_id = event.worker_id
        if event.task_id is None or not event.task_type or event.progress is not None:
            texts.append(_ENCODER.encode(_to_wire(event)))
            continue
        told = (event.kind, event.at, event.tenant_id, event.status, event.attempt, worker_id is None)
        form = forms.get(told)
        if form is None:
            form = forms[told] = _form_of(event)
        own = (event.task_id, _ENCODER.encode(event.task_type))
        texts.append(form % (own if worker_id is None else (*own, worker_id)))
    return b"[%b]" % b",".join(texts)


def _form_of(event: Event) -> bytes:
    """It, with places for its task, its type and its worker."""
    wire = _to_wire(event)
    wire.task_id, wire.task_type = "", "?"
    wire.worker_id = None if event.worker_id is None else ""
    form = _ENCODER.encode(wire).replace(b"%", b"%%")
    for mark, place in _MARKS:
        form = form.replace(mark, place)  # text has its quotes escaped, so it is no mark
    return form


def _split(batch: bytes) -> list[msgspec.Raw]:
    try:
        return _BATCH.decode(batch)
    except msgspec.DecodeError:
        return []


def _open(message: bytes) -> tuple[_Place, list[msgspec.Raw]]:
    """The place of a message, and its events."""
    texts = _split(message)
    try:
        return _Place.of(_TEXT.decode(texts[0])), texts[1:]
    except (ValueError, IndexError):  # msgspec's errors are among them
        return _Place(0, 0), []


def _find_place(event_id: str) -> _Place | None:
    """Of an id of ours, such as `r17-1767268800250000`; None of any other."""
    found = _ID.fullmatch(event_id)
    return None if found is None else _Place.of(found[1])


def _tell(texts: Sequence[msgspec.Raw], place: _Place, *, after: int) -> Iterator[Told]:
    """The events of the batch at this place, but for those up to `after`."""
    for number, text in enumerate(texts, start=place.number - len(texts) + 1):
        if number > after:
            with suppress(msgspec.DecodeError, ValueError):
                yield Told(place.id_of(number), _from_wire(_EVENT.decode(text)))


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
