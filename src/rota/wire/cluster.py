"""Workers, queues, figures, and who leads."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rota.domain.past_reign import Ending
from rota.domain.setting import SettingSource
from rota.domain.task import TaskStatus
from rota.wire.base import Answer, Request
from rota.wire.task import Progress


class Worker(Answer):
    """One incarnation of a worker. `load` is what it holds now; `alive`: its lease has not run out."""

    id: str
    name: str
    address: str
    capacity: int
    load: int
    types: list[str]
    weight: int
    labels: Mapping[str, str]
    draining: bool
    alive: bool
    registered_at: datetime
    seen_at: datetime
    retired_at: datetime | None


class PatchWorker(Request):
    capacity: int


class Queue(Answer):
    """One level of priority: what is ready, and how long the first has waited."""

    priority: int
    ready: int
    oldest_age_seconds: float | None


class Queues(Answer):
    """How much waits where, of all tenants."""

    items: list[Queue]
    delayed: int
    assigned: int  # handed to a worker that has not taken it yet
    running: int


class QueueType(Answer):
    """The tasks of one type that have not ended; `oldest_age_seconds`: how long the first that is ready has waited."""

    type: str
    ready: int
    delayed: int
    blocked: int
    running: int
    oldest_age_seconds: float | None


class QueueTypes(Answer):
    """Those types of the tenant first of which most waits. `set_aside`: how many tasks, of all tenants, are due and in
    no queue: no worker takes their type or has room, or a limit holds them back; null where that is not known."""

    items: list[QueueType]
    complete: bool  # false: more lives than is counted, so the numbers are lower bounds
    set_aside: int | None = None


class Stats(Answer):
    """Counts by state, and what happened lately in this tenant."""

    tasks: Mapping[TaskStatus, int]
    created_per_second: float
    completed_per_second: float
    failed_per_second: float
    window_seconds: float


class Node(Answer):
    id: str
    roles: list[str]
    is_leader: bool
    version: str
    seen_at: datetime


class Cluster(Answer):
    """Who leads, and how what it stands on is doing. A server of an earlier release tells nothing of the latter."""

    leader: str | None
    term: int
    nodes: list[Node]
    store: str
    coordinator: str
    version: str
    now: datetime
    store_seconds: float | None = None  # how long the answer to one question took
    coordinator_seconds: float | None = None
    coordinator_answers: bool = True  # false: nobody is known to lead


class Election(Answer):
    """Who won it, and how long it led. `ending`: `resigned`, its node was told to stop; `lost`, with the `reason`;
    `silent`, nobody heard of its end, which was before the next one began (`ended_at`); null, it goes on or nobody
    knows better. `begun_at` is null where it ended before that was on record."""

    term: int
    node: str
    begun_at: datetime | None
    ended_at: datetime | None
    ending: Ending | None
    reason: str


class Setting(Answer):
    """One setting. `value` and `default` are as one would write them, secrets covered by `***`.

    `origin` says where exactly the value was found. `live`: a change of the file holds at once, not from the next
    start on. `restart_needed`: it was changed, and the change waits for that."""

    key: str
    value: Any
    default: Any
    source: SettingSource
    origin: str
    live: bool
    restart_needed: bool
    text: str


class Settings(Answer):
    """What holds in one process of the cluster: the node that answered. Others may have settings of their own."""

    node: str
    items: list[Setting]


class Event(Answer):
    """One thing that happened. `id` is the place to go on from after a break (`Last-Event-ID`)."""

    id: str
    kind: str
    at: datetime
    task_id: str | None
    task_type: str
    status: TaskStatus | None
    attempt: int
    worker_id: str | None
    progress: Progress | None = None  # of `task.progress`


class Missed(Answer):
    """More happened than is remembered: what was shown before is out of date. The stream goes on after `id`."""

    id: str
