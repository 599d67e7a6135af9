"""What happened, for whoever listens: consoles, metrics, plugins. A hint; the store is asked for the truth."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.log import Progress
from rota.domain.task import TaskStatus


class EventKind(StrEnum):
    TASK_CREATED = "task.created"
    TASK_ASSIGNED = "task.assigned"
    TASK_RELEASED = "task.released"
    TASK_RETRYING = "task.retrying"
    TASK_COMPLETED = "task.completed"
    TASK_FAILED = "task.failed"
    TASK_CANCELLED = "task.cancelled"
    TASK_LOGGED = "task.logged"  # there are new lines in its log
    TASK_PROGRESS = "task.progress"  # one of them says how far it got
    WORKER_ONLINE = "worker.online"
    WORKER_OFFLINE = "worker.offline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a task or a worker."""

    kind: EventKind
    at: datetime
    tenant_id: TenantId = DEFAULT_TENANT
    task_id: TaskId | None = None
    task_type: str = ""
    status: TaskStatus | None = None
    attempt: int = 0
    worker_id: WorkerId | None = None
    progress: Progress | None = None  # of `task.progress`


class Told(NamedTuple):  # one for each event at each listener: a tuple is made in half the time of a dataclass
    """An event as a listener gets it, and the place in the sequence of events from which it can go on later."""

    id: str
    event: Event | None  # None: some were missed before what follows; ask the store
