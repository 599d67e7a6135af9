"""Who asks, the entry that is kept of it beside the change, and the record that these make."""

from dataclasses import dataclass

from rota.application.node import Node
from rota.application.ports.audit import AuditStore
from rota.domain.audit import (
    MAX_ACTION,
    MAX_ACTOR,
    MAX_ADDRESS,
    MAX_AUDIT_DETAIL,
    MAX_OBJECT,
    MAX_TOKEN_ID,
    AuditEntry,
    AuditFilter,
    AuditPage,
)
from rota.domain.checks import tidy_text
from rota.domain.ids import TenantId


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

    async def search(self, wanted: AuditFilter) -> AuditPage:
        """A page of what was done in a tenant, newest first; it may be short, and go on all the same."""
        return await self.audit.search(wanted)
