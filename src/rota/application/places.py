"""Places at workers, reserved before anything is granted where several schedulers dispatch at once.

They are chosen by what the depths of the queues said, and had only if nobody else was faster: then what was meant for
them stays in hand, and the next look finds what is left. They are given back when the attempts have been handed over,
which fill them from then on. What is still reserved for this holder when it looks around is left over from a call that
got no answer, and given back as well.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.application import metrics
from rota.application.crew import Crew
from rota.application.ports.metrics import MetricsCollector
from rota.application.seat import Seat
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.ids import TaskId, WorkerId
from rota.domain.queue import WorkerLoads


@dataclass(slots=True)
class Places:
    """What one dispatcher has reserved. Two of one process have names of their own."""

    seat: Seat
    collector: MetricsCollector
    name: str
    _kept: set[WorkerId] = field(default_factory=set, init=False)

    async def reserve(self, chosen: Mapping[TaskId, WorkerId], crew: Crew) -> dict[TaskId, WorkerId]:
        """Those of the choices for which there are places."""
        if not chosen:
            return {}
        holder, wanted = await self.seat.holder(self.name), Counter(chosen.values())
        self._kept.update(wanted)
        won = await self.seat.assistance.reserve(holder, wanted, since=crew.as_of)
        if won is None:
            self.seat.lose(holder)
            raise CoordinatorUnavailableError("this scheduler's seat among those that dispatch is over")
        had = {task_id: worker_id for task_id, worker_id in chosen.items() if worker_id in won}
        if len(had) < len(chosen):
            self.collector.add(metrics.PLACES_LOST, amount=len(chosen) - len(had))
        return had

    def note(self, loads: WorkerLoads) -> None:
        """Find what is left over. To be called when nothing is being granted."""
        self._kept.update(worker_id for worker_id, holders in loads.reserved.items() if self.name in holders)

    async def give_back(self) -> None:
        """Nothing is being granted any more. May be repeated."""
        if self._kept:
            await self.seat.assistance.release(await self.seat.holder(self.name), sorted(self._kept))
            self._kept.clear()

    async def take_passed(self, limit: int) -> list[TaskId]:
        """What was left to the leader."""
        return await self.seat.assistance.take_passed(limit)
