"""Leaving in good order: nothing new, time for what runs, the rest goes back to the queue, then goodbye.

The incarnation is retired only when the store holds no attempt of it any more. Otherwise its record is left as it
is: the leader will find it silent and take the attempts back, as it does after a crash.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from rota.application.work.hands import Hands, Stop
from rota.application.work.report import Ended, HandedBack, Reporter
from rota.application.work.running import Running
from rota.application.work.settings import WorkerPorts, WorkerSettings
from rota.application.work.settle import Settler
from rota.application.work.standing import Standing
from rota.domain.attempt import Attempt
from rota.domain.errors import UnavailableError
from rota.domain.events import Event, EventKind
from rota.domain.worker import Worker

LOOK_EVERY = timedelta(milliseconds=50)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Departure:
    """The graceful end of a worker; its loops run on meanwhile."""

    ports: WorkerPorts
    standing: Standing
    hands: Hands
    running: Running
    reporter: Reporter
    settler: Settler
    settings: WorkerSettings

    async def __call__(self) -> None:
        self.standing.depart()
        log.info("worker.draining", running=len(self.hands.running))
        await self.until(lambda: not self.hands.running, self.settings.drain_timeout)
        self.running.stop_all(Stop.DRAIN)
        await self.until(self._is_done, self.settings.ending)
        worker = self.standing.worker
        if worker is None:
            self.standing.leave()
            return
        try:
            await self._leave(worker)
        except UnavailableError as exc:
            log.warning("worker.leave_failed", worker_id=worker.id, error=str(exc))

    async def until(self, is_so: Callable[[], bool], longest: timedelta) -> None:
        """Wait for something, but not for ever."""
        end = self.ports.clock.monotonic() + longest.total_seconds()
        while not is_so() and self.ports.clock.monotonic() < end:
            await self.ports.clock.sleep(LOOK_EVERY)

    def _is_done(self) -> bool:
        return not self.hands.load and self.reporter.is_idle and self.settler.is_idle

    async def _leave(self, worker: Worker) -> None:
        await self._hand_back(worker)
        self.standing.leave()
        await self.ports.coordinator.pool.remove([worker.id])
        is_clean = await self._hand_back(worker)  # granted by a leader that had not heard of the draining yet
        if is_clean:
            await self.ports.store.workers.retire([worker.id])
        event = Event(kind=EventKind.WORKER_OFFLINE, at=self.ports.store_time.now(), worker_id=worker.id)
        await self.ports.coordinator.signals.publish([event])
        log.info("worker.offline", worker_id=worker.id, is_clean=is_clean)

    async def _hand_back(self, worker: Worker) -> bool:
        """Release what the store says this incarnation holds. Whether nothing is left."""
        for held in await self.ports.store.tasks.list_held(worker.id):
            attempt = Attempt(held.id, held.state.attempt, worker.id)
            if attempt not in self.hands:
                self.reporter.report(Ended(attempt, held.state, held.type, HandedBack("drained")))
        await self.until(self._is_done, self.settings.ending)
        return self._is_done()
