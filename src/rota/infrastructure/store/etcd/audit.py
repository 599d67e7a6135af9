"""The record of who changed what, in etcd: written with the change, where its id is not there yet."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from rota.domain.audit import AuditEntry, AuditFilter, AuditPage, page_of
from rota.domain.ids import CLUSTER, MAX_ID, TenantId, first_id_at
from rota.domain.paging import MAX_PAGE, MOST_LOOKED_AT, purge_limit
from rota.infrastructure.etcd.ops import Op, cut, delete, put_missing
from rota.infrastructure.store.etcd.space import KV, EtcdSpace

A_DAY = timedelta(days=1)
KINDS = ("audit", "cluster_audit")
_ENTRY = msgspec.json.Decoder(AuditEntry)


def audit_ops(space: EtcdSpace, audit: Iterable[AuditEntry]) -> list[Op]:
    """What keeps these entries, as a part of the change they are about."""
    first = {entry.id: entry for entry in reversed(list(audit))}  # etcd refuses to write a key twice at once
    return [_keep(space, entry) for entry in first.values()]


class EtcdAuditStore:
    def __init__(self, space: EtcdSpace) -> None:
        self._space = space

    async def add(self, audit: Sequence[AuditEntry]) -> None:
        for parts in cut([op] for op in audit_ops(self._space, audit)):
            await self._space.client.write([op for part in parts for op in part])

    async def list_page(self, tenant_id: TenantId, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        found: list[AuditEntry] = []
        below = MAX_ID + 1 if before is None else before
        while len(found) < limit and below > 0:
            kvs, below = await self._space.scan_newest(_kind(tenant_id), below=below, least=0, needed=limit)
            found += [entry for entry in map(_read, kvs) if entry.tenant_id == tenant_id]
        return found[:limit]

    async def search(self, wanted: AuditFilter) -> AuditPage:
        ids, looked_at, found = wanted.ids, 0, list[AuditEntry]()
        below, kind = ids.stop, _kind(wanted.tenant_id)
        needed = MAX_PAGE if wanted.texts else wanted.limit
        while len(found) < wanted.limit and below > ids.start:
            if looked_at >= MOST_LOOKED_AT:
                return page_of(found, wanted.limit, looked_down_to=below)
            kvs, below = await self._space.scan_newest(kind, below=below, least=ids.start, needed=needed)
            found += [one for one in map(_read, kvs) if one.tenant_id == wanted.tenant_id and wanted.fits(one)]
            looked_at += len(kvs)
        return page_of(found, wanted.limit)

    async def purge(self, *, before: datetime, limit: int) -> int:
        most, end = purge_limit(limit), first_id_at(before + A_DAY)
        spans = [self._space.ids_from(kind, 0, before=end) for kind in KINDS]
        entries = [_read(kv) for span in spans for kv in await self._space.scan(span)]
        doomed = sorted((entry.id, _kind(entry.tenant_id)) for entry in entries if entry.at < before)[:most]
        deleted = 0
        for parts in cut([delete(self._space.key(kind, one))] for one, kind in doomed):
            done = await self._space.client.write([op for part in parts for op in part])
            deleted += sum(answer.delete.deleted for answer in done.answers)
        return deleted


def _keep(space: EtcdSpace, entry: AuditEntry) -> Op:
    return put_missing(space.key(_kind(entry.tenant_id), entry.id), msgspec.json.encode(entry))


def _kind(tenant_id: TenantId) -> str:
    """What the cluster itself did is kept apart: it is little, and would have to be looked for among all else."""
    return "cluster_audit" if tenant_id == CLUSTER else "audit"


def _read(kv: KV) -> AuditEntry:
    return _ENTRY.decode(kv.value)
