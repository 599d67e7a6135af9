"""Firing schedules in SQL: occurrences, their tasks and the next fire times of many configs in one transaction.

The rows of the configs are locked in the order of their key, and what each firing began from is compared. Normally no
target is noted yet, and everything is inserted at once. Where one is, as after the deletion of a config, the unique key
says so: all is rolled back, and done again with the targets that are noted looked up first.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, delete, func, select, text, update

from rota.application.ports.store import MOST_LOOKED_THROUGH
from rota.domain.checks import LATEST
from rota.domain.errors import IdTakenError
from rota.domain.firing import Firing, check_one_firing_each
from rota.domain.ids import TaskId, TenantId
from rota.domain.paging import purge_limit
from rota.domain.schedule import Occurrence
from rota.domain.task_config import TaskConfig
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.schema import schedule_occurrence, task_config
from rota.infrastructure.instants import find_us, from_us, to_us
from rota.infrastructure.store.sql.config_rows import to_config
from rota.infrastructure.store.sql.task_rows import SELECT_TASK, to_task
from rota.infrastructure.store.sql.tasks import insert_tasks

_COLUMNS = ("tenant_id", "type", "fire_us", "task_id", "reason", "since_us")
_PART = 100  # configs that one UPDATE moves on: each row is compared with half of them

_Known = Mapping[tuple[str, str], Mapping[datetime, Occurrence]]


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

    async def find_next(self) -> datetime | None:
        going = (task_config.c.is_enabled == 1, task_config.c.next_fire_us > 0)
        query = select(func.min(task_config.c.next_fire_us)).where(*going)
        return find_us(await self._database.read(lambda connection: int(connection.execute(query).scalar() or 0)))

    async def fire(self, firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        check_one_firing_each(firings)
        if not firings:
            return []
        careful = partial(self._fire, firings=firings, is_careful=True)
        return await self._database.transact(partial(self._fire, firings=firings), again=careful)

    async def aim(
        self, tenant_id: TenantId, task_type: str, *, seen_at: datetime, next_fire_at: datetime | None
    ) -> bool:
        own = (task_config.c.tenant_id == tenant_id, task_config.c.type == task_type)
        seen = task_config.c.next_fire_us == to_us(seen_at)
        statement = update(task_config).where(*own, seen).values(next_fire_us=to_us(next_fire_at))
        return await self._database.transact(lambda connection: connection.execute(statement).rowcount == 1)

    async def list_occurrences(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[Occurrence]:
        table = schedule_occurrence
        query = select(table).where(table.c.tenant_id == tenant_id, table.c.type == task_type)
        newest = query.order_by(table.c.fire_us.desc()).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(newest).fetchall())
        return [_to_occurrence(row) for row in rows]

    async def list_runs(
        self, tenant_id: TenantId, task_type: str, *, since: datetime, until: datetime | None = None, limit: int = 100
    ) -> list[Occurrence]:
        table = schedule_occurrence
        latest = to_us(LATEST if until is None else until)
        own = (table.c.tenant_id == tenant_id, table.c.type == task_type)
        within = table.c.fire_us.between(to_us(since), latest)
        newest = (
            select(table).where(*own, within).order_by(table.c.fire_us.desc()).limit(MOST_LOOKED_THROUGH).subquery()
        )
        query = select(newest).where(newest.c.task_id > 0).order_by(newest.c.fire_us.desc()).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(query).fetchall())
        return [_to_occurrence(row) for row in rows]

    async def purge(self, *, fired_before: datetime, limit: int) -> int:
        return await self._database.transact(partial(_purge, before_us=to_us(fired_before), limit=purge_limit(limit)))

    def _fire(
        self, connection: Connection, *, firings: Sequence[Firing], is_careful: bool = False
    ) -> list[Sequence[Occurrence]]:
        seen = _lock(connection, firings)
        current = [firing for firing in firings if _is_current(firing, seen)]
        others = [firing for firing in firings if not _is_current(firing, seen)]
        known = _find_noted(connection, firings if is_careful else others)
        new = [firing.without(known[_key(firing)]) for firing in current]
        tasks = [task for firing in new for task in firing.tasks]
        if is_careful:
            self._check_ids(connection, [task.id for task in tasks])
        rows = sorted(_row(one) for firing in new for one in firing.occurrences)
        if rows:
            self._database.bulk.insert(connection, schedule_occurrence, columns=_COLUMNS, rows=rows)
        insert_tasks(self._database, connection, tasks=tasks)
        _move_on(connection, new)
        noted = {_key(firing): firing.occurrences for firing in new}
        return [noted.get(_key(one), one.already_in(known[_key(one)])) for one in firings]

    def _check_ids(self, connection: Connection, ids: Sequence[TaskId]) -> None:
        """No target of these tasks is noted, so that a task with such an id is another one."""
        if ids:
            query = f"{SELECT_TASK} WHERE t.id {{ids}}"
            for row in self._database.bulk.select_by_ids(connection, query, ids=ids):
                raise IdTakenError(to_task(row).id)


def _key(firing: Firing) -> tuple[str, str]:
    return firing.tenant_id, firing.task_type


def _is_current(firing: Firing, seen: Mapping[tuple[str, str], int]) -> bool:
    return seen.get(_key(firing)) == to_us(firing.seen_at)


def _by_tenant(firings: Iterable[Firing]) -> Mapping[str, list[Firing]]:
    found: dict[str, list[Firing]] = defaultdict(list)
    for firing in firings:
        found[firing.tenant_id].append(firing)
    return {tenant: found[tenant] for tenant in sorted(found)}


def _lock(connection: Connection, firings: Sequence[Firing]) -> dict[tuple[str, str], int]:
    """The next fire times of the configs, which nobody else moves until the end of the transaction."""
    seen = {}
    table = task_config.c
    for tenant, its in _by_tenant(firings).items():
        query = select(table.type, table.next_fire_us).where(table.tenant_id == tenant)
        rows = query.where(table.type.in_(sorted(one.task_type for one in its))).order_by(table.type).with_for_update()
        seen.update({(tenant, row.type): row.next_fire_us for row in connection.execute(rows)})
    return seen


def _find_noted(connection: Connection, firings: Sequence[Firing]) -> _Known:
    """What is noted of their targets."""
    known: dict[tuple[str, str], dict[datetime, Occurrence]] = defaultdict(dict)
    table = schedule_occurrence
    for firing in firings:
        if firing.occurrences:
            targets = [to_us(one.fire_at) for one in firing.occurrences]
            own = (table.c.tenant_id == firing.tenant_id, table.c.type == firing.task_type)
            rows = connection.execute(select(table).where(*own, table.c.fire_us.in_(targets)))
            known[_key(firing)] = {one.fire_at: one for one in map(_to_occurrence, rows)}
    return known


def _row(one: Occurrence) -> tuple[Any, ...]:
    return one.tenant_id, one.task_type, to_us(one.fire_at), one.task_id or 0, one.reason, to_us(one.since)


def _move_on(connection: Connection, firings: Sequence[Firing]) -> None:
    """Advance many configs with one statement: most have a next fire time and a last run of their own."""
    for tenant, its in _by_tenant(firings).items():
        for start in range(0, len(its), _PART):
            part = its[start : start + _PART]
            types = {f"t{place}": one.task_type for place, one in enumerate(part)}
            next_fire = [to_us(one.next_fire_at) for one in part]
            columns = {
                "next_fire_us": _choose(next_fire, "next_fire_us"),
                "runs": _choose([len(one.tasks) for one in part], "0", plus="runs + "),
                "last_run": _choose([one.last_run or 0 for one in part], "last_run", unless=0),
            }
            changes = ", ".join(f"{name} = {value}" for name, value in columns.items())
            names = ", ".join(f":{name}" for name in types)
            statement = f"UPDATE task_config SET {changes} WHERE tenant_id = :tenant AND type IN ({names})"
            connection.execute(text(statement), {"tenant": tenant, **types})


def _choose(values: Sequence[int], otherwise: str, *, plus: str = "", unless: int | None = None) -> str:
    """An expression for the value of each type; all the same, or those that differ one by one."""
    if len(set(values)) == 1 and values[0] != unless:
        return f"{plus}{values[0]:d}"
    cases = " ".join(f"WHEN :t{place} THEN {value:d}" for place, value in enumerate(values) if value != unless)
    return f"{plus}CASE type {cases} ELSE {otherwise} END" if cases else otherwise


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
        since=find_us(row.since_us),
    )
