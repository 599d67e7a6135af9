"""Task configs in SQL, every change a revision of its own."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from rota.domain.audit import AuditEntry
from rota.domain.errors import RevisionConflictError
from rota.domain.ids import TenantId
from rota.domain.task_config import KEPT_REVISIONS, ConfigKey, TaskConfig
from rota.infrastructure.database.database import Database, DuplicateKeyError
from rota.infrastructure.database.schema import task_config, task_config_revision
from rota.infrastructure.instants import to_us
from rota.infrastructure.store.sql.audit import insert_audit
from rota.infrastructure.store.sql.calendars import forget_uses, note_uses
from rota.infrastructure.store.sql.config_rows import config_to_json, enabled_code, to_config, to_readable

MOST_NAMED = 500  # types in one statement


class SqlConfigStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self, config: TaskConfig, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> TaskConfig:
        work = partial(self._put, config=config, expected=expected_revision, audit=audit)
        try:
            return await self._database.transact(work)
        except DuplicateKeyError:  # two created it at once: now there is one to replace, or to conflict with
            return await self._database.transact(work)

    async def find(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        row = await self._database.read(lambda connection: _find_row(connection, tenant_id, task_type=task_type))
        return None if row is None else to_config(row)

    async def find_many(self, keys: Collection[ConfigKey]) -> dict[ConfigKey, TaskConfig]:
        """In one transaction: a statement for every tenant and every so many types, since what a statement may name
        is limited."""
        types: dict[TenantId, list[str]] = defaultdict(list)
        for tenant_id, task_type in keys:
            types[tenant_id].append(task_type)
        queries = [
            select(task_config).where(task_config.c.tenant_id == tenant_id, task_config.c.type.in_(some))
            for tenant_id, names in types.items()
            for some in (names[begin : begin + MOST_NAMED] for begin in range(0, len(names), MOST_NAMED))
        ]
        rows = await self._database.read(lambda connection: [row for one in queries for row in connection.execute(one)])
        return {(config.tenant_id, config.type): config for config in to_readable(rows)}

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[TaskConfig]:
        """A page that is short is the last one, so that what cannot be read is made up for."""
        found: list[TaskConfig] = []
        own = select(task_config).where(task_config.c.tenant_id == tenant_id).order_by(task_config.c.type)
        while len(found) < limit:
            page = own.where(task_config.c.type > after).limit(limit)
            rows = await self._database.read(partial(_fetch, query=page))
            found += to_readable(rows)
            if len(rows) < limit:
                break
            after = rows[-1].type
        return found[:limit]

    async def find_revision(self, tenant_id: TenantId, task_type: str, *, revision: int) -> TaskConfig | None:
        table = task_config_revision
        key = (table.c.tenant_id == tenant_id, table.c.type == task_type, table.c.revision == revision)
        rows = await self._database.read(partial(_fetch, query=select(table).where(*key)))
        return to_config(rows[0]) if rows else None

    async def list_revisions(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[TaskConfig]:
        table = task_config_revision
        query = (
            select(table)
            .where(table.c.tenant_id == tenant_id, table.c.type == task_type)
            .order_by(table.c.revision.desc())
            .limit(limit)
        )
        return to_readable(await self._database.read(partial(_fetch, query=query)))

    async def delete(self, tenant_id: TenantId, task_type: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        statement = delete(task_config).where(task_config.c.tenant_id == tenant_id, task_config.c.type == task_type)

        def work(connection: Connection) -> bool:
            if connection.execute(statement).rowcount != 1:
                return False
            forget_uses(connection, tenant_id, task_type=task_type)
            insert_audit(self._database.bulk, connection, audit=audit)
            return True

        return await self._database.transact(work)

    def _put(
        self, connection: Connection, *, config: TaskConfig, expected: int | None, audit: Sequence[AuditEntry]
    ) -> TaskConfig:
        row = _find_row(connection, config.tenant_id, task_type=config.type, lock=True)
        current = next(iter(to_readable([row])), None) if row is not None else None  # what cannot be read is replaced
        if current is not None and config.is_repeat_of(current, expected_revision=expected):
            return current
        revision = row.revision if row is not None else 0
        if expected is not None and expected != revision:
            raise RevisionConflictError(config.type, expected=expected, current=revision)
        note_uses(connection, config, before=current)
        now_us = self._database.now_us(connection)
        kept = config.in_place_of(current)
        state = {"runs": kept.runs, "last_run": kept.last_run or 0}
        number = _next_revision(connection, config)
        values = {
            "revision": number,
            "is_enabled": enabled_code(config),
            "next_fire_us": to_us(kept.next_fire_at),
            "created_us": row.created_us if row is not None else now_us,
            "updated_us": now_us,
            "config_json": config_to_json(config),
        }
        _write(connection, config, values=values | state, is_new=row is None)
        revision_row = {"tenant_id": config.tenant_id, "type": config.type, **values}
        connection.execute(insert(task_config_revision).values(**revision_row))
        _let_go(connection, config, last=number)
        insert_audit(self._database.bulk, connection, audit=audit)
        return to_config(_find_row(connection, config.tenant_id, task_type=config.type))


def _find_row(connection: Connection, tenant_id: str, *, task_type: str, lock: bool = False) -> Any:
    query = select(task_config).where(task_config.c.tenant_id == tenant_id, task_config.c.type == task_type)
    return connection.execute(query.with_for_update() if lock else query).one_or_none()


def _fetch(connection: Connection, *, query: Select[Any]) -> Sequence[Any]:
    return connection.execute(query).fetchall()


def _next_revision(connection: Connection, config: TaskConfig) -> int:
    table = task_config_revision
    query = select(func.coalesce(func.max(table.c.revision), 0)).where(
        table.c.tenant_id == config.tenant_id, table.c.type == config.type
    )
    return int(connection.execute(query).scalar_one()) + 1


def _let_go(connection: Connection, config: TaskConfig, *, last: int) -> None:
    table = task_config_revision
    same = (table.c.tenant_id == config.tenant_id, table.c.type == config.type)
    if last > KEPT_REVISIONS:
        connection.execute(delete(table).where(*same, table.c.revision <= last - KEPT_REVISIONS))


def _write(connection: Connection, config: TaskConfig, *, values: dict[str, Any], is_new: bool) -> None:
    key = {"tenant_id": config.tenant_id, "type": config.type}
    if is_new:
        connection.execute(insert(task_config).values(**key, **values))
    else:
        same = (task_config.c.tenant_id == config.tenant_id, task_config.c.type == config.type)
        connection.execute(update(task_config).where(*same).values(**values))
