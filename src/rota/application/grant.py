"""Giving tasks to workers: written in the store, then handed over through the coordinator.

The grant is the row in the store; from then on the attempt belongs to its worker, whatever else fails. So the hand-over
asks for no term: it only tells what is already true, and a worker runs nothing that its row does not say.

- The store gives no answer: the grants are *in doubt* until their rows are read. A task that still waits may be granted
  again; one that is at this very attempt is owed to its worker.
- The coordinator gives no answer: the attempts are *owed* to their workers. Places that were reserved for them (where
  several dispatch at once) are given back when they have been handed over.

Both are settled before anything else is granted, so that nobody is given work into room that is taken. Should this
leader end before, its successor's reconciliation hands them over.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import structlog

from rota.application import metrics
from rota.application.places import Places
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.store import TaskStore
from rota.application.reign import Reign
from rota.application.store_time import StoreTime
from rota.domain.attempt import Attempt
from rota.domain.errors import CoordinatorUnavailableError, UnavailableError
from rota.domain.events import Event, EventKind
from rota.domain.ids import TaskId, WorkerId
from rota.domain.task import LiveTask, Transition

log = structlog.get_logger(__name__)


class Grants:
    def __init__(
        self, tasks: TaskStore, coordinator: Coordinator, *, time: StoreTime, collector: MetricsCollector
    ) -> None:
        self._tasks = tasks
        self._coordinator = coordinator
        self._time = time
        self._collector = collector
        self.places: Places | None = None  # where several dispatch at once: given back when all is handed over
        self._doubts: dict[TaskId, Attempt] = {}
        self._owed: list[Attempt] = []

    async def give(self, lives: Sequence[LiveTask], chosen: Mapping[TaskId, WorkerId], *, reign: Reign) -> set[TaskId]:
        """Grant each task's next attempt to its chosen worker; answers with those that somebody else moved first."""
        now = self._time.now()
        term = reign.term.number
        steps = [
            (state := live.state).granted(
                chosen[state.id], term=term, at=now if now > state.due_at else state.due_at, timeout=live.timeout
            )
            for live in lives
        ]
        attempts = {(after := step.after).id: Attempt(after.id, after.attempt, chosen[after.id]) for step in steps}
        self._doubts.update(attempts)
        written = await self._tasks.advance(steps)
        for task_id in attempts:
            del self._doubts[task_id]
        given = list(zip(lives, steps, strict=True))
        if written.stale:
            given = [(live, step) for live, step in given if live.id not in written.stale]
        self._owed.extend([attempts[step.after.id] for _, step in given])
        await self._tell(given)
        self._measure(given)
        return set(written.stale)

    async def settle(self) -> None:
        """Clear up what earlier failures left: find out what was granted, and hand it over."""
        if self._doubts:
            lives = await self._tasks.find_live(list(self._doubts))
            self._owed.extend(attempt for live in lives if _is_at(live, attempt := self._doubts[live.id]))
            self._doubts = {}
        await self._hand_over()
        await self._give_back()

    async def _hand_over(self) -> None:
        # May be repeated: an attempt that is there already, or in flight, stays as it is.
        if self._owed:
            await self._coordinator.deliveries.assign(self._owed)
            self._owed = []

    async def _give_back(self) -> None:
        if self.places is not None:
            await self.places.give_back()

    async def _tell(self, given: Sequence[tuple[LiveTask, Transition]]) -> None:
        """The events follow the attempts without a wait in between: what they tell is written already."""
        is_handed_over, _ = await asyncio.gather(self._try_hand_over(), self._publish(given))
        if not is_handed_over:
            return
        try:
            await self._give_back()
        except UnavailableError as exc:  # of the store too, where there is no seat; before the next grant it is settled
            log.warning("dispatch.give_back_failed", error=str(exc))

    async def _try_hand_over(self) -> bool:
        try:
            await self._hand_over()
        except CoordinatorUnavailableError as exc:
            log.warning("dispatch.hand_over_failed", attempts=len(self._owed), error=str(exc))
            return False
        return True

    async def _publish(self, given: Sequence[tuple[LiveTask, Transition]]) -> None:
        try:
            await self._coordinator.signals.publish([_event_of(live, step) for live, step in given])
        except CoordinatorUnavailableError as exc:
            log.warning("dispatch.publish_failed", events=len(given), error=str(exc))

    def _measure(self, given: Sequence[tuple[LiveTask, Transition]]) -> None:
        """Tasks of a batch were added together more often than not, and then waited equally long."""
        numbers = Counter([(live.type, step.at, live.state.due_at) for live, step in given])
        scheduled = Counter[str]()
        for (task_type, at, due_at), number in numbers.items():
            scheduled[task_type] += number
            delay = (at - due_at).total_seconds()
            self._collector.observe(metrics.SCHEDULING_DELAY_SECONDS, task_type, value=delay, times=number)
        for task_type, number in scheduled.items():
            self._collector.add(metrics.TASKS_SCHEDULED, task_type, amount=number)


def _is_at(live: LiveTask, attempt: Attempt) -> bool:
    return (live.state.attempt, live.state.worker_id) == (attempt.number, attempt.worker_id)


def _event_of(live: LiveTask, step: Transition) -> Event:
    after = step.after
    return Event(
        kind=EventKind.TASK_ASSIGNED,
        at=step.at,
        tenant_id=after.tenant_id,
        task_id=after.id,
        task_type=live.type,
        status=after.status,
        attempt=after.attempt,
        worker_id=after.worker_id,
    )
