"""The record of reigns: who led in which term, from when to when, and how it ended as far as anybody knows.

It is kept in the audit log, under no tenant (`CLUSTER`), by the leader itself: that it has won when its first dispatch
is done, so that no task waits for it, and that its reign is over once its lease is given back, so that no standby does.
One that dies, or is cut off from the store, writes no end: its reign was over when the next one began. What cannot be
written is left out, for the record must not be in the way of what it tells of.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import structlog

from rota.application.audit import Actor, record
from rota.application.node import Node
from rota.application.ports.audit import AuditStore
from rota.application.reign import Reign
from rota.domain.audit import AuditEntry
from rota.domain.checks import check_number
from rota.domain.errors import RotaError
from rota.domain.ids import CLUSTER
from rota.domain.paging import MAX_PAGE
from rota.domain.past_reign import LOST, RESIGNED, WON, PastReign, reigns_of

TOLD_WITHIN = timedelta(seconds=1)  # a node that stops, or campaigns again, waits no longer for it
MOST_REIGNS = MAX_PAGE // 2 - 1

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Chronicle:
    """Writes what this node did as leader."""

    node: Node

    def beginning(self, reign: Reign) -> Callable[[], Awaitable[None]]:
        """A step that notes, once, that this reign began now; to be taken again until it has gone well."""
        begun_at, entries, is_noted = self.node.time.now(), list[AuditEntry](), False

        async def step() -> None:
            nonlocal is_noted
            if is_noted:
                return
            try:
                # Of one id, however often they are sent.
                entries[:] = entries or [msgspec.structs.replace(one, at=begun_at) for one in self._entries(WON, reign)]
                await self.node.store.audit.add(entries)
                is_noted = True
            except RotaError as exc:
                log.info("leader.beginning_not_recorded", node_id=self.node.id, term=reign.number, error=str(exc))

        return step

    async def end(self, reign: Reign) -> None:
        """Note that the reign is over, and why."""
        try:
            async with asyncio.timeout(TOLD_WITHIN.total_seconds()):
                await self.node.store.audit.add(self._entries(LOST if reign.loss else RESIGNED, reign))
        except (RotaError, TimeoutError) as exc:
            log.info("leader.end_not_recorded", node_id=self.node.id, term=reign.number, error=str(exc))

    def _entries(self, action: str, reign: Reign) -> Sequence[AuditEntry]:
        itself = Actor(tenant_id=CLUSTER, name=self.node.id)
        return record(self.node, itself, action=action, subject=reign.number, detail=reign.loss)


@dataclass(frozen=True, slots=True)
class ReadChronicle:
    audit: AuditStore

    async def list_reigns(self, limit: int = 20) -> list[PastReign]:
        """The last so many reigns, the newest first."""
        check_number("limit", limit, least=1, most=MOST_REIGNS)
        # Each has two, beside those of its neighbours.
        entries = await self.audit.list_page(CLUSTER, limit=2 * limit + 2)
        return reigns_of(entries)[:limit]
