"""Cancel requests as rows that expire, and events as numbered batches that every listener reads for itself.

Events are numbered one by one; a row holds a batch, under the number of its last event. A listener asks for the batches
after the last one it has seen, so a number must never become visible after a greater one. Numbers from an
auto-increment would: two publishers draw 5 and 6, and the second commits first. Here a publisher draws its numbers from
one row, whose lock it holds until its batch is committed, and does little in between: all others wait for it. When that
row is missing, because the memory was lost, numbering goes on from the database's clock in microseconds, far above what
was used before.

A publish that is run again after an unknown outcome may be heard twice. An event that this release cannot read comes
from a newer one, and is left out.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import accumulate

import msgspec
from sqlalchemy import BigInteger, Connection, Text, bindparam, delete, insert, select, update

from rota.domain.errors import UnavailableError
from rota.domain.events import Event, Told
from rota.domain.ids import TaskId
from rota.infrastructure.coordination.event_buffer import REMEMBERED, EventBuffer, filled_by, find_number
from rota.infrastructure.coordination.sql.waiting import Bells
from rota.infrastructure.database.coordination_schema import cancel, event, tally
from rota.infrastructure.database.database import Database, RunAgainError
from rota.infrastructure.instants import duration_us

EVENTS_PER_ROW = 500
EVENTS_KEPT = timedelta(minutes=1)  # at least, also those beyond what is remembered: a listener looks every 200 ms
PRUNE_EVERY = 1000  # events
PRUNED_AT_ONCE = 2000  # rows: more than can have come since the last time
READ_AT_ONCE = 20  # rows: about a listener's backlog
ENDLESS = timedelta(days=1)
_EVENTS = 2  # the row of `tally` with the number last drawn
_FIND_LAST = select(tally.c.number).where(tally.c.id == _EVENTS)
_DRAW = update(tally).where(tally.c.id == _EVENTS).values(number=tally.c.number + bindparam("count", type_=BigInteger))
_KEEP = insert(event).from_select(
    ["id", "at_us", "events_json"],
    select(
        tally.c.number - bindparam("behind", type_=BigInteger),
        bindparam("now_us", type_=BigInteger),
        bindparam("document", type_=Text),
    ).where(tally.c.id == _EVENTS),
)
_READ = (
    select(event.c.id, event.c.events_json)
    .where(event.c.id > bindparam("last"))
    .order_by(event.c.id)
    .limit(READ_AT_ONCE)
)
_OLDEST = (
    select(event.c.id, event.c.at_us).where(event.c.id <= bindparam("last")).order_by(event.c.id).limit(PRUNED_AT_ONCE)
)
_EXPIRED = select(cancel.c.id).where(cancel.c.expires_us <= bindparam("now_us")).limit(PRUNED_AT_ONCE)
_RAW = msgspec.json.Decoder(list[msgspec.Raw])
_EVENT = msgspec.json.Decoder(Event)
EVENT_ID = "s"


class SqlSignals:
    def __init__(self, database: Database, bells: Bells) -> None:
        self._database = database
        self._bells = bells
        self._unpruned = PRUNE_EVERY  # events of our own since old ones were deleted; a process begins with that

    async def request_cancel(self, task_ids: Sequence[TaskId], *, ttl: timedelta) -> None:
        if task_ids:
            await self._database.transact(partial(self._request_cancel, task_ids=task_ids, ttl=ttl))

    async def find_cancelled(self, task_ids: Sequence[TaskId]) -> frozenset[TaskId]:
        if not task_ids:
            return frozenset()
        query = "SELECT id, expires_us FROM coordination_cancel WHERE id {ids}"

        def work(connection: Connection) -> frozenset[TaskId]:
            rows = self._database.bulk.select_by_ids(connection, query, ids=task_ids)
            now_us = self._database.now_us(connection) if rows else 0
            return frozenset(TaskId(task_id) for task_id, expires_us in rows if expires_us > now_us)

        return await self._database.read(work)

    async def publish(self, events: Sequence[Event]) -> None:
        if not events:
            return
        parts = [events[start : start + EVENTS_PER_ROW] for start in range(0, len(events), EVENTS_PER_ROW)]
        batches = [(len(part), msgspec.json.encode(part).decode()) for part in parts]
        publish = partial(self._publish, batches=batches)
        await self._database.transact(publish, again=publish)
        self._bells.ring(_EVENTS)
        self._unpruned += len(events)
        if self._unpruned > PRUNE_EVERY:
            self._unpruned = 0
            with suppress(UnavailableError):  # what was to be told is told; the next one deletes more
                await self._database.transact(self._prune)

    @asynccontextmanager
    async def subscribe(self, *, after: str | None = None) -> AsyncIterator[AsyncIterator[Told]]:
        number = None if after is None else find_number(after, EVENT_ID)
        start, is_known = await self._database.read(partial(self._find_start, after=number))
        buffer = EventBuffer() if after is None or is_known else EventBuffer([Told(f"{EVENT_ID}{start}", None)])
        async with filled_by(self._read(start, buffer)):
            yield buffer

    def _find_start(self, connection: Connection, *, after: int | None) -> tuple[int, bool]:
        """The number after which to read, and whether everything after the one asked for is still here."""
        last = connection.execute(_FIND_LAST).scalar() or self._database.now_us(connection)
        if after is None:
            return last, False
        rows = _list_rows(connection, last=after)
        begin = rows[0][0] - len(_RAW.decode(rows[0][1])) if rows else last  # all after this are here
        return (after, True) if begin <= after <= last else (last, False)

    async def _read(self, last: int, buffer: EventBuffer) -> None:
        try:
            while True:
                look = partial(self._database.read, partial(_list_rows, last=last))
                for number, document in await self._bells.look_until(_EVENTS, look, wait=ENDLESS):
                    for told in _tell(document, number, after=last):
                        buffer.put(told)
                    last = number
        except Exception as exc:  # whatever ends the reading must reach the listener, or it would wait for ever
            buffer.fail(exc)

    def _request_cancel(self, connection: Connection, *, task_ids: Sequence[TaskId], ttl: timedelta) -> None:
        now_us = self._database.now_us(connection)
        rows = [(task_id, now_us + duration_us(ttl)) for task_id in sorted(set(task_ids))]
        self._database.bulk.upsert(connection, cancel, columns=("id", "expires_us"), rows=rows)
        expired = connection.execute(_EXPIRED, {"now_us": now_us}).scalars().all()
        if expired:
            connection.execute(delete(cancel).where(cancel.c.id.in_(sorted(expired)), cancel.c.expires_us <= now_us))

    def _publish(self, connection: Connection, *, batches: Sequence[tuple[int, str]]) -> None:
        now_us = self._database.now_us(connection)
        count = sum(number for number, _ in batches)
        if not connection.execute(_DRAW, {"count": count}).rowcount:
            self._database.bulk.insert_missing(connection, tally, columns=("id", "number"), rows=[(_EVENTS, now_us)])
            if not connection.execute(_DRAW, {"count": count}).rowcount:
                raise RunAgainError
        ends = accumulate(number for number, _ in batches)
        rows = [
            {"behind": count - end, "now_us": now_us, "document": document}
            for end, (_, document) in zip(ends, batches, strict=True)
        ]
        connection.execute(_KEEP, rows)

    def _prune(self, connection: Connection) -> None:
        """Delete what nobody will ask for any more."""
        last = connection.execute(_FIND_LAST).scalar() or 0
        before_us = self._database.now_us(connection) - duration_us(EVENTS_KEPT)
        oldest = connection.execute(_OLDEST, {"last": last - REMEMBERED})
        doomed = [number for number, at_us in oldest if at_us < before_us]
        if doomed:
            connection.execute(delete(event).where(event.c.id <= doomed[-1]))


def _list_rows(connection: Connection, *, last: int) -> list[tuple[int, str]]:
    rows = connection.execute(_READ, {"last": last})
    return [(number, document) for number, document in rows]


def _tell(document: str, end: int, *, after: int) -> Iterator[Told]:
    """The events of the batch with this last number, but for those up to `after`."""
    raws = _RAW.decode(document)
    for number, raw in enumerate(raws, start=end - len(raws) + 1):
        if number > after:
            with suppress(msgspec.DecodeError):
                yield Told(f"{EVENT_ID}{number}", _EVENT.decode(raw))
