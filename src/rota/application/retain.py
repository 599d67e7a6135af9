"""Deleting what nobody will ask for any more: in small batches, so that nobody else waits for it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import structlog

from rota.application.ports.store import Store
from rota.application.ports.system import Clock
from rota.application.reign import Reign
from rota.application.store_time import StoreTime
from rota.domain.errors import UnavailableError
from rota.domain.ids import EPOCH
from rota.domain.rollup import Grain, Reach, micros
from rota.domain.schedule import LEAST_OCCURRENCES

COUNTED_WITHIN = timedelta(days=1)  # tasks that no report has counted yet wait so long for it, and no longer
REST = timedelta(milliseconds=20)  # between two batches

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long what has ended is kept."""

    tasks: timedelta = timedelta(days=30)
    workers: timedelta = timedelta(days=1)
    audit: timedelta = timedelta(days=400)  # and the tokens that it names: a year, and time to look at it
    reports: Reach = field(default_factory=Reach)

    def occurrences_since(self, now: datetime) -> datetime:
        """What became of the targets from here on is on record for certain."""
        return now - max(self.tasks, LEAST_OCCURRENCES)


@dataclass(slots=True, kw_only=True)
class Retain:
    """Keep what has ended for its time, and no longer: tasks, occurrences of schedules, workers, tokens, and the record
    of who changed what."""

    store: Store
    time: StoreTime
    clock: Clock
    retention: Retention = Retention()
    batch: int = 200

    def tune(self, retention: Retention) -> None:
        """Keep things for so long from now on."""
        self.retention = retention

    async def __call__(self, reign: Reign) -> None:
        now, store, kept, rollups = self.time.now(), self.store, self.retention, self.store.reports.purge
        counted_until = (await store.reports.find_progress()).complete_until or EPOCH
        old_before = min(now - kept.tasks, max(counted_until, now - COUNTED_WITHIN))
        purges = {
            "tasks": partial(store.tasks.purge, completed_before=old_before),
            "occurrences": partial(store.schedules.purge, fired_before=kept.occurrences_since(now)),
            "workers": partial(store.workers.purge, retired_before=now - kept.workers),
            "tokens": partial(store.tokens.purge, ended_before=now - kept.audit),
            "audit": partial(store.audit.purge, before=now - kept.audit),
            **{
                f"rollups_by_{grain.name.lower()}": partial(
                    rollups, grain, before_us=micros(now - kept.reports.of(grain))
                )
                for grain in Grain
            },
        }
        purged: dict[str, int] = {}
        problems: list[UnavailableError] = []
        for name, purge in purges.items():
            try:
                purged[name] = await self._purge(partial(purge, limit=self.batch), reign)
            except UnavailableError as exc:  # one that takes too long must not keep the others from their turn
                log.warning("retention.failed", what=name, error=str(exc))
                problems.append(exc)
        if any(purged.values()):
            log.info("retention.purged", **purged)
        if problems:
            raise problems[0]

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
