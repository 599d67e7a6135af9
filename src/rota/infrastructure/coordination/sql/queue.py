"""What waits: a row per task, which moves from the lane of those not due to the lane of its priority.

A lane is served by position: the moment at which an entry became ready, or was due. One index, by lane and position,
serves both "the first of a lane" and "the next to be due", so a take locks the rows it brings and no others, passing
over what another taker has locked. It begins at the front that a plain read has shown: on MariaDB a locking read that
began at the lane's start grew slower with every batch taken, a plain one hardly did (measured; we think it is what was
deleted and is not purged yet).

A task has one row. Pushed again it moves when its lane is another one now; in the same lane it keeps its place, so that
one who pushes all that waits, to be sure, does not send the oldest to the end.

What an entry brings along is forgotten: it would cost a column, and this queue is for safety, not for speed.

What takes something away (`take`, `move_due`) is never run again after an unknown outcome: a second run would bring
other tasks, and nobody would learn that the first ones are gone.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection, Integer, bindparam, func, select, update

from rota.application.ports.coordinator import NO_WAIT
from rota.domain.ids import TaskId, WorkerId
from rota.domain.priority import LEVELS
from rota.domain.queue import DueMove, QueueDepths, QueueEntry, Taken, WorkerLoads
from rota.infrastructure.coordination.sql.wake import WakeMark
from rota.infrastructure.database.coordination_schema import delivery, memory
from rota.infrastructure.database.coordination_schema import queue as table
from rota.infrastructure.database.database import Database
from rota.infrastructure.instants import from_us, to_us

NOT_DUE = -1  # the lane of what is delayed
NEVER_US = 2**63 - 1
EMPTYING_BATCH = 5_000  # well within the deadline of a call
_ROW = 1
_IN_ORDER = (table.c.position_us, table.c.id)
# MySQL's optimiser may prefer to read a short table whole, and lock it on the way.
_BY_ORDER = "FORCE INDEX (coordination_queue_order)"

_WAITING = select(table.c.lane, func.count()).group_by(table.c.lane)
_HANDED = select(delivery.c.is_taken, delivery.c.worker_id, func.count()).group_by(
    delivery.c.is_taken, delivery.c.worker_id
)
_FRONTS = select(
    *(select(func.min(table.c.position_us)).where(table.c.lane == lane).scalar_subquery() for lane in LEVELS)
)
_HEADS = select(
    *(
        select(table.c.id)
        .where(table.c.lane == lane, table.c.position_us >= bindparam(f"from_{lane}"))
        .order_by(*_IN_ORDER)
        .limit(1)
        .scalar_subquery()
        for lane in LEVELS
    )
)
TAKE = (
    select(table.c.id)
    .where(table.c.lane == bindparam("lane"), table.c.position_us >= bindparam("from_us"))
    .order_by(*_IN_ORDER)
    .limit(bindparam("count", type_=Integer))
    .with_for_update(skip_locked=True)
    .with_hint(table, _BY_ORDER, "mysql")
)
FIND_DUE = (
    select(table.c.id, table.c.priority)
    .where(table.c.lane == NOT_DUE, table.c.position_us.between(bindparam("from_us"), bindparam("now_us")))
    .order_by(*_IN_ORDER)
    .limit(bindparam("count", type_=Integer))
    .with_for_update(skip_locked=True)
    .with_hint(table, _BY_ORDER, "mysql")
)
_NEXT_DUE = select(func.min(table.c.position_us)).where(table.c.lane == NOT_DUE)


class _Row(NamedTuple):
    id: TaskId
    lane: int
    position_us: int
    priority: int


class SqlTaskQueue:
    def __init__(self, database: Database, wake: WakeMark) -> None:
        self._database = database
        self._wake = wake

    async def push(self, entries: Sequence[QueueEntry]) -> None:
        if not entries:
            return
        if await self._database.transact(partial(self._push, entries=entries)):
            await self._wake.set()

    async def take(self, limit: int, *, order: Sequence[int], wait: timedelta = NO_WAIT) -> Taken:
        is_woken = bool(wait) and await self._wake.wait(wait)
        taken = await self._database.transact(partial(self._take, limit=limit, order=order), is_repeatable=False)
        return replace(taken, is_woken=is_woken)

    async def wait_for_work(self, wait: timedelta) -> bool:
        return await self._wake.wait(wait)

    async def wake(self) -> None:
        await self._wake.set()

    async def move_due(self, now: datetime, limit: int) -> DueMove:
        move = await self._database.transact(
            partial(self._move_due, now_us=to_us(now), limit=limit), is_repeatable=False
        )
        if move.moved:
            await self._wake.set()
        return move

    async def discard(self, entries: Sequence[QueueEntry]) -> None:
        if entries:
            await self._database.transact(partial(self._discard, entries=entries))

    async def depths(self) -> QueueDepths:
        return await self._database.read(_count_all)

    async def loads(self) -> WorkerLoads:
        return await self._database.read(_count_handed)

    async def find_generation(self) -> str | None:
        query = select(memory.c.generation).where(memory.c.id == _ROW)
        return await self._database.read(lambda connection: connection.execute(query).scalar()) or None

    async def rebuild(self, generation: str, pages: AsyncIterator[Sequence[QueueEntry]]) -> None:
        row = (_ROW, "", generation)
        columns = ("id", "generation", "building")
        bulk = self._database.bulk
        await self._database.transact(lambda link: bulk.upsert(link, memory, columns=columns, rows=[row]))
        while await self._database.transact(self._empty) == EMPTYING_BATCH:
            pass
        async for page in pages:
            await self.push(page)
        # The mark shows whether this memory was lost, or emptied by another rebuild, while we filled it.
        built = update(memory).where(memory.c.id == _ROW, memory.c.building == generation)
        await self._database.transact(lambda link: link.execute(built.values(generation=generation, building="")))

    def _push(self, connection: Connection, *, entries: Sequence[QueueEntry]) -> bool:
        """Whether the scheduler should know: something is ready, or it has to get up earlier."""
        now_us = self._database.now_us(connection)
        last = {entry.task_id: (now_us + place, entry) for place, entry in enumerate(entries)}
        rows = sorted(_to_row(entry, arrived_us=arrived_us) for arrived_us, entry in last.values())
        ready = [row for row in rows if row.lane != NOT_DUE]
        delayed = [row for row in rows if row.lane == NOT_DUE]
        bulk = self._database.bulk
        if delayed:
            bulk.upsert(connection, table, columns=_Row._fields, rows=delayed)
        if ready:
            bulk.upsert_changed(connection, table, columns=_Row._fields, rows=ready, by="lane")
            return True
        return min(row.position_us for row in delayed) == connection.execute(_NEXT_DUE).scalar()

    def _take(self, connection: Connection, *, limit: int, order: Sequence[int]) -> Taken:
        fronts = _find_fronts(connection)
        if not fronts:
            return Taken((), {})
        self._database.bulk.avoid_sorting(connection)
        taken: list[TaskId] = []
        for level in order:
            if level in fronts and len(taken) < limit:
                wanted = {"lane": level, "from_us": fronts[level], "count": limit - len(taken)}
                taken += connection.execute(TAKE, wanted).scalars()
        if taken:
            self._delete(connection, taken)
        return Taken(tuple(taken), _find_heads(connection, fronts))

    def _move_due(self, connection: Connection, *, now_us: int, limit: int) -> DueMove:
        next_us = connection.execute(_NEXT_DUE).scalar()
        if next_us is None or next_us > now_us:
            return DueMove(0, None if next_us is None else from_us(next_us))
        self._database.bulk.avoid_sorting(connection)
        wanted = {"from_us": next_us, "now_us": now_us, "count": limit}
        due = sorted(map(tuple, connection.execute(FIND_DUE, wanted)))
        if due:
            self._database.bulk.update(connection, table, columns=("lane",), rows=due)
        next_us = connection.execute(_NEXT_DUE).scalar()
        return DueMove(len(due), None if next_us is None else from_us(next_us))

    def _discard(self, connection: Connection, *, entries: Sequence[QueueEntry]) -> None:
        rows = sorted((entry.task_id, NOT_DUE, entry.priority) for entry in entries)
        self._database.bulk.delete(connection, table, columns=("id", "lane", "priority"), rows=rows)

    def _empty(self, connection: Connection) -> int:
        doomed = connection.execute(select(table.c.id).order_by(table.c.id).limit(EMPTYING_BATCH)).scalars().all()
        if doomed:
            self._delete(connection, doomed)
        return len(doomed)

    def _delete(self, connection: Connection, ids: Iterable[int]) -> None:
        rows = [(task_id,) for task_id in sorted(ids)]
        self._database.bulk.delete(connection, table, columns=("id",), rows=rows)


def _to_row(entry: QueueEntry, *, arrived_us: int) -> _Row:
    if entry.due_at is None:
        return _Row(entry.task_id, entry.priority, arrived_us, entry.priority)
    return _Row(entry.task_id, NOT_DUE, to_us(entry.due_at), entry.priority)


def _find_fronts(connection: Connection) -> Mapping[int, int]:
    """The first position of each lane that is not empty."""
    positions = zip(LEVELS, connection.execute(_FRONTS).one(), strict=True)
    return {level: position_us for level, position_us in positions if position_us is not None}


def _find_heads(connection: Connection, fronts: Mapping[int, int]) -> Mapping[int, TaskId]:
    """The first entry of each lane, not before these positions."""
    start = {f"from_{level}": fronts.get(level, NEVER_US) for level in LEVELS}
    heads = zip(LEVELS, connection.execute(_HEADS, start).one(), strict=True)
    return {level: TaskId(head) for level, head in heads if head is not None}


def _count_all(connection: Connection) -> QueueDepths:
    waiting = {int(lane): int(number) for lane, number in connection.execute(_WAITING)}
    handed = _count_handed(connection)
    delayed = waiting.pop(NOT_DUE, 0)
    return QueueDepths(ready=waiting, delayed=delayed, assigned=handed.assigned, in_flight=handed.in_flight)


def _count_handed(connection: Connection) -> WorkerLoads:
    counts: tuple[dict[WorkerId, int], dict[WorkerId, int]] = ({}, {})
    for is_taken, worker_id, number in connection.execute(_HANDED):
        counts[is_taken][WorkerId(worker_id)] = number
    return WorkerLoads(assigned=counts[0], in_flight=counts[1])
