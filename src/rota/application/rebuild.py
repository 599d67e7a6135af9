"""Filling the coordinator's queues from the store, when the coordinator has lost its memory."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from rota.application import metrics
from rota.application.ports.coordinator import TaskQueue
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.store import TaskStore
from rota.application.reign import Reign
from rota.application.store_time import StoreTime
from rota.application.take_back import queue_entry
from rota.domain.ids import NodeId, TaskId
from rota.domain.queue import QueueEntry

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildQueues:
    """Queue every waiting task anew. What is queued meanwhile by others is kept; a duplicate runs nothing twice."""

    tasks: TaskStore
    queue: TaskQueue
    time: StoreTime
    collector: MetricsCollector
    node_id: NodeId
    page: int = 5000  # each costs PostgreSQL without statistics a look at all that is live

    async def if_lost(self, reign: Reign) -> bool:
        """Rebuild if the present memory has no name: it is new, or a rebuild was cut short. Whether that was so."""
        is_lost = await self.queue.find_generation() is None
        if is_lost:
            await self(reign)
        return is_lost

    async def __call__(self, reign: Reign) -> None:
        generation = f"{(self.time.now() - EPOCH) // timedelta(microseconds=1)}-{self.node_id}"
        reign.check()
        log.info("queue.rebuilding", generation=generation, term=reign.number)
        await self.queue.rebuild(generation, self._pages(reign))
        self.collector.add(metrics.REBUILDS)
        log.info("queue.rebuilt", generation=generation, term=reign.number)

    async def _pages(self, reign: Reign) -> AsyncIterator[Sequence[QueueEntry]]:
        after: TaskId | None = None
        while page := await self.tasks.list_live(after=after, limit=self.page):
            reign.check()  # millions take longer than a reign may last
            now = self.time.now()
            yield [queue_entry(live.state, now=now) for live in page if live.state.status.is_waiting]
            after = page[-1].id
