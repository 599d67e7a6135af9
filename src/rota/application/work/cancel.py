"""Cancellation: whoever cancels a task ends its row and then asks, by a signal, that its attempt be stopped.

The signal names the task, not the attempt, and is remembered for a while: it may be meant for an attempt of the past.
So the row decides here too. An attempt whose row is still its own runs on.

A signal may be lost: whoever made the row's step may die before it has asked, or the coordinator be away. So every now
and then the rows of all running attempts are read, in one call, and those that are over by their row are stopped too.

Whoever wants it ended hard marks it first, so that the mark is there when the request is found.

An operator's order to this worker is announced in the same way, under the worker's own id; its record is read then.
While nothing runs there are only orders to be found, which may take twice as long, or as long as `guard_every`.
"""

from dataclasses import dataclass
from datetime import timedelta

from rota.application.ports.coordinator import Signals
from rota.application.ports.store import TaskStore
from rota.application.work.hands import Hands, Holding, Stop
from rota.application.work.nudge import Nudge
from rota.application.work.running import Running
from rota.application.work.standing import Standing
from rota.domain.worker import kill_mark, order_mark


@dataclass(slots=True)
class StopCancelled:
    """Stops the attempts whose task was cancelled, or taken away, and hears that there are orders."""

    signals: Signals
    tasks: TaskStore
    hands: Hands
    running: Running
    standing: Standing
    registry_nudge: Nudge
    guard_every: timedelta
    _has_left_out: bool = False  # the last look

    async def __call__(self) -> None:
        """One look; every other one is left out while nothing runs."""
        if self.guard_every and not self.hands.running:
            await self.hands.begun.wait(self.guard_every)
        holdings = [holding for holding in self.hands.running.values() if holding.stop is None]
        is_due = holdings or self._has_left_out
        self._has_left_out = True  # also by a look that fails: the next one must not be taken for a success
        if not is_due:
            return
        marks = [] if self.standing.worker is None else [order_mark(self.standing.worker.id)]
        asked = await self.signals.find_cancelled([holding.attempt.task_id for holding in holdings] + marks)
        self._has_left_out = False
        if not asked.isdisjoint(marks):
            self.registry_nudge.give()
        await self._stop_foreign([holding for holding in holdings if holding.attempt.task_id in asked])

    async def look_at_all(self) -> None:
        """Find those of whose end nobody told."""
        await self._stop_foreign([holding for holding in self.hands.running.values() if holding.stop is None])

    async def _stop_foreign(self, holdings: list[Holding]) -> None:
        foreign = await find_foreign(self.tasks, holdings)
        hard = await self.signals.find_cancelled([kill_mark(one.attempt.task_id) for one in foreign]) if foreign else ()
        for holding in foreign:
            self.running.stop(holding, Stop.CANCEL, is_hard=kill_mark(holding.attempt.task_id) in hard)


async def find_foreign(tasks: TaskStore, holdings: list[Holding]) -> list[Holding]:
    """Those of the attempts that are not, or no more, what the store says about their task."""
    if not holdings:
        return []
    live = await tasks.find_live([holding.attempt.task_id for holding in holdings])
    current = {task.id: (task.state.version, task.state.worker_id) for task in live}
    return [
        holding
        for holding in holdings
        if current.get(holding.attempt.task_id) != (holding.state.version, holding.attempt.worker_id)
    ]
