"""Cancel requests as rows that expire, and events as numbered batches that every listener reads for itself.

A listener asks for the batches after the last one it has seen, so a number must never become visible after a greater
one. Numbers from an auto-increment would: two publishers draw 5 and 6, and the second commits first. Here a publisher
draws its numbers from one row, whose lock it holds until its batch is committed. When that row is missing, because the
memory was lost, numbering goes on from the database's clock in microseconds, far above what was used before.

A publish that is run again after an unknown outcome may be heard twice. An event that this release cannot read comes
from a newer one, and is left out.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import msgspec
from sqlalchemy import Connection, bindparam, delete, select, update

from rota.domain.events import Event
from rota.domain.ids import TaskId
from rota.infrastructure.coordination.event_buffer import EventBuffer
from rota.infrastructure.coordination.sql.waiting import Bells
from rota.infrastructure.database.coordination_schema import cancel, event, tally
from rota.infrastructure.database.database import Database
from rota.infrastructure.instants import duration_us

EVENTS_PER_ROW = 500
EVENTS_KEPT = timedelta(minutes=1)  # a listener looks every 200 ms
PRUNE_EVERY = 16  # numbers
PRUNED_AT_ONCE = 200  # more than can have come since the last time
READ_AT_ONCE = 20  # rows: about a listener's backlog
ENDLESS = timedelta(days=1)
_EVENTS = 2  # the row of `tally` with the number last drawn
_FIND_LAST = select(tally.c.number).where(tally.c.id == _EVENTS)
_READ = (
    select(event.c.id, event.c.events_json)
    .where(event.c.id > bindparam("last"))
    .order_by(event.c.id)
    .limit(READ_AT_ONCE)
)
_OLDEST = select(event.c.id, event.c.at_us).order_by(event.c.id).limit(PRUNED_AT_ONCE)
_EXPIRED = select(cancel.c.id).where(cancel.c.expires_us <= bindparam("now_us")).limit(PRUNED_AT_ONCE)
_RAW = msgspec.json.Decoder(list[msgspec.Raw])
_EVENT = msgspec.json.Decoder(Event)


class SqlSignals:
    def __init__(self, database: Database, bells: Bells) -> None:
        self._database = database
        self._bells = bells

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
        documents = [msgspec.json.encode(part).decode() for part in parts]
        await self._database.transact(partial(self._publish, documents=documents))
        self._bells.ring(_EVENTS)

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[Event]]:
        buffer = EventBuffer()
        reader = asyncio.create_task(self._read(await self._find_last(), buffer))
        try:
            yield buffer
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _find_last(self) -> int:
        def work(connection: Connection) -> int:
            return connection.execute(_FIND_LAST).scalar() or self._database.now_us(connection)

        return await self._database.read(work)

    async def _read(self, last: int, buffer: EventBuffer) -> None:
        try:
            while True:
                look = partial(self._database.read, partial(_list_rows, last=last))
                for number, document in await self._bells.look_until(_EVENTS, look, wait=ENDLESS):
                    last = number
                    for heard in _decode(document):
                        buffer.put(heard)
        except Exception as exc:  # whatever ends the reading must reach the listener, or it would wait for ever
            buffer.fail(exc)

    def _request_cancel(self, connection: Connection, *, task_ids: Sequence[TaskId], ttl: timedelta) -> None:
        now_us = self._database.now_us(connection)
        rows = [(task_id, now_us + duration_us(ttl)) for task_id in sorted(set(task_ids))]
        self._database.bulk.upsert(connection, cancel, columns=("id", "expires_us"), rows=rows)
        expired = connection.execute(_EXPIRED, {"now_us": now_us}).scalars().all()
        if expired:
            connection.execute(delete(cancel).where(cancel.c.id.in_(sorted(expired)), cancel.c.expires_us <= now_us))

    def _publish(self, connection: Connection, *, documents: Sequence[str]) -> None:
        now_us = self._database.now_us(connection)
        last = connection.execute(_FIND_LAST.with_for_update()).scalar()
        if last is None:
            self._database.bulk.insert_missing(connection, tally, columns=("id", "number"), rows=[(_EVENTS, now_us)])
            last = connection.execute(_FIND_LAST.with_for_update()).scalar_one()
        rows = [(number, now_us, document) for number, document in enumerate(documents, start=last + 1)]
        self._database.bulk.insert(connection, event, columns=("id", "at_us", "events_json"), rows=rows)
        connection.execute(update(tally).where(tally.c.id == _EVENTS).values(number=last + len(rows)))
        if last % PRUNE_EVERY + len(rows) >= PRUNE_EVERY:
            _prune(connection, before_us=now_us - duration_us(EVENTS_KEPT))


def _list_rows(connection: Connection, *, last: int) -> list[tuple[int, str]]:
    rows = connection.execute(_READ, {"last": last})
    return [(number, document) for number, document in rows]


def _decode(document: str) -> Iterator[Event]:
    for raw in _RAW.decode(document):
        try:
            yield _EVENT.decode(raw)
        except msgspec.DecodeError:
            continue


def _prune(connection: Connection, *, before_us: int) -> None:
    doomed = [number for number, at_us in connection.execute(_OLDEST) if at_us < before_us]
    if doomed:
        connection.execute(delete(event).where(event.c.id <= doomed[-1]))
