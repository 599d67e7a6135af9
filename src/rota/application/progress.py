"""How far a running attempt got. It stands in the task's record, where the worker writes it at most once a second."""

from rota.application.ports.store import LogStore
from rota.domain.log import Progress
from rota.domain.task import PROCESSING, Task


async def find_progress(logs: LogStore, task: Task) -> Progress | None:
    """What the present attempt said last; None while nothing runs, or where it said nothing."""
    if task.state.status is not PROCESSING:
        return None
    return await logs.find_progress(task.id, task.state.attempt)
