"""The record of who changed what, in Redis: written with the change, where its id is not there yet (`Change.note`)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from rota.domain.audit import AuditEntry
from rota.domain.ids import MAX_ID, TenantId, first_id_at
from rota.domain.paging import MAX_PURGE, purge_limit
from rota.infrastructure.store.redis.space import AT_ONCE, RedisSpace, spell

A_DAY = timedelta(days=1)
_ENTRY = msgspec.json.Decoder(AuditEntry)


class RedisAuditStore:
    def __init__(self, space: RedisSpace) -> None:
        self._space = space

    async def list_page(self, tenant_id: TenantId, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        begin = "+" if before is None or before > MAX_ID else f"({spell(before)}"
        asked = ("ZREVRANGEBYLEX", self._space.audit(tenant_id), begin, "-", "LIMIT", 0, limit)
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
