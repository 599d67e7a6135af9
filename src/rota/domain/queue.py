"""What the coordinator holds: hints on what waits and what is handed out. Never the truth; the store has that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from msgspec import Struct

from rota.domain.checks import check_number
from rota.domain.ids import TaskId, WorkerId
from rota.domain.priority import NORMAL, URGENT
from rota.domain.task import LiveTask

# Entries of a level up to which new ones bring their tasks along: in a longer one their memory would count. Where the
# adapter goes by what a process was last told of the level, each process may be late by one push.
MOST_BROUGHT = 10_000


class QueueEntry(Struct, frozen=True, gc=False):
    """A task that waits: ready now, or not before `due_at`.

    One that is queued right after it was added may bring itself along, as it was added: its grant need not read it
    first. If it has changed since, the grant finds that out."""

    task_id: TaskId
    priority: int
    due_at: datetime | None = None
    added: LiveTask | None = None

    def __post_init__(self) -> None:
        if self.priority.__class__ is not int or not NORMAL <= self.priority <= URGENT:  # the usual one needs no call
            check_number("priority", self.priority, least=NORMAL, most=URGENT)


@dataclass(frozen=True, slots=True)
class Taken:
    """What one take brought, and what is left: the oldest entry of each level that still has some.

    The id of a head tells when its task was created, not since when it waits: see `rota.domain.priority`."""

    task_ids: tuple[TaskId, ...]
    heads: Mapping[int, TaskId]
    added: Mapping[TaskId, LiveTask] = field(default_factory=dict)  # those of the tasks that brought themselves along
    changes: int | None = None  # the number of the pool's last change, if the adapter counts them
    is_woken: bool = False  # whether the wait before it, if there was one, ended because of a wake

    def __bool__(self) -> bool:
        """Whether there is something to do."""
        return bool(self.task_ids) or self.is_woken


@dataclass(frozen=True, slots=True)
class DueMove:
    """What moving the due entries did, and when the next one is due."""

    moved: int
    next_due_at: datetime | None


@dataclass(frozen=True, slots=True)
class WorkerLoads:
    """What each worker has."""

    assigned: Mapping[WorkerId, int] = field(default_factory=dict)  # handed to a worker's queue, not yet taken
    in_flight: Mapping[WorkerId, int] = field(default_factory=dict)  # taken by the worker, not yet acknowledged
    reserved: Mapping[WorkerId, Mapping[str, int]] = field(default_factory=dict)  # places that are kept, by holder
    as_of: int = 0  # grows with whatever is assigned or reserved, if the adapter counts that


@dataclass(frozen=True, slots=True)
class QueueDepths(WorkerLoads):
    """How much waits where."""

    ready: Mapping[int, int] = field(default_factory=dict)  # by priority, only levels with entries
    delayed: int = 0
