"""Firing schedules in SQL: the occurrence, its task and the next fire time in one transaction."""

from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from rota.domain.errors import IdTakenError
from rota.domain.ids import TaskId, TenantId
from rota.domain.paging import purge_limit
from rota.domain.schedule import Occurrence
from rota.domain.task import Task
from rota.domain.task_config import TaskConfig
from rota.infrastructure.database.database import Database, DuplicateKeyError
from rota.infrastructure.database.schema import schedule_occurrence, task_config
from rota.infrastructure.instants import from_us, to_us
from rota.infrastructure.store.sql.config_rows import to_config
from rota.infrastructure.store.sql.tasks import insert_tasks


class SqlScheduleStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_due(self, limit: int) -> list[TaskConfig]:
        def work(connection: Connection) -> list[TaskConfig]:
            due = task_config.c.next_fire_us.between(1, self._database.now_us(connection))
            query = select(task_config).where(due, task_config.c.is_enabled == 1)
            rows = connection.execute(query.order_by(task_config.c.next_fire_us, task_config.c.type).limit(limit))
            return [to_config(row) for row in rows]

        return await self._database.read(work)

    async def fire(self, occurrence: Occurrence, *, task: Task | None, next_fire_at: datetime | None) -> bool:
        next_us = to_us(next_fire_at)
        work = partial(self._fire, occurrence=occurrence, task=task, next_fire_us=next_us)
        try:
            await self._database.transact(work)
        except DuplicateKeyError:
            skip = partial(_pass, occurrence=occurrence, task=task, next_fire_us=next_us)
            return await self._database.transact(skip)
        return True

    async def list_occurrences(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[Occurrence]:
        table = schedule_occurrence
        query = select(table).where(table.c.tenant_id == tenant_id, table.c.type == task_type)
        newest = query.order_by(table.c.fire_us.desc()).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(newest).fetchall())
        return [_to_occurrence(row) for row in rows]

    async def purge(self, *, fired_before: datetime, limit: int) -> int:
        return await self._database.transact(partial(_purge, before_us=to_us(fired_before), limit=purge_limit(limit)))

    def _fire(self, connection: Connection, *, occurrence: Occurrence, task: Task | None, next_fire_us: int) -> None:
        values = {
            "tenant_id": occurrence.tenant_id,
            "type": occurrence.task_type,
            "fire_us": to_us(occurrence.fire_at),
            "task_id": occurrence.task_id or 0,
            "reason": occurrence.reason,
        }
        connection.execute(insert(schedule_occurrence).values(**values))
        insert_tasks(self._database, connection, tasks=[] if task is None else [task])
        _move_on(connection, occurrence, next_fire_us=next_fire_us)


def _pass(connection: Connection, *, occurrence: Occurrence, task: Task | None, next_fire_us: int) -> bool:
    """Move on from a target that is noted already. Whether this very call had noted it."""
    table = schedule_occurrence
    query = select(table.c.task_id).where(
        table.c.tenant_id == occurrence.tenant_id,
        table.c.type == occurrence.task_type,
        table.c.fire_us == to_us(occurrence.fire_at),
    )
    known = connection.execute(query).scalar_one_or_none()
    if task is not None and known is None:  # not the occurrence but the task was there
        raise IdTakenError(task.id)
    _move_on(connection, occurrence, next_fire_us=next_fire_us)
    return task is not None and known == task.id


def _move_on(connection: Connection, occurrence: Occurrence, *, next_fire_us: int) -> None:
    fire_us = to_us(occurrence.fire_at)
    latest_us = min(fire_us, next_fire_us - 1) if next_fire_us else fire_us
    connection.execute(
        update(task_config)
        .where(
            task_config.c.tenant_id == occurrence.tenant_id,
            task_config.c.type == occurrence.task_type,
            task_config.c.next_fire_us.between(1, latest_us),  # a later one was set by who knows better
        )
        .values(next_fire_us=next_fire_us)
    )


def _purge(connection: Connection, *, before_us: int, limit: int) -> int:
    """In the order of the primary key, so that what goes of a schedule is one range of it."""
    table = schedule_occurrence
    key = (table.c.tenant_id, table.c.type)
    oldest = select(*key, table.c.fire_us).where(table.c.fire_us < before_us)
    doomed = oldest.order_by(*key, table.c.fire_us).limit(limit).subquery()
    name = (doomed.c.tenant_id, doomed.c.type)
    last = select(*name, func.max(doomed.c.fire_us)).group_by(*name).order_by(*name)
    purged = 0
    for tenant_id, task_type, last_us in connection.execute(last).fetchall():
        old = (table.c.tenant_id == tenant_id, table.c.type == task_type, table.c.fire_us <= last_us)
        purged += connection.execute(delete(table).where(*old)).rowcount
    return purged


def _to_occurrence(row: Any) -> Occurrence:
    return Occurrence(
        task_type=row.type,
        tenant_id=TenantId(row.tenant_id),
        fire_at=from_us(row.fire_us),
        task_id=TaskId(row.task_id) if row.task_id else None,
        reason=row.reason,
    )
