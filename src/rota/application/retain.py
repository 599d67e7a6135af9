"""Deleting what nobody will ask for any more: in small batches, so that nobody else waits for it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from rota.application.ports.store import TaskStore, WorkerRegistry
from rota.application.ports.system import Clock
from rota.application.reign import Reign
from rota.application.store_time import StoreTime

REST = timedelta(milliseconds=20)  # between two batches

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long what has ended is kept."""

    tasks: timedelta = timedelta(days=30)
    workers: timedelta = timedelta(days=1)


@dataclass(slots=True, kw_only=True)
class Retain:
    """Keep ended tasks and retired workers for their time, and no longer."""

    tasks: TaskStore
    workers: WorkerRegistry
    time: StoreTime
    clock: Clock
    retention: Retention = Retention()
    batch: int = 200

    def tune(self, retention: Retention) -> None:
        """Keep things for so long from now on."""
        self.retention = retention

    async def __call__(self, reign: Reign) -> None:
        now = self.time.now()
        ended = partial(self.tasks.purge, completed_before=now - self.retention.tasks, limit=self.batch)
        retired = partial(self.workers.purge, retired_before=now - self.retention.workers, limit=self.batch)
        tasks, workers = await self._purge(ended, reign), await self._purge(retired, reign)
        if tasks or workers:
            log.info("retention.purged", tasks=tasks, workers=workers)

    async def _purge(self, purge: Callable[[], Awaitable[int]], reign: Reign) -> int:
        """Until nothing is left: a backlog must not grow faster than it is worked off."""
        total = 0
        while True:
            reign.check()
            count = await purge()
            total += count
            if count < self.batch:
                return total
            await self.clock.sleep(REST)
