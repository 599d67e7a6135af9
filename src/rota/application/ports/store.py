"""The store: the truth. A task exists when its row is committed here.

Rules of every method, which the contract suite checks on every adapter:

- A write is one transaction: all of it, or nothing.
- A write is conditional, and its answer says what changed. What did not change is stale, never assumed done.
- `StoreUnavailableError` means the outcome is unknown; the same call may be repeated, it changes nothing twice.
- What is due is decided by the store's clock (`now`), never by a caller's.
- Times are aware UTC datetimes, exact to the microsecond.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from rota.domain.ids import NodeId, TaskId, TenantId, WorkerId
from rota.domain.log import LogEntry
from rota.domain.paging import Page, TaskFilter
from rota.domain.schedule import Occurrence
from rota.domain.submission import NewTask
from rota.domain.task import LiveTask, Task, TaskStatus, Transition
from rota.domain.task_config import TaskConfig
from rota.domain.worker import Worker


@dataclass(frozen=True, slots=True)
class Added:
    """One added task, or the one that the same idempotency key made before."""

    task_id: TaskId
    is_repeat: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a batch of transitions; each task is in exactly one of the three."""

    applied: frozenset[TaskId] = frozenset()
    repeated: frozenset[TaskId] = frozenset()  # this very step had been written before: done, nothing changed now
    stale: frozenset[TaskId] = frozenset()  # the task has moved on: refused, nothing changed


class TaskStore(Protocol):
    async def now(self) -> datetime:
        """The store's own clock."""
        ...

    async def add(self, new: Sequence[NewTask]) -> list[Added]:
        """Add tasks with their first log entry, all or none; answers in order.

        A key seen before yields the first task instead; the same key with another digest raises
        `IdempotencyMismatchError` and adds nothing. May be repeated: a task that is already there is left alone; an
        id that another task has raises `IdTakenError`.
        """
        ...

    async def advance(self, steps: Sequence[Transition]) -> Written:
        """Write transitions with their log entries, results and errors, in one transaction.

        Each is written only while the task's version is still the one it started from. At most one step a task.
        Grants, ends, retries, releases, cancellations and changes of priority may share a batch.
        """
        ...

    async def find(self, task_id: TaskId, tenant_id: TenantId) -> Task | None:
        """The task, or None when there is none in this tenant."""
        ...

    async def load(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        """Those of the tasks that exist, whole, in any tenant."""
        ...

    async def find_live(self, task_ids: Sequence[TaskId]) -> list[LiveTask]:
        """Those of the tasks that have not ended, in the order asked."""
        ...

    async def list_live(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        """A page of all tasks that have not ended, oldest id first."""
        ...

    async def list_due(self, limit: int) -> list[LiveTask]:
        """Waiting tasks whose time has come by the store's clock, longest due first."""
        ...

    async def list_overdue(self, limit: int) -> list[LiveTask]:
        """Running attempts past their deadline by the store's clock, longest overdue first."""
        ...

    async def list_held(self, worker_id: WorkerId) -> list[LiveTask]:
        """The attempts that this worker incarnation holds, oldest id first."""
        ...

    async def list_page(self, wanted: TaskFilter) -> Page[Task]:
        """A page of the tasks that match, newest id first."""
        ...

    async def count_by_status(self, tenant_id: TenantId) -> dict[TaskStatus, int]:
        """How many tasks are in each state; states without tasks are left out."""
        ...

    async def purge(self, *, completed_before: datetime, limit: int) -> int:
        """Delete up to `limit` ended tasks with their results and logs, oldest id first; says how many."""
        ...


class LogStore(Protocol):
    async def append(self, entries: Sequence[LogEntry]) -> None:
        """Keep log lines. May be repeated: a line that is already in its place is left alone."""
        ...

    async def read(self, task_id: TaskId, *, after: int = 0, limit: int = 1000) -> list[LogEntry]:
        """The record of a task after a place in it, in order."""
        ...


class ConfigStore(Protocol):
    async def put(self, config: TaskConfig, *, expected_revision: int | None = None) -> TaskConfig:
        """Create or replace a config as a new revision, which is returned.

        With `expected_revision` (0: must not exist) raises `RevisionConflictError` when another is current.
        """
        ...

    async def find(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        """The current revision, or None."""
        ...

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[TaskConfig]:
        """A page of the tenant's configs by type."""
        ...

    async def list_revisions(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[TaskConfig]:
        """The revisions, newest first, also of a deleted config."""
        ...

    async def delete(self, tenant_id: TenantId, task_type: str) -> bool:
        """Remove the config; its revisions and its tasks stay. False when there was none."""
        ...


class ScheduleStore(Protocol):
    async def list_due(self, limit: int) -> list[TaskConfig]:
        """Enabled configs whose next fire time has come by the store's clock, longest due first."""
        ...

    async def fire(self, occurrence: Occurrence, *, task: Task | None, next_fire_at: datetime | None) -> bool:
        """In one transaction: note the occurrence, add its task (None: skipped), advance the config's next fire time.

        False, and nothing changed, when another leader or term already fired or skipped this target time. The next
        fire time only ever moves forward; None means that the schedule is over.
        """
        ...

    async def list_occurrences(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[Occurrence]:
        """What became of the target times, newest first."""
        ...


class WorkerRegistry(Protocol):
    async def register(self, worker: Worker) -> None:
        """Remember an incarnation of a worker, or its changed capacity, types, labels or draining."""
        ...

    async def seen(self, loads: Mapping[WorkerId, int]) -> None:
        """Note that workers are alive, by the store's clock, and how many attempts each runs."""
        ...

    async def retire(self, worker_ids: Sequence[WorkerId]) -> None:
        """Note that incarnations have ended, by their own word or by their lease."""
        ...

    async def list_all(self, *, alive_only: bool = True) -> list["WorkerRecord"]:
        """The incarnations known, by id."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """What the store remembers of a worker incarnation."""

    worker: Worker
    registered_at: datetime
    seen_at: datetime
    retired_at: datetime | None


class TermStore(Protocol):
    async def begin(self, node_id: NodeId) -> int:
        """Begin a new reign of this node: a number greater than every one before it, ever."""
        ...

    async def confirm(self, number: int) -> bool:
        """Whether this term is still the newest; proves at the same time that the store can be written."""
        ...


@dataclass(frozen=True, slots=True)
class SlotLease:
    """The right to issue ids under one of 1,024 node slots."""

    slot: int
    floor: int  # every new id must be greater: an earlier holder may have issued up to here


class SlotStore(Protocol):
    async def lease(self, node_id: NodeId, ttl: timedelta) -> SlotLease:
        """Take a slot that nobody holds; the node's own one again if it has one. Raises `ConflictError` when all
        are taken. Expiry runs on the store's clock."""
        ...

    async def renew(self, node_id: NodeId, slot: int, *, ttl: timedelta) -> bool:
        """Keep the slot. False when it is no longer this node's: stop issuing ids."""
        ...


@dataclass(frozen=True, slots=True)
class Store:
    """All of the truth, by concern. An adapter builds one; use cases take the parts they need."""

    tasks: TaskStore
    logs: LogStore
    configs: ConfigStore
    schedules: ScheduleStore
    workers: WorkerRegistry
    terms: TermStore
    slots: SlotStore
