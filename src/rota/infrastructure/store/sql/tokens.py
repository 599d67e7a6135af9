"""Tokens in SQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from rota.domain.access import AccessToken, Role
from rota.domain.audit import AuditEntry
from rota.domain.errors import ConflictError
from rota.domain.ids import TenantId
from rota.domain.paging import purge_limit
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.schema import access_token as table
from rota.infrastructure.instants import find_us, from_us, to_us
from rota.infrastructure.store.sql.audit import insert_audit

_TOUCH = (  # only forward: nodes note uses on their own, and in no order
    update(table)
    .where(table.c.id == bindparam("token_id"), table.c.last_used_us < bindparam("used_us"))
    .values(last_used_us=bindparam("used_us"))
)


class SqlTokenStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, token: AccessToken, *, audit: Sequence[AuditEntry] = ()) -> None:
        work = partial(self._add, token=token, audit=audit)
        await self._database.transact(work, again=partial(self._add_again, token=token, audit=audit))

    async def find(self, token_id: str) -> AccessToken | None:
        return await self._database.read(lambda connection: _find(connection, token_id))

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[AccessToken]:
        own = select(table).where(table.c.tenant_id == tenant_id, table.c.id > after)
        page = own.order_by(table.c.id).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(page).fetchall())
        return [_to_token(row) for row in rows]

    async def revoke(
        self, tenant_id: TenantId, token_id: str, *, at: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        own = (table.c.id == token_id, table.c.tenant_id == tenant_id)
        end = update(table).where(*own, table.c.revoked_us == 0).values(revoked_us=to_us(at))

        def work(connection: Connection) -> bool:
            if connection.execute(end).rowcount == 1:
                insert_audit(self._database.bulk, connection, audit=audit)
                return True
            return connection.execute(select(table.c.revoked_us).where(*own)).scalar_one_or_none() == to_us(at)

        return await self._database.transact(work)

    async def touch(self, uses: Mapping[str, datetime]) -> None:
        if not uses:
            return
        rows = [{"token_id": token_id, "used_us": to_us(at)} for token_id, at in sorted(uses.items())]
        await self._database.transact(lambda connection: connection.execute(_TOUCH, rows).close())

    async def purge(self, *, ended_before: datetime, limit: int) -> int:
        latest_us, most = to_us(ended_before) - 1, purge_limit(limit)
        ended = or_(table.c.revoked_us.between(1, latest_us), table.c.expires_us.between(1, latest_us))

        def work(connection: Connection) -> int:
            ids = connection.execute(select(table.c.id).where(ended).order_by(table.c.id).limit(most)).scalars().all()
            return connection.execute(delete(table).where(table.c.id.in_(ids))).rowcount if ids else 0

        return await self._database.transact(work)

    def _add(self, connection: Connection, *, token: AccessToken, audit: Sequence[AuditEntry]) -> None:
        connection.execute(insert(table).values(**_to_values(token)))
        insert_audit(self._database.bulk, connection, audit=audit)

    def _add_again(self, connection: Connection, *, token: AccessToken, audit: Sequence[AuditEntry]) -> None:
        """An earlier call may have got through after all; then its audit did, too."""
        known = _find(connection, token.id)
        if known is None:
            self._add(connection, token=token, audit=audit)
        elif (known.tenant_id, known.digest) != (token.tenant_id, token.digest):
            raise ConflictError(f"another token has the id {token.id}")


def _find(connection: Connection, token_id: str) -> AccessToken | None:
    row = connection.execute(select(table).where(table.c.id == token_id)).one_or_none()
    return None if row is None else _to_token(row)


def _to_values(token: AccessToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "tenant_id": token.tenant_id,
        "name": token.name,
        "role": token.role.value,
        "digest": token.digest,
        "created_us": to_us(token.created_at),
        "expires_us": to_us(token.expires_at),
        "revoked_us": to_us(token.revoked_at),
        "last_used_us": to_us(token.last_used_at),
    }


def _to_token(row: Any) -> AccessToken:
    return AccessToken(
        id=row.id,
        tenant_id=TenantId(row.tenant_id),
        name=row.name,
        role=Role(row.role),
        digest=row.digest,
        created_at=from_us(row.created_us),
        expires_at=find_us(row.expires_us),
        revoked_at=find_us(row.revoked_us),
        last_used_at=find_us(row.last_used_us),
    )
