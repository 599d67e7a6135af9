"""What each worker is given: a row per attempt, marked when the worker has taken it, gone when it is acknowledged.

A take whose answer is lost on its way has marked its rows, and `held` finds them. So a take is never run again after an
unknown outcome: the worker has to learn that it should ask.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from sqlalchemy import Connection, Integer, Select, bindparam, select

from rota.domain.attempt import Attempt
from rota.domain.ids import TaskId, WorkerId
from rota.infrastructure.coordination.sql.waiting import Bells
from rota.infrastructure.coordination.sql.wake import WakeMark
from rota.infrastructure.database.coordination_schema import delivery as table
from rota.infrastructure.database.database import Database

_KEY = ("worker_id", "task_id", "attempt")
_OF_WORKER = select(table.c.task_id, table.c.attempt).where(table.c.worker_id == bindparam("worker_id"))
_ASSIGNED = _OF_WORKER.where(table.c.is_taken == 0).order_by(table.c.position_us, table.c.task_id)
TAKE = (
    _ASSIGNED.limit(bindparam("count", type_=Integer))
    .with_for_update(skip_locked=True)
    .with_hint(table, "FORCE INDEX (PRIMARY)", "mysql")
)
_MARK = "UPDATE coordination_delivery SET is_taken=1 WHERE task_id {ids}"
_HELD = _OF_WORKER.where(table.c.is_taken == 1).order_by(table.c.task_id, table.c.attempt)


class SqlDeliveries:
    def __init__(self, database: Database, bells: Bells, *, wake: WakeMark) -> None:
        self._database = database
        self._bells = bells
        self._wake = wake

    async def assign(self, attempts: Sequence[Attempt]) -> None:
        if not attempts:
            return
        await self._database.transact(partial(self._assign, attempts=attempts))
        for worker_id in {attempt.worker_id for attempt in attempts}:
            self._bells.ring(_topic(worker_id))

    async def take(self, worker_id: WorkerId, limit: int, *, wait: timedelta) -> list[Attempt]:
        look = partial(self._take_now, worker_id, limit)
        return await self._bells.look_until(_topic(worker_id), look, wait=wait)

    async def acknowledge(self, attempts: Sequence[Attempt]) -> None:
        if not attempts:
            return
        rows = sorted((attempt.worker_id, attempt.task_id, attempt.number) for attempt in attempts)
        bulk = self._database.bulk
        await self._database.transact(lambda link: bulk.delete(link, table, columns=_KEY, rows=rows))
        await self._wake.set()

    async def list_assigned(self, worker_id: WorkerId) -> list[Attempt]:
        return await self._database.read(partial(_list_rows, query=_ASSIGNED, worker_id=worker_id))

    async def held(self, worker_id: WorkerId) -> list[Attempt]:
        return await self._database.read(partial(_list_rows, query=_HELD, worker_id=worker_id))

    async def _take_now(self, worker_id: WorkerId, limit: int) -> list[Attempt]:
        return await self._database.transact(partial(self._take, worker_id=worker_id, limit=limit), is_repeatable=False)

    def _assign(self, connection: Connection, *, attempts: Sequence[Attempt]) -> None:
        now_us = self._database.now_us(connection)
        rows = sorted((one.worker_id, one.task_id, one.number, now_us + place) for place, one in enumerate(attempts))
        self._database.bulk.insert_missing(connection, table, columns=(*_KEY, "position_us"), rows=rows)

    def _take(self, connection: Connection, *, worker_id: WorkerId, limit: int) -> list[Attempt]:
        rows = connection.execute(TAKE, {"worker_id": worker_id, "count": limit})
        taken = [Attempt(TaskId(task_id), number, worker_id) for task_id, number in rows]
        for number in {attempt.number for attempt in taken}:  # few: most attempts are first ones
            statement = f"{_MARK} AND worker_id={worker_id:d} AND attempt={number:d}"
            ids = [attempt.task_id for attempt in taken if attempt.number == number]
            self._database.bulk.change_by_ids(connection, statement, ids=sorted(ids))
        return taken


def _list_rows(connection: Connection, *, query: Select[int, int], worker_id: WorkerId) -> list[Attempt]:
    rows = connection.execute(query, {"worker_id": worker_id})
    return [Attempt(TaskId(task_id), number, worker_id) for task_id, number in rows]


def _topic(worker_id: WorkerId) -> tuple[str, WorkerId]:
    return ("deliveries", worker_id)
