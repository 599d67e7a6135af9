"""Who asks, the entry that is kept of it beside the change, and the record that these make."""

from dataclasses import dataclass

from rota.application.node import Node
from rota.application.ports.store import AuditStore
from rota.domain.audit import (
    MAX_ACTION,
    MAX_ACTOR,
    MAX_ADDRESS,
    MAX_AUDIT_DETAIL,
    MAX_OBJECT,
    MAX_TOKEN_ID,
    AuditEntry,
)
from rota.domain.checks import check_number, tidy_text
from rota.domain.ids import TenantId
from rota.domain.paging import MAX_PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Somebody who asks for a change. Where there is none, the program itself acts, and nothing is recorded."""

    tenant_id: TenantId
    name: str
    address: str = ""
    token_id: str = ""


def record(
    node: Node, actor: Actor | None, *, action: str, subject: object, detail: str = ""
) -> tuple[AuditEntry, ...]:
    """What to keep of something that this actor asks for: one entry, or none where the program itself acts.

    Texts are cut to what a store holds: an odd address must not keep a request from being done, nor from being
    recorded.
    """
    if actor is None:
        return ()
    entry = AuditEntry(
        id=node.ids.next(),
        tenant_id=actor.tenant_id,
        at=node.time.now(),
        actor=tidy_text(actor.name, longest=MAX_ACTOR),
        action=tidy_text(action, longest=MAX_ACTION),
        object=tidy_text(str(subject), longest=MAX_OBJECT),
        address=tidy_text(actor.address, longest=MAX_ADDRESS),
        detail=tidy_text(detail, longest=MAX_AUDIT_DETAIL),
        token_id=tidy_text(actor.token_id, longest=MAX_TOKEN_ID),
    )
    return (entry,)


@dataclass(frozen=True, slots=True)
class ReadAudit:
    audit: AuditStore

    async def list_page(self, tenant_id: TenantId, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """A page of what was done in the tenant, newest first."""
        check_number("limit", limit, least=1, most=MAX_PAGE)
        return await self.audit.list_page(tenant_id, before=before, limit=limit)
