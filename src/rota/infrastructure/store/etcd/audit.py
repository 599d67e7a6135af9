"""The record of who changed what, in etcd: written with the change, where its id is not there yet."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from rota.domain.audit import AuditEntry
from rota.domain.ids import MAX_ID, TenantId, first_id_at
from rota.domain.paging import purge_limit
from rota.infrastructure.etcd.ops import Op, cut, delete, put_missing
from rota.infrastructure.store.etcd.space import KV, EtcdSpace, id_of

A_DAY = timedelta(days=1)
_ENTRY = msgspec.json.Decoder(AuditEntry)


def audit_ops(space: EtcdSpace, audit: Iterable[AuditEntry]) -> list[Op]:
    """What keeps these entries, as a part of the change they are about."""
    first = {entry.id: entry for entry in reversed(list(audit))}  # etcd refuses to write a key twice at once
    return [put_missing(space.key("audit", one), msgspec.json.encode(entry)) for one, entry in first.items()]


class EtcdAuditStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def list_page(self, tenant_id: TenantId, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        found: list[AuditEntry] = []
        below = MAX_ID + 1 if before is None else before
        while len(found) < limit and below > 0:
            kvs, below = await self._space.scan_newest("audit", below=below, least=0, needed=limit)
            found += [entry for entry in map(_read, kvs) if entry.tenant_id == tenant_id]
        return found[:limit]

    async def purge(self, *, before: datetime, limit: int) -> int:
        most, span = purge_limit(limit), self._space.ids_from("audit", 0, before=first_id_at(before + A_DAY))
        doomed = [id_of(kv) for kv in await self._space.scan(span) if _read(kv).at < before][:most]
        deleted = 0
        for parts in cut([delete(self._space.key("audit", one))] for one in doomed):
            done = await self._space.client.write([op for part in parts for op in part])
            deleted += sum(answer.delete.deleted for answer in done.answers)
        return deleted


def _read(kv: KV) -> AuditEntry:
    return _ENTRY.decode(kv.value)
