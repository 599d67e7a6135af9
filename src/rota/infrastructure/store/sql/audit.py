"""The record of who changed what, in SQL."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, select

from rota.domain.audit import AuditEntry, AuditFilter, AuditPage, page_of
from rota.domain.ids import MAX_ID, TenantId, first_id_at
from rota.domain.paging import MOST_LOOKED_AT, purge_limit
from rota.infrastructure.database.batch import Batch
from rota.infrastructure.database.bulk import Bulk
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.schema import audit_log as table
from rota.infrastructure.instants import from_us, to_us
from rota.infrastructure.store.sql.text_search import equals

AHEAD = timedelta(days=1)  # by how much an id may be ahead of its entry's moment: more than clocks differ
_COLUMNS = ("id", "tenant_id", "at_us", "actor", "action", "object", "address", "detail", "token_id")


class SqlAuditStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, audit: Sequence[AuditEntry]) -> None:
        bulk = self._database.bulk
        await self._database.transact(lambda connection: insert_audit(bulk, connection, audit=audit))

    async def list_page(self, tenant_id: TenantId, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        query = select(table).where(table.c.tenant_id == tenant_id)
        if before is not None:
            query = query.where(table.c.id < before)
        newest = query.order_by(table.c.id.desc()).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(newest).fetchall())
        return [_to_entry(row) for row in rows]

    async def search(self, wanted: AuditFilter) -> AuditPage:
        return await self._database.read(lambda connection: _search(connection, wanted))

    async def purge(self, *, before: datetime, limit: int) -> int:
        # The range of ids spares an index by time: without it, a purge that finds nothing would read everything.
        old = select(table.c.id).where(table.c.id < first_id_at(before + AHEAD), table.c.at_us < to_us(before))
        oldest = old.order_by(table.c.id).limit(purge_limit(limit))

        def work(connection: Connection) -> int:
            ids = connection.execute(oldest).scalars().all()
            return connection.execute(delete(table).where(table.c.id.in_(ids))).rowcount if ids else 0

        return await self._database.transact(work)


def _search(connection: Connection, wanted: AuditFilter) -> AuditPage:
    """Only the tenant and the id have an index: of what may not fit, so many entries are read and no more. Which these
    are is found in the index alone, and then they are read by their ids: asked for both at once, MariaDB reads all that
    the tenant has."""
    ids = wanted.ids  # its end may be more than a column holds
    among = select(table.c.id).where(table.c.tenant_id == wanted.tenant_id)
    most = MOST_LOOKED_AT if wanted.texts else wanted.limit
    newest = among.where(table.c.id >= ids.start, table.c.id <= ids.stop - 1).order_by(table.c.id.desc()).limit(most)
    bounds = newest.subquery()
    count, first, last = connection.execute(
        select(func.count(), func.min(bounds.c.id), func.max(bounds.c.id))
    ).one()  # what is added from here on is not looked at
    looked_at = among.where(table.c.id.between(first, last)).limit(MAX_ID).subquery()  # else MariaDB merges them
    fit = (equals(table.c[name], text) for name, text in wanted.texts.items())
    query = select(table).join(looked_at, looked_at.c.id == table.c.id).where(*fit)
    rows = connection.execute(query.order_by(table.c.id.desc()).limit(wanted.limit)).fetchall() if count else []
    return page_of([_to_entry(row) for row in rows], wanted.limit, looked_down_to=first if count == most else None)


def insert_audit(bulk: Bulk, connection: Connection, *, audit: Sequence[AuditEntry]) -> None:
    """Keep entries, in the transaction of what they tell of; the caller owns it."""
    if audit:
        bulk.insert_missing(connection, table, columns=_COLUMNS, rows=_rows_of(audit))


def add_audit(batch: Batch, audit: Sequence[AuditEntry]) -> None:
    """The same, beside other writes that need no answer in between."""
    if audit:
        batch.insert_missing(table, columns=_COLUMNS, rows=_rows_of(audit))


def _rows_of(audit: Sequence[AuditEntry]) -> list[tuple[Any, ...]]:
    """Tasks that were asked for together share an entry."""
    return [_to_row(entry) for entry in {entry.id: entry for entry in audit}.values()]


def _to_row(entry: AuditEntry) -> tuple[Any, ...]:
    who = (entry.id, entry.tenant_id, to_us(entry.at), entry.actor)
    return (*who, entry.action, entry.object, entry.address, entry.detail or None, entry.token_id)


def _to_entry(row: Any) -> AuditEntry:
    return AuditEntry(
        id=row.id,
        tenant_id=TenantId(row.tenant_id),
        at=from_us(row.at_us),
        actor=row.actor,
        action=row.action,
        object=row.object,
        address=row.address,
        detail=row.detail or "",
        token_id=row.token_id,
    )
