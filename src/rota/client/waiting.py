"""Waiting for the end of a task, as several requests that each wait a little."""

from datetime import timedelta

from rota.client import task_calls
from rota.client.call import Call
from rota.domain.durations import parse_duration
from rota.sdk.control import Duration
from rota.sdk.views import TaskView


class Waiting:
    """One wait. The shell sends `ask` until `is_over` says so."""

    def __init__(self, task_id: str, most: Duration, *, now: float) -> None:
        self._task_id = task_id
        self._most = parse_duration("timeout", most)
        self._until = now + self._most.total_seconds()

    def ask(self, now: float) -> Call[TaskView]:
        left = timedelta(seconds=max(self._until - now, 0))
        return task_calls.get(self._task_id, min(left, task_calls.LONGEST_WAIT))

    def is_over(self, task: TaskView, *, now: float) -> bool:
        """Whether it has ended; `TimeoutError` when it has not, and the time is up."""
        if task.status.is_final:
            return True
        if now >= self._until:
            raise TimeoutError(f"task {self._task_id} is still {task.status} after {self._most}")
        return False
