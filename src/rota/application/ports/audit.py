"""The part of a store that keeps the record of who changed what. The rules of `store.py` hold here, too."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from rota.domain.audit import AuditEntry, AuditFilter, AuditPage
from rota.domain.ids import TenantId


class AuditStore(Protocol):
    """Reads the record; what changes something writes it, but for what the cluster itself does."""

    async def add(self, audit: Sequence[AuditEntry]) -> None:
        """Keep entries that tell of no change in the store. May be repeated: one whose id is there is left alone."""
        ...

    async def list_page(self, tenant_id: TenantId, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """A page of the tenant's entries, newest id first."""
        ...

    async def search(self, wanted: AuditFilter) -> AuditPage:
        """A page of the tenant's entries that fit, newest id first.

        Looks at a bounded number of entries where most do not fit: then it ends short, or empty, and says where to go
        on."""
        ...

    async def purge(self, *, before: datetime, limit: int) -> int:
        """Delete up to `limit` entries from before this moment, oldest id first; says how many.

        One whose id is a day or more ahead of its moment may stay until its id is as old.
        """
        ...
