"""Cancel requests as keys bound to a lease, and events as batches that every listener watches for.

Workers ask again and again about the same tasks, and are nearly always told of none. Where a watch is enough, one is
kept for all requests, and who is not known to be asked to stop since it began is not looked up again while it is
silent.

A batch of events is one key; its place is the revision at which it was written, which grows with every write, so that
all listeners hear all batches in one order. The id of an event is that revision and its number in the batch. Who comes
back reads the batches that are remembered, at one revision, and watches from there on: no gap, no repeat.

Whether all that came after an id is still remembered is known from one more key: everything since it was made is here,
but for what its value says was pruned. It is made with the first subscription or publication of a memory.

A publish that is repeated after an unknown outcome is heard twice. An event that this release cannot read comes from a
newer one, and is left out.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import msgspec

from rota._proto.etcd import wire_pb2 as wire
from rota.domain.errors import CoordinatorUnavailableError, UnavailableError
from rota.domain.events import Event, Told
from rota.domain.ids import TaskId
from rota.infrastructure.coordination.etcd.keys import EtcdKeys, Stamps, find_number
from rota.infrastructure.coordination.etcd.waiting import KEPT_WATCH
from rota.infrastructure.coordination.event_buffer import REMEMBERED, EventBuffer, filled_by
from rota.infrastructure.etcd.client import CompactedError, EtcdClient, LeaseGoneError
from rota.infrastructure.etcd.ops import (
    MOST_OPS,
    cut,
    delete,
    exists,
    get,
    is_put,
    is_unchanged,
    put,
    put_missing,
    scan,
    under,
)

EVENTS_PER_KEY = 2_000  # some 400 KB
LONGEST_BATCH = 1_000_000  # bytes, well below what etcd takes at once
PRUNE_EVERY = 1_000  # events of this process
EVENT_ID = "e"
END = 10**9  # after all events of a revision
_RAW = msgspec.json.Decoder(list[msgspec.Raw])
_EVENT = msgspec.json.Decoder(Event)


class EtcdSignals:
    def __init__(self, client: EtcdClient, keys: EtcdKeys, *, stamps: Stamps) -> None:
        self._client = client
        self._keys = keys
        self._stamps = stamps
        self._unpruned = PRUNE_EVERY  # events of our own since old ones were deleted; a process begins with that
        self._watch: asyncio.Task[bool] | None = None  # of all cancel requests
        self._watched_since = 0  # the revision after which it tells of all
        self._unasked: set[TaskId] = set()  # that were looked up since then, and found not to be asked to stop

    async def request_cancel(self, task_ids: Sequence[TaskId], *, ttl: timedelta) -> None:
        if not task_ids:
            return
        lease = await self._client.grant(ttl)
        asked = [put(self._keys.cancel(task_id), lease=lease) for task_id in dict.fromkeys(task_ids)]
        for groups in cut([one] for one in asked):
            with suppress(LeaseGoneError):  # over already: as if it had been remembered until now
                await self._client.write([op for group in groups for op in group])

    async def find_cancelled(self, task_ids: Sequence[TaskId]) -> frozenset[TaskId]:
        if self._watch is None or self._watch.done():
            self._unasked.clear()
        unknown = [task_id for task_id in task_ids if task_id not in self._unasked]
        found: set[TaskId] = set()
        for start in range(0, len(unknown), MOST_OPS):
            some = unknown[start : start + MOST_OPS]
            done = await self._client.read([exists(self._keys.cancel(task_id)) for task_id in some])
            asked = {task_id for task_id, answer in zip(some, done.answers, strict=True) if answer.range.count}
            self._note_unasked(set(some) - asked, seen_at=done.revision)
            found |= asked
        return frozenset(found)

    async def publish(self, events: Sequence[Event]) -> None:
        for start in range(0, len(events), EVENTS_PER_KEY):
            for number, batch in _pack(events[start : start + EVENTS_PER_KEY]):
                key = f"{self._keys.events}{self._stamps.next()}_{number}"
                await self._client.write([put(key, batch), put_missing(self._keys.events_begin, b"0")])
        self._unpruned += len(events)
        if self._unpruned > PRUNE_EVERY:
            self._unpruned = 0
            with suppress(UnavailableError):  # what was to be told is told; the next one deletes more
                await self._prune()

    @asynccontextmanager
    async def subscribe(self, *, after: str | None = None) -> AsyncIterator[AsyncIterator[Told]]:
        begun = (await self._client.write([put_missing(self._keys.events_begin, b"0")])).revision
        place = None if after is None else _find_place(after)
        start, replayed = (begun, []) if after is None else await self._recall(place)
        buffer = EventBuffer(replayed)
        async with filled_by(self._read(start, buffer)):
            yield buffer

    def _note_unasked(self, task_ids: set[TaskId], *, seen_at: int) -> None:
        if not self._client.is_watch_enough:
            return
        if self._watch is None or self._watch.done():
            self._unasked.clear()
            self._watched_since = seen_at
            self._watch = self._client.wait_apart(
                under(self._keys.cancels), after=seen_at, wait=KEPT_WATCH, is_wanted=is_put
            )
        if seen_at >= self._watched_since:  # else it may have been asked for in between, which this watch does not tell
            self._unasked |= task_ids

    async def _recall(self, place: tuple[int, int] | None) -> tuple[int, list[Told]]:
        """From which revision to watch, and what came between that and the place where the listener was."""
        done = await self._client.read([get(self._keys.events_begin), scan(under(self._keys.events))])
        begin, batches = done.answers
        if place is None or not _oldest(begin.range.kvs) <= place[0] <= done.revision:
            return done.revision, [Told(f"{EVENT_ID}{done.revision}-{END}", None)]
        known = sorted(batches.range.kvs, key=lambda kv: kv.mod_revision)
        return done.revision, [told for kv in known if kv.mod_revision >= place[0] for told in _tell(kv, after=place)]

    async def _read(self, revision: int, buffer: EventBuffer) -> None:
        """Watch until something ends it. Then the listener is told, and listens anew after what it heard last: a watch
        that was begun again here would not find out that etcd has lost its memory, and stay silent."""
        try:
            async with self._client.watch(under(self._keys.events), after=revision) as changes:
                async for some in changes:
                    for change in some:
                        if change.type == wire.WatchEvent.PUT:
                            for told in _tell(change.kv, after=(0, 0)):
                                buffer.put(told)
        except CompactedError:
            buffer.fail(CoordinatorUnavailableError("etcd: what happened in between is not known any more"))
        except Exception as exc:  # whatever ends the reading must reach the listener, or it would wait for ever
            buffer.fail(exc)

    async def _prune(self) -> None:
        """Forget the oldest batches beyond what is to be remembered; whoever else does it at once does it for us."""
        asked = [get(self._keys.events_begin), scan(under(self._keys.events), keys_only=True)]
        begin, batches = (await self._client.read(asked)).answers
        newest = sorted(batches.range.kvs, key=lambda kv: kv.mod_revision, reverse=True)
        doomed = list(_beyond(newest))[: MOST_OPS - 1]
        if doomed and begin.range.kvs:
            key, kept = self._keys.events_begin, begin.range.kvs[0].mod_revision
            last = put(key, str(max(kv.mod_revision for kv in doomed)).encode())
            await self._client.write(
                [last, *(delete(kv.key.decode()) for kv in doomed)], when=[is_unchanged(key, kept)]
            )


def _pack(events: Sequence[Event]) -> Iterator[tuple[int, bytes]]:
    """How many, and their batch: several of them where progress was told at length."""
    batch, half = msgspec.json.encode(events), len(events) // 2
    if len(batch) <= LONGEST_BATCH or not half:
        yield len(events), batch
        return
    yield from _pack(events[:half])
    yield from _pack(events[half:])


def _find_place(text: str) -> tuple[int, int] | None:
    """Revision and number in an id such as `e17-3`; None when the id is of another kind."""
    first, _, second = text.removeprefix(EVENT_ID).partition("-")
    if text[:1] != EVENT_ID or not text.isascii():
        return None
    revision, number = find_number(first.encode()), find_number(second.encode())
    return None if revision is None or number is None else (revision, number)


def _oldest(begin: Sequence[wire.KeyValue]) -> int:
    """The revision since which all is remembered."""
    if not begin:
        return 2**63
    pruned = find_number(begin[0].value)
    return max(begin[0].create_revision, 0 if pruned is None else pruned)


def _tell(kv: wire.KeyValue, *, after: tuple[int, int]) -> Iterator[Told]:
    """The events of a batch that come after a place."""
    with suppress(msgspec.DecodeError):
        for number, raw in enumerate(_RAW.decode(kv.value), start=1):
            if (kv.mod_revision, number) > after:
                with suppress(msgspec.DecodeError):
                    yield Told(f"{EVENT_ID}{kv.mod_revision}-{number}", _EVENT.decode(raw))


def _beyond(newest: Iterable[wire.KeyValue]) -> Iterator[wire.KeyValue]:
    """The batches after the newest ones, which together are all that is remembered."""
    left = REMEMBERED
    for kv in newest:
        if left <= 0:
            yield kv
        left -= find_number(kv.key.rpartition(b"_")[2]) or 1
