"""The store's clock, known on this node without asking for it every time.

What is due is decided by the store's clock, and two nodes' wall clocks are never compared. The store is asked now and
then; in between, this node's monotonic clock carries the answer on. The store read its clock before its answer came, so
the estimate is never ahead of it (but for drift, a few milliseconds between two answers).
"""

from datetime import datetime, timedelta

from rota.application.ports.store import TaskStore
from rota.application.ports.system import Clock
from rota.domain.errors import StoreUnavailableError

RESYNC_EVERY = timedelta(seconds=10)
CLOCK_SLACK = timedelta(milliseconds=50)  # by how much two nodes' estimates may differ: a slow answer lags by its way


class StoreTime:
    def __init__(self, tasks: TaskStore, clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._known: tuple[datetime, float] | None = None

    async def sync(self) -> None:
        """Ask the store. The truth lies between its answer and that plus the way it took; what was known is kept
        where it fits in there, so that a slow answer makes nothing worse."""
        asked_at = self._clock.monotonic()
        earliest = await self._tasks.now()
        replied_at = self._clock.monotonic()
        latest = earliest + timedelta(seconds=replied_at - asked_at)
        told = earliest if self._known is None else min(max(self.now(), earliest), latest)
        self._known = (told, replied_at)

    def now(self) -> datetime:
        """The store's time, as far as this node knows."""
        if self._known is None:
            raise StoreUnavailableError("the store has not been asked for the time yet")
        told, at = self._known
        return told + timedelta(seconds=self._clock.monotonic() - at)
