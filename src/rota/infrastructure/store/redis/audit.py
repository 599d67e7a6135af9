"""The record of who changed what, in Redis: written with the change, where its id is not there yet (`Change.note`)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from rota.domain.audit import AuditEntry, AuditFilter, AuditPage, page_of
from rota.domain.ids import MAX_ID, TenantId, first_id_at
from rota.domain.paging import MAX_PURGE, MOST_LOOKED_AT, purge_limit
from rota.infrastructure.store.redis.space import AT_ONCE, Change, RedisSpace, spell

A_DAY = timedelta(days=1)
_ENTRY = msgspec.json.Decoder(AuditEntry)


class RedisAuditStore:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space

    async def add(self, audit: Sequence[AuditEntry]) -> None:
        if audit:
            await self._space.commit(Change().note(self._space, audit))

    async def list_page(self, tenant_id: TenantId, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        return await self._newest(tenant_id, range(0, MAX_ID + 1 if before is None else before), limit=limit)

    async def search(self, wanted: AuditFilter) -> AuditPage:
        ids, looked_at, found = wanted.ids, 0, list[AuditEntry]()
        while looked_at < MOST_LOOKED_AT:
            some = await self._newest(wanted.tenant_id, ids, limit=AT_ONCE if wanted.texts else wanted.limit)
            found += filter(wanted.fits, some)
            if len(found) >= wanted.limit or not some:
                return page_of(found, wanted.limit)
            ids, looked_at = range(ids.start, some[-1].id), looked_at + len(some)
        return page_of(found, wanted.limit, looked_down_to=ids.stop)

    async def _newest(self, tenant_id: TenantId, ids: range, *, limit: int) -> list[AuditEntry]:
        begin = "+" if ids.stop > MAX_ID else f"({spell(ids.stop)}"
        asked = ("ZREVRANGEBYLEX", self._space.audit(tenant_id), begin, f"[{spell(ids.start)}", "LIMIT", 0, limit)
        return list(map(_read, await self._space.client.command(*asked)))

    async def purge(self, *, before: datetime, limit: int) -> int:
        most, end = purge_limit(limit), f"({spell(first_id_at(before + A_DAY))}"
        tenants = await self._space.tenant_ids()
        doomed: list[tuple[bytes, str]] = []
        for tenant_id in tenants:
            key = self._space.audit(tenant_id)
            found = await self._space.client.command("ZRANGEBYLEX", key, "-", end, "LIMIT", 0, MAX_PURGE)
            doomed += [(member, key) for member in found if _read(member).at < before]
        deleted = 0
        for key, members in _by_key(sorted(doomed)[:most]).items():
            for start in range(0, len(members), AT_ONCE):
                deleted += await self._space.client.command("ZREM", key, *members[start : start + AT_ONCE])
        return deleted


def _read(member: bytes) -> AuditEntry:
    return _ENTRY.decode(member.partition(b" ")[2])


def _by_key(doomed: Sequence[tuple[bytes, str]]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for member, key in doomed:
        found.setdefault(key, []).append(member)
    return found
