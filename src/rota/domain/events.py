"""What happened, for whoever listens: consoles, metrics, plugins. A hint; the store is asked for the truth."""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from rota.domain.errors import InvalidError
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
    TASK_LOGGED = "task.logged"
    TASK_PROGRESS = "task.progress"
    SCHEDULE_PAUSED = "schedule.paused"
    WORKER_ONLINE = "worker.online"
    WORKER_OFFLINE = "worker.offline"


WHEN: Mapping[EventKind, str] = {  # the reference is made from it
    EventKind.TASK_CREATED: "a task was committed to the store; its status is PENDING",
    EventKind.TASK_ASSIGNED: "an attempt was granted to a worker; PROCESSING",
    EventKind.TASK_RELEASED: "an attempt was taken or given back (worker lost, drained or stopped, task snoozed) "
    "and no retry was spent; PENDING",
    EventKind.TASK_RETRYING: "an attempt failed, and another one follows after a pause; RETRYING",
    EventKind.TASK_COMPLETED: "the task ended well; SUCCESS",
    EventKind.TASK_FAILED: "the task ended otherwise: a final error, no retry left, or no time; FAILED or TIMEOUT",
    EventKind.TASK_CANCELLED: "somebody ended the task; CANCELLED",
    EventKind.TASK_LOGGED: "there are new lines in the record of a running task; PROCESSING",
    EventKind.TASK_PROGRESS: "a running task said how far it got; PROCESSING",
    EventKind.SCHEDULE_PAUSED: "a schedule paused itself, because so many of its runs failed in a row",
    EventKind.WORKER_ONLINE: "a worker joined, or joined again",
    EventKind.WORKER_OFFLINE: "a worker left in good order, or was silent for too long",
}


class Event(Struct, frozen=True, kw_only=True, gc=False):
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

    id: str  # as `EVENT_ID` says
    event: Event | None  # None: some were missed before what follows; ask the store


_PART = "[a-z]{1,20}[0-9]{1,30}(-[0-9]{1,30})?"
EVENT_ID = f"({_PART})?(~({_PART})?)?"  # whose kind it is and where it stands; of two coordinators, those of both
_EVENT_ID = re.compile(EVENT_ID)


def check_event_id(field: str, value: str) -> str:
    """The id of an event as any coordinator makes it; whether the event is still known, only its own one can say."""
    if _EVENT_ID.fullmatch(value) is None:
        about = "such as m17 or r17-1767268800250000; leave it out to begin with what happens now"
        raise InvalidError(field, f"{value!r} is not the id of an event, {about}")
    return value
