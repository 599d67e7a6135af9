"""All that the in-memory store knows. The parts share one of these; a second node is a second view of it.

Nothing here awaits, so that every method of the store is one step of the event loop: atomic, like a transaction.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from rota.application.ports.store import CalendarKey, NodeRecord, SlotLease, WorkerRecord
from rota.application.ports.system import Clock
from rota.domain.access import AccessToken
from rota.domain.audit import AuditEntry
from rota.domain.calendar import StoredCalendar
from rota.domain.errors import IdTakenError
from rota.domain.ids import NodeId, TaskId, TenantId, WorkerId
from rota.domain.log import LogEntry, first_entry
from rota.domain.rollup import Figures, Progress, RollupKey
from rota.domain.schedule import Occurrence
from rota.domain.submission import First, RequestKey
from rota.domain.task import Task, TaskStatus
from rota.domain.task_config import TaskConfig

ConfigKey = tuple[TenantId, str]


@dataclass(frozen=True, slots=True)
class HeldSlot:
    """Who holds a node slot, or held it last."""

    lease: SlotLease
    node_id: NodeId
    until: datetime


@dataclass(slots=True)
class MemoryState:
    """The tables, as dicts."""

    clock: Clock
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    live: set[TaskId] = field(default_factory=set)
    ended: Counter[tuple[TenantId, TaskStatus]] = field(default_factory=Counter)  # since the beginning
    keys: dict[RequestKey, First] = field(default_factory=dict)
    logs: dict[TaskId, dict[int, LogEntry]] = field(default_factory=dict)  # by place
    configs: dict[ConfigKey, TaskConfig] = field(default_factory=dict)
    revisions: dict[ConfigKey, list[TaskConfig]] = field(default_factory=dict)  # oldest first
    occurrences: dict[ConfigKey, dict[datetime, Occurrence]] = field(default_factory=dict)
    calendars: dict[CalendarKey, StoredCalendar] = field(default_factory=dict)
    workers: dict[WorkerId, WorkerRecord] = field(default_factory=dict)
    nodes: dict[NodeId, NodeRecord] = field(default_factory=dict)
    tokens: dict[str, AccessToken] = field(default_factory=dict)
    audit: dict[int, AuditEntry] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    progress: Progress = field(default_factory=Progress)  # of the sums for reports
    left_behind: dict[int, tuple[TaskId, ...]] = field(default_factory=dict)
    rollups: dict[RollupKey, Figures] = field(default_factory=dict)
    term: int = 0
    slots: list[HeldSlot] = field(default_factory=list)

    def insert(self, task: Task) -> None:
        """Add a task with its first log entry; one that is there already is left alone."""
        self.check_id(task)
        if task.id not in self.tasks:
            self.tasks[task.id] = task
            self.live.add(task.id)
            self.keep(first_entry(task))

    def record(self, audit: Iterable[AuditEntry]) -> None:
        """Keep audit entries; one that is there already is left alone."""
        for entry in audit:
            self.audit.setdefault(entry.id, entry)

    def check_id(self, task: Task) -> None:
        """An id that stands for another task must never pass for a repeat."""
        known = self.tasks.get(task.id)
        if known is not None and known.spec != task.spec:
            raise IdTakenError(task.id)

    def keep(self, entry: LogEntry) -> None:
        """Add a log entry; one that is in its place already is left alone."""
        self.logs.setdefault(entry.task_id, {}).setdefault(entry.seq, entry)
