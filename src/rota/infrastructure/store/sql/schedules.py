"""Firing schedules in SQL: occurrences, their tasks and the next fire times of many configs in one transaction.

Swift when all is as expected: one fenced statement moves all configs on, in the order of their key, and everything is
inserted with it. If a config is not where its firing began, as when another leader was faster, or a target is noted
already, as after the deletion of a config, the count or the unique key says so: all is rolled back, and done again
carefully, with the configs locked and the targets that are noted looked up first.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    tuple_,
    union_all,
    update,
)

from rota.application.ports.store import MOST_LOOKED_THROUGH, FireKey
from rota.domain.errors import IdTakenError
from rota.domain.firing import Firing, already_in, check_one_firing_each
from rota.domain.ids import TaskId, TenantId
from rota.domain.paging import purge_limit
from rota.domain.schedule import Occurrence
from rota.domain.task_config import ConfigKey, TaskConfig, UnreadableConfig
from rota.infrastructure.database.batch import FenceMissedError
from rota.infrastructure.database.database import Database, RunAgainError
from rota.infrastructure.database.schema import schedule_occurrence, task_config, task_config_revision
from rota.infrastructure.instants import find_us, from_us, to_us
from rota.infrastructure.store.sql.config_rows import ENABLED, to_due
from rota.infrastructure.store.sql.fire_rows import write_firings
from rota.infrastructure.store.sql.task_rows import SELECT_TASK, to_task

_PAGE = 1000
_MOST_NAMED = 500  # times in one statement
_TYPES_AT_ONCE = 50  # in one statement about the runs of several
_PAGES_PURGED = 5  # of types in one purge: a tenth of a second where nothing is old
_FIRST: ConfigKey = (TenantId(""), "")  # before all types
# Asked for every second: a statement that is made once need not be put together, nor recognised, each time.
_DUE = (
    select(task_config)
    .where(task_config.c.is_enabled == ENABLED, task_config.c.next_fire_us.between(1, bindparam("until")))
    .order_by(task_config.c.next_fire_us, task_config.c.tenant_id, task_config.c.type)
    .limit(bindparam("most", type_=Integer))
)
_NEXT = select(func.min(task_config.c.next_fire_us)).where(
    task_config.c.is_enabled == ENABLED, task_config.c.next_fire_us > 0
)

_Known = Mapping[tuple[str, str], Mapping[datetime, Occurrence]]


class SqlScheduleStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._purged_up_to = _FIRST

    async def list_due(
        self, limit: int, *, by: datetime | None = None, after: FireKey | None = None
    ) -> list[TaskConfig | UnreadableConfig]:
        query = _DUE if after is None else _DUE.where(_is_behind(after))

        def work(connection: Connection) -> Sequence[Any]:
            until = self._database.now_us(connection) if by is None else to_us(by)
            return connection.execute(query, {"until": until, "most": limit}).fetchall()

        return [to_due(row) for row in await self._database.read(work)]

    async def list_unreadable(self, limit: int) -> list[UnreadableConfig]:
        found: list[UnreadableConfig] = []
        key = tuple_(task_config.c.tenant_id, task_config.c.type)
        query = select(task_config).where(task_config.c.is_enabled == ENABLED, task_config.c.next_fire_us > 0)
        page, last = query.order_by(task_config.c.tenant_id, task_config.c.type).limit(_PAGE), ("", "")
        while len(found) < limit:
            rows = await self._database.read(partial(_fetch, query=page.where(key > last)))
            found += [one for one in map(to_due, rows) if isinstance(one, UnreadableConfig)]
            if len(rows) < _PAGE:
                break
            last = (rows[-1].tenant_id, rows[-1].type)
        return found[:limit]

    async def find_next(self) -> datetime | None:
        return find_us(await self._database.read(lambda connection: int(connection.execute(_NEXT).scalar() or 0)))

    async def fire(self, firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        check_one_firing_each(firings)
        if not firings:
            return []
        careful = partial(self._fire_carefully, firings=firings)
        return await self._database.transact(partial(self._fire_swiftly, firings=firings), again=careful)

    async def aim(self, config: TaskConfig | UnreadableConfig, next_fire_at: datetime | None) -> bool:
        table = task_config.c
        own = (table.tenant_id == config.tenant_id, table.type == config.type)
        read = (table.next_fire_us == to_us(config.next_fire_at), table.revision == config.revision)
        statement = update(task_config).where(*own, *read).values(next_fire_us=to_us(next_fire_at))
        return await self._database.transact(lambda connection: connection.execute(statement).rowcount == 1)

    async def list_occurrences(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[Occurrence]:
        table = schedule_occurrence
        query = select(table).where(table.c.tenant_id == tenant_id, table.c.type == task_type)
        newest = query.order_by(table.c.fire_us.desc()).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(newest).fetchall())
        return [_to_occurrence(row) for row in rows]

    async def find_occurrences(
        self, tenant_id: TenantId, task_type: str, *, times: Collection[datetime]
    ) -> dict[datetime, Occurrence]:
        """In one transaction: a statement for every so many times, since what a statement may name is limited."""
        table, wanted = schedule_occurrence, sorted(map(to_us, times))
        own = select(table).where(table.c.tenant_id == tenant_id, table.c.type == task_type)
        parts = [wanted[begin : begin + _MOST_NAMED] for begin in range(0, len(wanted), _MOST_NAMED)]
        queries = [own.where(table.c.fire_us.in_(part)) for part in parts]
        rows = await self._database.read(lambda connection: [row for one in queries for row in connection.execute(one)])
        return {one.fire_at: one for one in map(_to_occurrence, rows)}

    async def list_runs(
        self, since: Mapping[ConfigKey, datetime], *, limit: int = 100
    ) -> dict[ConfigKey, list[Occurrence]]:
        """First among few, which is enough for most: looking through all that may be takes far longer."""
        among = min(2 * limit, MOST_LOOKED_THROUGH)
        newest = await self._list_newest(since, partial(_newest, among=among))
        found = {key: [one for one in its if one.task_id is not None][:limit] for key, its in newest.items()}
        short = {key: at for key, at in since.items() if len(newest[key]) == among and len(found[key]) < limit}
        return found | await self._list_newest(short, partial(_newest_runs, limit=limit))

    async def _list_newest(
        self, since: Mapping[ConfigKey, datetime], query: Callable[[ConfigKey, datetime], Select[Any]]
    ) -> dict[ConfigKey, list[Occurrence]]:
        """What queries say of each type, newest first: a statement for every so many types."""
        asked = list(since.items())
        parts = [asked[begin : begin + _TYPES_AT_ONCE] for begin in range(0, len(asked), _TYPES_AT_ONCE)]
        queries = [union_all(*(select(query(key, at).subquery()) for key, at in part)) for part in parts]
        rows = await self._database.read(lambda connection: [row for one in queries for row in connection.execute(one)])
        found: dict[ConfigKey, list[Occurrence]] = {key: [] for key in since}
        for one in sorted(map(_to_occurrence, rows), key=lambda one: one.fire_at, reverse=True):
            found[one.tenant_id, one.task_type].append(one)
        return found

    async def purge(self, *, fired_before: datetime, limit: int) -> int:
        """Goes on where the last call ended, through a bounded number of types: there is no index by age, which would
        cost the server a sixth more for every fire."""
        work = partial(self._purge, before_us=to_us(fired_before), limit=purge_limit(limit))
        purged, self._purged_up_to = await self._database.transact(work)
        return purged

    def _purge(self, connection: Connection, *, before_us: int, limit: int) -> tuple[int, ConfigKey]:
        purged, reached = 0, self._purged_up_to
        for _ in range(_PAGES_PURGED):
            rows = _list_oldest(connection, after=reached)
            for row in rows:
                if row.oldest_us is not None and row.oldest_us < before_us:
                    purged += _purge_type(connection, row, before_us=before_us, limit=limit - purged)
                if purged >= limit:
                    return purged, reached  # there may be more of this one
                reached = (row.tenant_id, row.type)
            if len(rows) < _PAGE:
                return purged, _FIRST
        return purged, reached

    def _fire_swiftly(self, connection: Connection, *, firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        self._write(connection, firings)
        return [one.occurrences for one in firings]

    def _fire_carefully(self, connection: Connection, *, firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        seen = _lock(connection, firings)
        current = [one for one in firings if seen.get(_key(one)) == (to_us(one.seen_at), one.revision)]
        known = _find_noted(connection, firings)
        new = [firing.without(known[_key(firing)]) for firing in current]
        self._check_ids(connection, [task.id for firing in new for task in firing.tasks])
        self._write(connection, new)
        noted = {_key(firing): firing.occurrences for firing in new}
        return [noted[_key(one)] if _key(one) in noted else already_in(one, known[_key(one)]) for one in firings]

    def _write(self, connection: Connection, firings: Sequence[Firing]) -> None:
        try:
            with self._database.bulk.together(connection) as batch:
                write_firings(batch, firings)
        except FenceMissedError as exc:
            raise RunAgainError from exc

    def _check_ids(self, connection: Connection, ids: Sequence[TaskId]) -> None:
        """No target of these tasks is noted, so that a task with such an id is another one."""
        if ids:
            query = f"{SELECT_TASK} WHERE t.id {{ids}}"
            for row in self._database.bulk.select_by_ids(connection, query, ids=ids):
                raise IdTakenError(to_task(row).id)


def _is_behind(key: FireKey) -> ColumnElement[bool]:
    """In steps, each of which is a range of the index; of a comparison of all at once MariaDB makes none."""
    at, tenant_id, task_type = key
    table = task_config.c
    name = or_(table.tenant_id > tenant_id, and_(table.tenant_id == tenant_id, table.type > task_type))
    return or_(table.next_fire_us > to_us(at), and_(table.next_fire_us == to_us(at), name))


def _newest(key: ConfigKey, since: datetime, *, among: int) -> Select[Any]:
    table, (tenant_id, task_type) = schedule_occurrence.c, key
    own = (table.tenant_id == tenant_id, table.type == task_type, table.fire_us >= to_us(since))
    return select(schedule_occurrence).where(*own).order_by(table.fire_us.desc()).limit(among)


def _newest_runs(key: ConfigKey, since: datetime, *, limit: int) -> Select[Any]:
    newest = _newest(key, since, among=MOST_LOOKED_THROUGH).subquery()
    return select(newest).where(newest.c.task_id > 0).order_by(newest.c.fire_us.desc()).limit(limit)


def _fetch(connection: Connection, query: Select[Any]) -> Sequence[Any]:
    return connection.execute(query).fetchall()


def _key(firing: Firing) -> tuple[str, str]:
    return firing.tenant_id, firing.task_type


def _by_tenant(firings: Iterable[Firing]) -> Mapping[str, list[Firing]]:
    found: dict[str, list[Firing]] = defaultdict(list)
    for firing in firings:
        found[firing.tenant_id].append(firing)
    return {tenant: found[tenant] for tenant in sorted(found)}


def _lock(connection: Connection, firings: Sequence[Firing]) -> dict[tuple[str, str], tuple[int, int]]:
    """The next fire times and revisions of the configs, which nobody else moves until the end of the transaction."""
    seen = {}
    table = task_config.c
    for tenant, its in _by_tenant(firings).items():
        query = select(table.type, table.next_fire_us, table.revision).where(table.tenant_id == tenant)
        rows = query.where(table.type.in_(sorted(one.task_type for one in its))).order_by(table.type).with_for_update()
        seen.update({(tenant, row.type): (row.next_fire_us, row.revision) for row in connection.execute(rows)})
    return seen


def _find_noted(connection: Connection, firings: Sequence[Firing]) -> _Known:
    """What is noted of their targets; with one query for all of a tenant that have the same ones, as most do."""
    alike: dict[tuple[str, tuple[int, ...]], list[str]] = defaultdict(list)
    for firing in firings:
        targets = tuple(to_us(one.fire_at) for one in firing.occurrences)
        if targets:
            alike[firing.tenant_id, targets].append(firing.task_type)
    known: dict[tuple[str, str], dict[datetime, Occurrence]] = defaultdict(dict)
    table = schedule_occurrence
    for (tenant_id, targets), types in alike.items():
        own = (table.c.tenant_id == tenant_id, table.c.type.in_(types))
        for one in map(_to_occurrence, connection.execute(select(table).where(*own, table.c.fire_us.in_(targets)))):
            known[one.tenant_id, one.task_type][one.fire_at] = one
    return known


def _list_oldest(connection: Connection, *, after: ConfigKey) -> Sequence[Any]:
    """Types that there ever were behind another, each with the time of its oldest occurrence: one look each."""
    named, noted = task_config_revision.c, schedule_occurrence.c
    tenant_id, task_type = after
    behind = or_(named.tenant_id > tenant_id, and_(named.tenant_id == tenant_id, named.type > task_type))
    page = select(named.tenant_id, named.type).distinct().where(behind).order_by(named.tenant_id, named.type)
    types = page.limit(_PAGE).subquery().c
    own = (noted.tenant_id == types.tenant_id, noted.type == types.type)
    oldest = select(noted.fire_us).where(*own).order_by(noted.fire_us).limit(1).scalar_subquery()
    query = select(types.tenant_id, types.type, oldest.label("oldest_us")).order_by(types.tenant_id, types.type)
    return connection.execute(query).fetchall()


def _purge_type(connection: Connection, row: Any, *, before_us: int, limit: int) -> int:
    """Its oldest ones, up to so many: one range of the primary key."""
    table = schedule_occurrence.c
    old = (table.tenant_id == row.tenant_id, table.type == row.type, table.fire_us < before_us)
    last = select(table.fire_us).where(*old).order_by(table.fire_us).offset(limit - 1).limit(1)
    last_us = connection.execute(last).scalar_one_or_none()
    doomed = old if last_us is None else (*old, table.fire_us <= last_us)
    return connection.execute(delete(schedule_occurrence).where(*doomed)).rowcount


def _to_occurrence(row: Any) -> Occurrence:
    return Occurrence(
        task_type=row.type,
        tenant_id=TenantId(row.tenant_id),
        fire_at=from_us(row.fire_us),
        task_id=TaskId(row.task_id) if row.task_id else None,
        reason=row.reason,
        since=find_us(row.since_us),
    )
