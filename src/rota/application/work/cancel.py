"""Cancellation: whoever cancels a task ends its row and then asks, by a signal, that its attempt be stopped.

The signal names the task, not the attempt, and is remembered for a while: it may be meant for an attempt of the past.
So the row decides here too. An attempt whose row is still its own runs on.
"""

from dataclasses import dataclass

from rota.application.ports.coordinator import Signals
from rota.application.ports.store import TaskStore
from rota.application.work.hands import Hands, Holding, Stop
from rota.application.work.running import Running


@dataclass(frozen=True, slots=True)
class StopCancelled:
    """Stops the attempts whose task was cancelled, or taken away."""

    signals: Signals
    tasks: TaskStore
    hands: Hands
    running: Running

    async def __call__(self) -> None:
        """One look."""
        holdings = [holding for holding in self.hands.running.values() if holding.stop is None]
        if not holdings:
            return
        asked = await self.signals.find_cancelled([holding.attempt.task_id for holding in holdings])
        named = [holding for holding in holdings if holding.attempt.task_id in asked]
        for holding in await find_foreign(self.tasks, named):
            self.running.stop(holding, Stop.CANCEL)


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
