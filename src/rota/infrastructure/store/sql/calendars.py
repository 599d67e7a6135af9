"""Calendars in SQL, and which schedules name them.

Whoever stores a config locks the calendars that its schedule names, and whoever deletes a calendar locks it before
looking who names it: so none is deleted under a schedule. A release that knows no calendars may have changed a config
and left its entries in `calendar_use` behind; that is why the configs themselves are asked.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, and_, delete, insert, select, tuple_, update

from rota.application.ports.store import CalendarKey
from rota.domain.audit import AuditEntry
from rota.domain.calendar import NAMED_USERS, Calendar, StoredCalendar
from rota.domain.errors import CalendarInUseError, InvalidError, RevisionConflictError
from rota.domain.ids import TenantId
from rota.domain.task_config import TaskConfig, UnreadableConfig
from rota.infrastructure.database.database import Database, DuplicateKeyError
from rota.infrastructure.database.schema import calendar as table
from rota.infrastructure.database.schema import calendar_use, task_config
from rota.infrastructure.store.calendar_documents import KeptCalendar, list_readable, read_calendar, write_calendar
from rota.infrastructure.store.sql.audit import insert_audit
from rota.infrastructure.store.sql.config_rows import to_due, to_readable


class SqlCalendarStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self, calendar: StoredCalendar, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> StoredCalendar:
        work = partial(self._put, wanted=calendar, expected=expected_revision, audit=audit)
        try:
            return await self._database.transact(work)
        except DuplicateKeyError:  # two created it at once: now there is one to replace, or to conflict with
            return await self._database.transact(work)

    async def find(self, tenant_id: TenantId, name: str) -> StoredCalendar | None:
        query = select(table).where(table.c.tenant_id == tenant_id, table.c.name == name)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else read_calendar(_kept(row))

    async def load(self, keys: Collection[CalendarKey]) -> dict[CalendarKey, Calendar]:
        if not keys:
            return {}
        query = select(table).where(tuple_(table.c.tenant_id, table.c.name).in_(sorted(keys)))
        rows = await self._database.read(lambda connection: connection.execute(query).fetchall())
        return {(one.tenant_id, one.name): one.calendar for one in _readable(rows)}

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[StoredCalendar]:
        own = select(table).where(table.c.tenant_id == tenant_id, table.c.name > after)
        page = own.order_by(table.c.name).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(page).fetchall())
        return _readable(rows)

    async def list_users(
        self, tenant_id: TenantId, name: str, *, after: str = "", limit: int = 100
    ) -> list[TaskConfig]:
        found: list[TaskConfig] = []
        while len(found) < limit:
            page = partial(_users, tenant_id=tenant_id, name=name, after=after, limit=limit)
            rows = await self._database.read(page)
            found += to_readable(rows)
            if len(rows) < limit:
                break
            after = rows[-1].type
        return found[:limit]

    async def delete(self, tenant_id: TenantId, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        own = (table.c.tenant_id == tenant_id, table.c.name == name)

        def work(connection: Connection) -> bool:
            if connection.execute(select(table.c.revision).where(*own).with_for_update()).one_or_none() is None:
                return False
            users = _users(connection, tenant_id, name=name, limit=NAMED_USERS)
            if users:
                raise CalendarInUseError(name, types=[row.type for row in users])
            connection.execute(delete(table).where(*own))
            uses = (calendar_use.c.tenant_id == tenant_id, calendar_use.c.name == name)
            connection.execute(delete(calendar_use).where(*uses))
            insert_audit(self._database.bulk, connection, audit=audit)
            return True

        return await self._database.transact(work)

    def _put(
        self, connection: Connection, *, wanted: StoredCalendar, expected: int | None, audit: Sequence[AuditEntry]
    ) -> StoredCalendar:
        own = (table.c.tenant_id == wanted.tenant_id, table.c.name == wanted.name)
        row = connection.execute(select(table).where(*own).with_for_update()).one_or_none()
        current = next(iter(_readable([row])), None) if row is not None else None
        if current is not None and wanted.is_repeat_of(current, expected_revision=expected):
            return current
        revision = 0 if row is None else row.revision
        if expected is not None and expected != revision:
            raise RevisionConflictError(wanted.name, expected=expected, current=revision, kind="calendar")
        now_us = self._database.now_us(connection)
        values = {
            "revision": revision + 1,
            "updated_us": now_us,
            "calendar_json": write_calendar(wanted, with_times=False).decode(),
        }
        if row is None:
            key = {"tenant_id": wanted.tenant_id, "name": wanted.name, "created_us": now_us}
            connection.execute(insert(table).values(**key, **values))
        else:
            connection.execute(update(table).where(*own).values(**values))
        insert_audit(self._database.bulk, connection, audit=audit)
        return read_calendar(_kept(connection.execute(select(table).where(*own)).one()))


def note_uses(connection: Connection, config: TaskConfig, *, before: TaskConfig | None) -> None:
    """Note which calendars a config names, which must be there; the caller owns the transaction."""
    names, named = _names(config), _names(before)
    if names:
        own = (table.c.tenant_id == config.tenant_id, table.c.name.in_(sorted(names)))
        query = select(table.c.name).where(*own).order_by(table.c.name).with_for_update()
        missing = names - set(connection.execute(query).scalars())
        if missing:
            raise InvalidError("schedule", f"there is no calendar {min(missing)!r}")
    if names != named:
        forget_uses(connection, config.tenant_id, task_type=config.type)
        uses = [{"tenant_id": config.tenant_id, "name": name, "type": config.type} for name in sorted(names)]
        if uses:
            connection.execute(insert(calendar_use), uses)


def forget_uses(connection: Connection, tenant_id: str, *, task_type: str) -> None:
    """The config names no calendars any more."""
    own = (calendar_use.c.tenant_id == tenant_id, calendar_use.c.type == task_type)
    connection.execute(delete(calendar_use).where(*own))


def _names(config: TaskConfig | None) -> frozenset[str]:
    return frozenset() if config is None or config.schedule is None else config.schedule.calendars


def _users(connection: Connection, tenant_id: str, *, name: str, after: str = "", limit: int) -> list[Any]:
    """The rows of configs that name it, and of those that cannot be read and may."""
    found: list[Any] = []
    while len(found) < limit:
        noted = _noted(connection, tenant_id, name=name, after=after, limit=limit)
        found += [row for row in noted if _may_name(row, name)]
        if len(noted) < limit:
            break
        after = noted[-1].type
    return found[:limit]


def _may_name(row: Any, name: str) -> bool:
    due = to_due(row)
    return isinstance(due, UnreadableConfig) or name in _names(due)


def _noted(connection: Connection, tenant_id: str, *, name: str, after: str, limit: int) -> Sequence[Any]:
    is_same = and_(task_config.c.tenant_id == calendar_use.c.tenant_id, task_config.c.type == calendar_use.c.type)
    uses = (calendar_use.c.tenant_id == tenant_id, calendar_use.c.name == name, calendar_use.c.type > after)
    query = select(task_config).join(calendar_use, is_same).where(*uses).order_by(calendar_use.c.type).limit(limit)
    return connection.execute(query).fetchall()


def _kept(row: Any) -> KeptCalendar:
    return KeptCalendar(
        tenant_id=TenantId(row.tenant_id),
        name=row.name,
        revision=row.revision,
        written=row.calendar_json,
        created_us=row.created_us,
        updated_us=row.updated_us,
    )


def _readable(rows: Iterable[Any]) -> list[StoredCalendar]:
    return list_readable(map(_kept, rows))
