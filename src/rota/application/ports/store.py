"""The store: the truth. A task exists when its row is committed here.

Rules of every method, which the contract suite checks on every adapter:

- A write is one transaction: all of it, or nothing.
- A write is conditional, and its answer says what changed. What did not change is stale, never assumed done.
- `StoreUnavailableError` means the outcome is unknown; the same call may be repeated, it changes nothing twice.
- What is due is decided by the store's clock (`now`), never by a caller's.
- Times are aware UTC datetimes, exact to the microsecond.
- A purge deletes no more than `MAX_PURGE` (5,000) at once, whatever its `limit` says: repeat it until it says 0. A
  limit below 1 raises `InvalidError`.
- `audit` says who asked for a change. It is kept in the same transaction and only if the change takes effect: a repeat,
  a stale step, a lost race keep nothing of it. An entry whose id is there already is left alone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct

from rota.application.ports.audit import AuditStore
from rota.application.ports.report import ReportStore
from rota.domain.access import AccessToken
from rota.domain.audit import AuditEntry
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.firing import Firing, due_of
from rota.domain.ids import TIME_SHIFT, NodeId, TaskId, TenantId, WorkerId, first_id_at
from rota.domain.log import LogEntry, Progress
from rota.domain.node import NodeInfo
from rota.domain.paging import Page, TaskFilter
from rota.domain.schedule import Occurrence
from rota.domain.submission import NewTask
from rota.domain.task import LiveTask, Task, TaskStatus, Transition
from rota.domain.task_config import ConfigKey, TaskConfig, UnreadableConfig
from rota.domain.worker import Worker, WorkerOrders

CalendarKey = tuple[TenantId, str]  # its tenant and its name


class Added(Struct, frozen=True, gc=False):
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
        id that another task has raises `IdTakenError`. The audit of each task that is new is kept, an entry that
        several of them share once.
        """
        ...

    async def advance(self, steps: Sequence[Transition], *, audit: Sequence[AuditEntry] = ()) -> Written:
        """Write transitions with their log entries, results and errors, in one transaction.

        Each is written only while the task's version is still the one it started from. Grants, ends, retries, releases,
        cancellations and changes of priority may share a batch; two steps of one task in it raise `InvalidError`.
        An audit entry is about the task whose id is its `object`, and is kept if that task's step is applied; one about
        no task of the batch raises `InvalidError`.
        """
        ...

    async def find(self, task_id: TaskId, tenant_id: TenantId) -> Task | None:
        """The task, or None when there is none in this tenant."""
        ...

    async def load(self, task_ids: Sequence[TaskId]) -> dict[TaskId, Task]:
        """Those of the tasks that exist, whole, in any tenant."""
        ...

    async def find_by_keys(self, tenant_id: TenantId, keys: Collection[str]) -> dict[str, TaskId]:
        """The tasks that these idempotency keys made, by key; those that are free are left out."""
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

    async def list_running(self, *, after: TaskId | None, limit: int) -> list[LiveTask]:
        """A page of all running attempts, of every worker, oldest id first."""
        ...

    async def list_page(self, wanted: TaskFilter) -> Page[Task]:
        """A page of the tasks that match, newest id first.

        A store for many tasks stops where it has looked at so many, and says by `is_short` that this is why the page is
        not full: so a page takes no longer than a second, however few of them match."""
        ...

    async def count_by_status(self, tenant_id: TenantId | None) -> dict[TaskStatus, int]:
        """How many tasks of a tenant, or of all (None), are in each state; states without tasks are left out."""
        ...

    async def count_ended(self, tenant_id: TenantId) -> dict[TaskStatus, int]:
        """How many tasks have ended how since the beginning, also those that were purged: numbers that only grow."""
        ...

    async def purge(self, *, completed_before: datetime, limit: int) -> int:
        """Delete up to `limit` ended tasks with their results and logs, oldest id first; says how many."""
        ...


class LogStore(Protocol):
    async def append(self, entries: Sequence[LogEntry]) -> None:
        """Keep log lines. May be repeated: a line that is already in its place is left alone.

        An entry in the place of a transition (line 0 of any version, also of one to come) raises `InvalidError`, and
        nothing is kept: only `add` and `advance` write those."""
        ...

    async def read(self, task_id: TaskId, *, after: int = 0, limit: int = 1000) -> list[LogEntry]:
        """The record of a task after a place in it, in order."""
        ...

    async def find_progress(self, task_id: TaskId, attempt: int) -> Progress | None:
        """What the last line of an attempt says that tells of progress (`progress_of`); None: there is none."""
        ...


class ConfigStore(Protocol):
    async def put(
        self, config: TaskConfig, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> TaskConfig:
        """Create or replace a config as a new revision, which is returned.

        With `expected_revision` (0: must not exist) raises `RevisionConflictError` when another is current, and
        `InvalidError` when its schedule names a calendar that is not there: none can be deleted meanwhile. The next
        fire time is the store's own once there is one: it stays while the schedule stays the same, and a config that
        differs from the current one in nothing else makes no new revision.
        """
        ...

    async def find(self, tenant_id: TenantId, task_type: str) -> TaskConfig | None:
        """The current revision, or None. Raises `InvalidError` when this release cannot read what is stored."""
        ...

    async def find_many(self, keys: Collection[ConfigKey]) -> dict[ConfigKey, TaskConfig]:
        """The current revisions of those that exist and can be read, by tenant and type."""
        ...

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[TaskConfig]:
        """A page of the tenant's configs by type; those that cannot be read are left out. A short one is the last."""
        ...

    async def find_revision(self, tenant_id: TenantId, task_type: str, *, revision: int) -> TaskConfig | None:
        """The definition as it was then, also of a type that was deleted since."""
        ...

    async def list_revisions(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[TaskConfig]:
        """The revisions, newest first, also of a deleted config; the last `KEPT_REVISIONS` of a type are kept."""
        ...

    async def delete(self, tenant_id: TenantId, task_type: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Remove the config; its revisions and its tasks stay. False when there was none."""
        ...


MOST_LOOKED_THROUGH = 5_000  # occurrences of a schedule
FireKey = tuple[datetime, TenantId, str]  # the next fire time of a config, its tenant and its type


def fire_key_of(config: TaskConfig | UnreadableConfig) -> FireKey:
    return due_of(config), config.tenant_id, config.type


class ScheduleStore(Protocol):
    async def list_due(
        self, limit: int, *, by: datetime | None = None, after: FireKey | None = None
    ) -> list[TaskConfig | UnreadableConfig]:
        """Configs that can fire and whose next fire time has come by the store's clock, or comes by another moment,
        longest due first; those of one time are in an order of the store's own. With `after`, those behind the one that
        has this key or had it: what changes from page to page may then be told twice, or not at all.

        One that this release cannot read is told as such in its place, and keeps none of the others back.
        """
        ...

    async def list_unreadable(self, limit: int) -> list[UnreadableConfig]:
        """Up to `limit` configs that would fire some time and that this release cannot read. Looks at all of them."""
        ...

    async def find_next(self) -> datetime | None:
        """The earliest next fire time of a config that can fire, past or to come; None: no schedule goes on."""
        ...

    async def fire(self, firings: Sequence[Firing]) -> list[Sequence[Occurrence]]:
        """Note occurrences, add their tasks, advance the next fire time, the runs and the last run of the configs.

        One transaction, at most one firing of a config in it (else `InvalidError`). A firing takes effect, all of it,
        while the config's next fire time and its revision are those it began from: of two leaders that fire the same
        target, one does, and a config that was changed fires as it is now.
        A target that is noted already, as after a deletion, is left alone with its task. Answers, in order, what each
        firing has noted, or the same call before it; nothing where another was faster. Raises `IdTakenError` when a
        task's id is that of another task: then nothing is written. May be repeated.
        """
        ...

    async def aim(self, config: TaskConfig | UnreadableConfig, next_fire_at: datetime | None) -> bool:
        """Move the next fire time of a config, earlier or later, while that and its revision are those that were read.

        False when they are not, or there is no such config. May be repeated: then the answer is False."""
        ...

    async def list_occurrences(self, tenant_id: TenantId, task_type: str, *, limit: int = 100) -> list[Occurrence]:
        """What became of the target times, newest first."""
        ...

    async def find_occurrences(
        self, tenant_id: TenantId, task_type: str, *, times: Collection[datetime]
    ) -> dict[datetime, Occurrence]:
        """What became of these target times, by time, as far as it is on record."""
        ...

    async def list_runs(
        self, since: Mapping[ConfigKey, datetime], *, limit: int = 100
    ) -> dict[ConfigKey, list[Occurrence]]:
        """Of each of some schedules, those of the occurrences from a moment on that made a task, newest first.

        They are looked for among the newest `MOST_LOOKED_THROUGH` alone: a schedule may skip far more than it fires."""
        ...

    async def purge(self, *, fired_before: datetime, limit: int) -> int:
        """Delete up to `limit` occurrences of target times before this moment, of each schedule the oldest first.

        Says how many; where there are very many schedules, a call may look at some, and the next one at others. Their
        tasks stay. A target whose occurrence is gone could be fired again: keep what a late leader may still ask for.
        """
        ...


class CalendarStore(Protocol):
    async def put(
        self, calendar: StoredCalendar, *, expected_revision: int | None = None, audit: Sequence[AuditEntry] = ()
    ) -> StoredCalendar:
        """Create or replace a calendar under its name, with the next revision, and say what is stored.

        With `expected_revision` (0: must not exist) raises `RevisionConflictError` when another is current. What
        differs in nothing from the current one makes no new revision. May be repeated."""
        ...

    async def find(self, tenant_id: TenantId, name: str) -> StoredCalendar | None:
        """The calendar, or None. Raises `InvalidError` when what is stored cannot be read."""
        ...

    async def load(self, keys: Collection[CalendarKey]) -> dict[CalendarKey, Calendar]:
        """Those of the calendars that exist and can be read, of any tenant."""
        ...

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[StoredCalendar]:
        """A page of the tenant's calendars by name; those that cannot be read are left out."""
        ...

    async def list_users(
        self, tenant_id: TenantId, name: str, *, after: str = "", limit: int = 100
    ) -> list[TaskConfig]:
        """A page, by type, of the configs whose schedule names the calendar, enabled or not; those that cannot be read
        are left out."""
        ...

    async def delete(self, tenant_id: TenantId, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Remove it. False when there was none; raises `CalendarInUseError` while a schedule names it."""
        ...


class WorkerRegistry(Protocol):
    async def register(self, worker: Worker) -> None:
        """Remember an incarnation of a worker, or its changed capacity, types, labels or draining.

        May be repeated. One that is retired stays retired: an incarnation ends once.
        """
        ...

    async def seen(self, loads: Mapping[WorkerId, int]) -> list["WorkerRecord"]:
        """Note that workers live, by the store's clock, and their loads. The records of those not retired, by id."""
        ...

    async def retire(self, worker_ids: Sequence[WorkerId]) -> None:
        """Note that incarnations have ended, by their own word or by their lease."""
        ...

    async def order(
        self,
        worker_id: WorkerId,
        *,
        capacity: int | None = None,
        draining: bool | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        """Keep what an operator asks of an incarnation, for it to find with its record; what is None stays as it was.

        False when there is none that has not retired. A repeat is a new wish for the same."""
        ...

    async def list_all(
        self, *, alive_only: bool = True, after: WorkerId | None = None, limit: int = 1000
    ) -> list["WorkerRecord"]:
        """A page of the incarnations known, by id; one of fewer than `limit` is the last."""
        ...

    async def purge(self, *, retired_before: datetime, limit: int) -> int:
        """Forget up to `limit` incarnations that were retired before this moment, oldest id first; says how many."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """What the store remembers of a worker incarnation."""

    worker: Worker
    registered_at: datetime
    seen_at: datetime
    retired_at: datetime | None
    orders: WorkerOrders = field(default_factory=WorkerOrders)


class TokenStore(Protocol):
    async def add(self, token: AccessToken, *, audit: Sequence[AuditEntry] = ()) -> None:
        """Keep a new token. May be repeated; raises `ConflictError` when another token has its id."""
        ...

    async def find(self, token_id: str) -> AccessToken | None:
        """The token, of whatever tenant and whether it is still good or not, or None."""
        ...

    async def list_page(self, tenant_id: TenantId, *, after: str = "", limit: int = 100) -> list[AccessToken]:
        """A page of the tenant's tokens by id, also of those that have ended."""
        ...

    async def revoke(
        self, tenant_id: TenantId, token_id: str, *, at: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """End a token at this moment, for good. May be repeated with the same moment.

        False when this tenant has no such token, or it was revoked at another moment before.
        """
        ...

    async def touch(self, uses: Mapping[str, datetime]) -> None:
        """Note when tokens were last used. Never goes back; tokens that are gone are passed over."""
        ...

    async def purge(self, *, ended_before: datetime, limit: int) -> int:
        """Delete up to `limit` tokens that were revoked or expired before this moment; says how many."""
        ...


class TermStore(Protocol):
    async def begin(self, node_id: NodeId) -> int:
        """Begin a new reign of this node: a number greater than every one before it, ever."""
        ...

    async def confirm(self, number: int) -> bool:
        """Whether this term is still the newest; proves at the same time that the store can be written."""
        ...

    async def find_last(self) -> int:
        """The newest term; 0 before the first."""
        ...


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What the store remembers of a process."""

    node: NodeInfo
    started_at: datetime
    seen_at: datetime


class NodeRegistry(Protocol):
    async def seen(self, node: NodeInfo) -> None:
        """Note that a process lives, by the store's clock."""
        ...

    async def leave(self, node_id: NodeId) -> None:
        """Forget a process that ends in good order."""
        ...

    async def list_alive(self, *, since: datetime) -> list[NodeRecord]:
        """The processes that were seen at this moment or later, by id; at most `MOST_NODES`."""
        ...

    async def purge(self, *, seen_before: datetime, limit: int) -> int:
        """Forget up to `limit` processes that were last seen before this moment; says how many."""
        ...


MOST_NODES = 1024  # as many as there are id slots
AHEAD_OF_CLOCK = 1000 << TIME_SHIFT  # a second of ids, 4 million: more than one lease uses before the clock is there


@dataclass(frozen=True, slots=True)
class SlotLease:
    """The right to issue ids under one of 1,024 node slots, until it expires or the slot is leased again."""

    slot: int
    floor: int  # every new id must be greater: an earlier holder may have issued up to here

    @property
    def number(self) -> int:
        """Which lease of the slot this is: greater than that of every one before, as the floor is."""
        return self.floor

    def followed(self, until: datetime) -> "SlotLease":
        """The next lease of the slot, after this one that runs until then.

        Its floor is above all ids of this one, which follow the clock until then, or this one's own floor where that
        is ahead of the clock.
        """
        return SlotLease(self.slot, floor=max(first_id_at(until), self.floor + AHEAD_OF_CLOCK))


class SlotStore(Protocol):
    async def lease(self, node_id: NodeId, ttl: timedelta) -> SlotLease:
        """Take a slot that nobody holds; the node's own one again if it has one, also from a process that still
        holds it under this name: each lease ends those before it. Raises `ConflictError` when all are taken. May be
        repeated, the last answer counts. Expiry runs on the store's clock."""
        ...

    async def renew(self, node_id: NodeId, lease: SlotLease, *, ttl: timedelta) -> bool:
        """Keep the slot. False when the lease expired or the slot was leased again, be it by a process of the same
        name: stop issuing ids."""
        ...


class SecretStore(Protocol):
    """What the nodes of a cluster share and nobody else may know. It is in no answer and in no log."""

    async def keep(self, name: str, secret: str) -> str:
        """Keep a secret under a name that has none yet, and say which one is kept: of all callers, the first one's.

        Atomic, and may be repeated: whoever asks, at whatever time, is told the same."""
        ...


@dataclass(frozen=True, slots=True)
class Store:
    """All of the truth, by concern. An adapter builds one; use cases take the parts they need."""

    tasks: TaskStore
    logs: LogStore
    configs: ConfigStore
    schedules: ScheduleStore
    calendars: CalendarStore
    workers: WorkerRegistry
    tokens: TokenStore
    audit: AuditStore
    terms: TermStore
    slots: SlotStore
    nodes: NodeRegistry
    secrets: SecretStore
    reports: ReportStore
