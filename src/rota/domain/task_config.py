"""The definition of a kind of task: how it is executed, its limits and its defaults."""

from dataclasses import MISSING, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, Self

from rota.domain.checks import check_duration, check_json, check_name, check_number, check_rate, check_text
from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId
from rota.domain.priority import NORMAL, URGENT
from rota.domain.retry import STANDARD_RETRY, RetryPolicy
from rota.domain.schedule import Schedule
from rota.domain.task import DEFAULT_TIMEOUT

SHORTEST_TIMEOUT = timedelta(milliseconds=100)  # from the grant: less would be over before the attempt begins
ConfigKey = tuple[TenantId, str]  # tenant and type
KEPT_REVISIONS = 100  # of a type; older ones are let go when another is made
LOCAL = "local"  # the executor that calls Python functions


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfig:
    """One definition per tenant and type; every change makes a new revision.

    The next fire time, the runs and the last run are no part of the definition: once they are stored, firing moves
    them on, without a new revision.
    """

    type: str
    tenant_id: TenantId = DEFAULT_TENANT
    name: str = ""
    description: str = ""
    executor_type: str = LOCAL
    executor_config: str = "{}"  # JSON text, read by the executor
    timeout: timedelta = DEFAULT_TIMEOUT
    retry: RetryPolicy = STANDARD_RETRY
    priority: int = NORMAL
    max_concurrent: int | None = None
    rate_per_second: float | None = None  # attempts granted, cluster-wide, on average
    payload: str = "{}"  # JSON text, the default
    schedule: Schedule | None = None
    source: str = ""  # the set of files that it was applied from, which may prune it; empty: none
    next_fire_at: datetime | None = None  # when its next target is due; None: never
    runs: int = 0  # how often the schedule has fired
    last_run: TaskId | None = None  # the task that it made last
    is_enabled: bool = True
    revision: int = 0  # 0: not stored yet
    created_at: datetime | None = None
    updated_at: datetime | None = None
    updated_by: str = ""  # who asked for this revision, or the node whose code did; empty: the program itself

    def __post_init__(self) -> None:
        check_name("tenant", self.tenant_id, longest=63)
        check_name("type", self.type)
        check_text("name", self.name, longest=200)
        check_text("description", self.description, longest=2000)
        check_name("executor.type", self.executor_type, longest=63)
        if self.source:
            check_name("source", self.source, longest=63)
        check_json("executor", self.executor_config)
        check_json("payload", self.payload)
        check_duration("timeout_seconds", self.timeout, least=SHORTEST_TIMEOUT)
        check_number("priority", self.priority, least=NORMAL, most=URGENT)
        if self.max_concurrent is not None:
            check_number("max_concurrent", self.max_concurrent, least=1, most=1_000_000)
        if self.rate_per_second is not None:
            check_rate("rate_per_second", self.rate_per_second)

    @classmethod
    def as_stored(cls, **facts: Any) -> Self:
        """One that a store kept: it was checked on its way in, and is not checked again."""
        config = object.__new__(cls)
        for name, put in _SLOTS.items():  # not `object.__setattr__`, which looks for the name: it takes twice as long
            put(config, facts[name] if name in facts else _DEFAULTS[name])
        return config

    @property
    def can_fire(self) -> bool:
        """Whether its schedule is looked at. What is due meanwhile is noted, as one range, when it is again."""
        return self.is_enabled and not (self.schedule is not None and self.schedule.is_paused)

    def has_targets_of(self, other: "TaskConfig") -> bool:
        """Whether the schedules of both, if any, name the same moments."""
        if self.schedule is None or other.schedule is None:
            return self.schedule is other.schedule
        return self.schedule.has_targets_of(other.schedule)

    def is_repeat_of(self, current: "TaskConfig", *, expected_revision: int | None) -> bool:
        """Whether storing this would change nothing: it is the current one, perhaps stored by this very call."""
        stamped = replace(
            self,
            next_fire_at=current.next_fire_at,
            runs=current.runs,
            last_run=current.last_run,
            revision=current.revision,
            created_at=current.created_at,
            updated_at=current.updated_at,
            updated_by=current.updated_by,
        )
        is_new = current.created_at == current.updated_at
        return stamped == current and (
            expected_revision in (None, current.revision, current.revision - 1) or (expected_revision == 0 and is_new)
        )

    def in_place_of(self, current: "TaskConfig | None") -> "TaskConfig":
        """This one, with the next fire time and the runs of the one it replaces while both have the same targets.

        A caller's time is as old as its read: taking it would bring back a target that has fired since.
        """
        if current is None:
            return self
        if self.schedule is None or not self.has_targets_of(current):
            return replace(self, runs=0, last_run=current.last_run)
        next_fire_at = self.next_fire_at if current.next_fire_at is None else current.next_fire_at
        return replace(self, next_fire_at=next_fire_at, runs=current.runs, last_run=current.last_run)


_SLOTS = {one.name: getattr(TaskConfig, one.name).__set__ for one in fields(TaskConfig)}
_DEFAULTS = {one.name: one.default for one in fields(TaskConfig) if one.default is not MISSING}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableConfig:
    """A config that is due and that this release cannot read, such as one that a newer release wrote."""

    tenant_id: TenantId
    type: str
    revision: int
    next_fire_at: datetime
    problem: str


def check_payload(payload: str, *, executor_type: str) -> str:
    """JSON text that the executor can take: what a Python function gets are its arguments, by name."""
    if executor_type == LOCAL and not payload.startswith("{"):
        raise InvalidError("payload", "must be a JSON object: its keys are the arguments of the function")
    return payload
