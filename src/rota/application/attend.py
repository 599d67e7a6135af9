"""Being seen: every process, whatever its roles, tells the store that it lives, and that it leaves.

A process that dies says nothing any more; after three silences nobody counts it, and a day later the next one to start
sweeps it away.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import structlog

from rota.application.ports.store import NodeRegistry
from rota.application.store_time import StoreTime
from rota.domain.errors import UnavailableError
from rota.domain.node import NodeInfo

ATTEND_EVERY = timedelta(seconds=10)
ALIVE_FOR = ATTEND_EVERY * 3  # since it was last seen
DEAD_KEPT = timedelta(days=1)
SWEPT_AT_ONCE = 1000
LEAVE_WITHIN = timedelta(seconds=1)  # a stop must not wait for a store that is away

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Attendance:
    nodes: NodeRegistry
    time: StoreTime
    info: NodeInfo
    _has_swept: bool = False

    async def attend(self) -> None:
        """One sign of life; run it as a loop."""
        await self.nodes.seen(self.info)
        if not self._has_swept:
            await self.nodes.purge(seen_before=self.time.now() - DEAD_KEPT, limit=SWEPT_AT_ONCE)
            self._has_swept = True

    async def leave(self) -> None:
        try:
            async with asyncio.timeout(LEAVE_WITHIN.total_seconds()):
                await self.nodes.leave(self.info.id)
        except (UnavailableError, TimeoutError) as exc:
            log.warning("node.leave_failed", node_id=self.info.id, error=str(exc))
