"""The record of who changed what, in memory."""

from collections.abc import Sequence
from datetime import datetime

from rota.domain.audit import AuditEntry, AuditFilter, AuditPage, page_of
from rota.domain.ids import TenantId
from rota.domain.paging import purge_limit
from rota.infrastructure.store.memory.state import MemoryState


class MemoryAuditStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def add(self, audit: Sequence[AuditEntry]) -> None:
        for entry in audit:
            self._state.audit.setdefault(entry.id, entry)

    async def list_page(self, tenant_id: TenantId, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        entries = [entry for _, entry in sorted(self._state.audit.items(), reverse=True)]
        return [one for one in entries if one.tenant_id == tenant_id and (before is None or one.id < before)][:limit]

    async def search(self, wanted: AuditFilter) -> AuditPage:
        entries = [entry for _, entry in sorted(self._state.audit.items(), reverse=True)]
        own = [
            one for one in entries if one.tenant_id == wanted.tenant_id and one.id in wanted.ids and wanted.fits(one)
        ]
        return page_of(own, wanted.limit)

    async def purge(self, *, before: datetime, limit: int) -> int:
        old = [entry.id for entry in self._state.audit.values() if entry.at < before]
        doomed = sorted(old)[: purge_limit(limit)]
        for entry_id in doomed:
            del self._state.audit[entry_id]
        return len(doomed)
