"""A task's life: the one place that knows which state may follow which.

A task has two halves. `TaskSpec` is what was asked and never changes. `TaskState` is where it stands; each change of
it is a `Transition`, made by a method here and nowhere else, and written by a store only while the state it started
from is still the current one (`version`). The attempt number is the fence that travels to workers and back.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.domain.attempt import Attempt, TaskError, TaskResult
from rota.domain.checks import MAX_MESSAGE, check_instant, check_number, tidy_text
from rota.domain.errors import FencedError, IllegalTransitionError, InvalidError, NotDueError
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.priority import NORMAL, URGENT
from rota.domain.retry import STANDARD_RETRY, RetryPolicy

DEFAULT_TIMEOUT = timedelta(minutes=5)
POISON_LOSSES = 3  # a task that took this many workers down with it …
POISON_WINDOW = timedelta(hours=72)  # … within this time is quarantined rather than granted again


class TaskStatus(StrEnum):
    __hash__ = str.__hash__  # Enum's own is slow Python code, and every step of every task looks a status up

    BLOCKED = "BLOCKED"
    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    RETRYING = "RETRYING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"

    @property
    def is_final(self) -> bool:
        return not ALLOWED[self]

    @property
    def is_waiting(self) -> bool:
        return self in WAITING


BLOCKED, PENDING, PROCESSING, RETRYING = (
    TaskStatus.BLOCKED,
    TaskStatus.PENDING,
    TaskStatus.PROCESSING,
    TaskStatus.RETRYING,
)
SUCCESS, FAILED, TIMEOUT, CANCELLED = TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELLED

ALLOWED: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    BLOCKED: frozenset({PENDING, CANCELLED}),
    PENDING: frozenset({PROCESSING, CANCELLED}),
    PROCESSING: frozenset({SUCCESS, FAILED, TIMEOUT, CANCELLED, RETRYING, PENDING}),
    RETRYING: frozenset({PROCESSING, CANCELLED}),
    SUCCESS: frozenset(),
    FAILED: frozenset(),
    TIMEOUT: frozenset(),
    CANCELLED: frozenset(),
}
WAITING = frozenset({PENDING, RETRYING})
FINAL = frozenset(status for status, following in ALLOWED.items() if not following)
LIVE = frozenset(ALLOWED) - FINAL


class LogKind(StrEnum):
    __hash__ = str.__hash__  # as that of a status

    STATE_CHANGE = "STATE_CHANGE"
    RETRY = "RETRY"
    ERROR = "ERROR"
    INFO = "INFO"
    WARNING = "WARNING"


class TaskState(Struct, frozen=True, kw_only=True, gc=False):
    """Where one task stands: everything about it that ever changes."""

    id: TaskId
    status: TaskStatus
    tenant_id: TenantId = DEFAULT_TENANT
    due_at: datetime  # waiting: earliest start; running: the attempt's deadline
    priority: int = NORMAL
    version: int = 1  # grows by one with every transition
    attempt: int = 0  # the fence; grows by one with every grant
    retry_count: int = 0
    worker_id: WorkerId | None = None  # running and None: the attempt is deferred, a callback ends it
    term: int = 0  # of the leader that made the last grant
    started_at: datetime | None = None
    completed_at: datetime | None = None
    last_lost_at: datetime | None = None
    prior_lost_at: datetime | None = None
    moved_due_at: datetime | None = None  # moved before its first attempt: when it was to start since then

    def granted(self, worker_id: WorkerId, *, term: int, at: datetime, timeout: timedelta) -> "Transition":
        """Give the next attempt to a worker; `at`, by the store's clock, must not be before the task is due.

        A leader that meets a grant of a later term is a leader no more, whatever it still believes: `FencedError`."""
        if term < self.term:
            raise FencedError("term", seen=term, current=self.term)
        if PROCESSING not in ALLOWED[self.status]:
            raise IllegalTransitionError(self.id, present=self.status, wanted=PROCESSING)
        if at < self.due_at:
            raise NotDueError(self.id, due_at=self.due_at.isoformat())
        after = replace(  # in one go: this runs for every task
            self,
            status=PROCESSING,
            version=self.version + 1,
            attempt=self.attempt + 1,
            worker_id=worker_id,
            term=term,
            started_at=at,
            due_at=at + timeout,
        )
        return Transition(before=self, after=after, at=at)

    def succeeded(self, result: TaskResult, *, at: datetime) -> "Transition":
        held = result.tidied()
        return Transition(before=self, after=self._ended(SUCCESS, at=at), at=at, result=held, message=held.message)

    def failed(self, error: TaskError, *, at: datetime) -> "Transition":
        """The end: a final error, or no retry left."""
        return self._end(FAILED, at=at).with_error(error)

    def timed_out(self, error: TaskError, *, at: datetime) -> "Transition":
        return self._end(TIMEOUT, at=at).with_error(error)

    def retried(self, error: TaskError, *, at: datetime, due_at: datetime) -> "Transition":
        """Spend a retry: wait for the next attempt until `due_at`."""
        step = self._to(RETRYING, at=at, retry_count=self.retry_count + 1, due_at=due_at, worker_id=None)
        return step.with_error(error)

    def released(self, reason: str, *, at: datetime, due_at: datetime) -> "Transition":
        """Back to the queue without spending a retry (drained, snoozed, never started)."""
        self._check_is(PROCESSING, wanted=PENDING)
        message = tidy_text(reason, longest=MAX_MESSAGE)
        return replace(self._to(PENDING, at=at, worker_id=None, due_at=due_at), message=message)

    def lost(self, *, at: datetime) -> "Transition":
        """The worker is gone. The attempt is no failure of the task, unless it keeps taking workers with it."""
        if self.prior_lost_at is not None and at - self.prior_lost_at <= POISON_WINDOW:
            message = f"{POISON_LOSSES} workers were lost while running it within {POISON_WINDOW.days} days"
            return self.failed(TaskError("poison", message, retryable=False), at=at)
        released = self.released("worker_lost", at=at, due_at=at)
        return replace(released, after=replace(released.after, last_lost_at=at, prior_lost_at=self.last_lost_at))

    def deferred(self, *, at: datetime) -> "Transition":
        """The attempt goes on without a worker until a callback ends it, or its deadline, which stays."""
        self._check_is(PROCESSING, wanted=f"{PROCESSING} without a worker")
        return self._noted("waits for a callback", at=at, worker_id=None)

    def prolonged(self, due_at: datetime, *, at: datetime) -> "Transition":
        """Whoever works on a deferred attempt lives: unless it is heard of again, the attempt ends at `due_at`."""
        if not self.is_deferred:
            problem = "waits for no callback; only a worker that holds it can speak for it"
            raise IllegalTransitionError(self.id, present=self.status, wanted="prolonged", problem=problem)
        step = self._noted(f"heard of, the next time before {due_at.isoformat()}", at=at, due_at=due_at)
        return replace(step, is_recorded=False)  # there may be thousands of them, and each says the same

    def cancelled(self, reason: str, *, at: datetime) -> "Transition":
        """End it, waiting or running; whatever a running attempt still reports is stale from here on."""
        error = TaskError("cancelled", reason, retryable=False)
        return self._end(CANCELLED, at=at).with_error(error)

    def unblocked(self, *, at: datetime) -> "Transition":
        """Its dependencies are done."""
        self._check_is(BLOCKED, wanted=PENDING)
        return self._to(PENDING, at=at, due_at=max(self.due_at, at))

    def amended(self, *, at: datetime, priority: int | None = None, due_at: datetime | None = None) -> "Transition":
        """Change how urgent a waiting task is, when it is due, or both in one step."""
        changes: dict[str, Any] = {}
        notes = []
        if priority is not None:
            changes["priority"] = check_number("priority", priority, least=NORMAL, most=URGENT)
            notes.append(f"priority {self.priority} → {priority}")
        if due_at is not None:
            changes["due_at"] = check_instant("scheduled_at", due_at).astimezone(UTC)
            if not self.attempt:
                changes["moved_due_at"] = max(changes["due_at"], at)  # moved into the past: at once
            notes.append(f"due {changes['due_at'].isoformat()}")
        if not changes:
            raise InvalidError("priority", "or scheduled_at is needed: without them nothing is changed")
        if self.status not in WAITING and self.status is not BLOCKED:
            problem = "cannot be changed; only a task that waits can"
            raise IllegalTransitionError(self.id, present=self.status, wanted="amended", problem=problem)
        return self._noted(", ".join(notes), at=at, **changes)

    def is_held_by(self, attempt: Attempt) -> bool:
        """Only the current attempt, on the worker it was granted to, may run the task and speak for it."""
        return self.status is PROCESSING and attempt.number == self.attempt and attempt.worker_id == self.worker_id

    @property
    def is_deferred(self) -> bool:
        """Whether the attempt runs and no worker holds it: a callback ends it, or its deadline."""
        return self.status is PROCESSING and self.worker_id is None

    def _end(self, target: TaskStatus, *, at: datetime) -> "Transition":
        return Transition(before=self, after=self._ended(target, at=at), at=at)

    def _ended(self, target: TaskStatus, *, at: datetime) -> "TaskState":
        return self._at(target, completed_at=at, due_at=at, last_lost_at=None, prior_lost_at=None)

    def _check_is(self, status: TaskStatus, *, wanted: str) -> None:
        # The table says that PENDING may follow BLOCKED and PROCESSING; which verb leads there is said here.
        if self.status is not status:
            raise IllegalTransitionError(self.id, present=self.status, wanted=wanted)

    def _to(self, target: TaskStatus, *, at: datetime, **changes: Any) -> "Transition":
        return Transition(before=self, after=self._at(target, **changes), at=at)

    def _at(self, target: TaskStatus, **changes: Any) -> "TaskState":
        if target not in ALLOWED[self.status]:
            raise IllegalTransitionError(self.id, present=self.status, wanted=target)
        return replace(self, status=target, version=self.version + 1, **changes)

    def _noted(self, note: str, *, at: datetime, **changes: Any) -> "Transition":
        after = replace(self, version=self.version + 1, **changes)
        return Transition(before=self, after=after, at=at, kind=LogKind.INFO, message=note)


class Transition(Struct, frozen=True, kw_only=True, gc=False):
    """One lawful step of a task, with what is to be remembered of it."""

    before: TaskState
    after: TaskState
    at: datetime
    kind: LogKind = LogKind.STATE_CHANGE
    message: str = ""
    result: TaskResult | None = None
    error: TaskError | None = None
    is_recorded: bool = True  # whether the task's record has a line of it

    @property
    def task_id(self) -> TaskId:
        return self.after.id

    def with_error(self, error: TaskError) -> "Transition":
        kind = {RETRYING: LogKind.RETRY, CANCELLED: LogKind.STATE_CHANGE}.get(self.after.status, LogKind.ERROR)
        held = error.tidied()
        return replace(self, error=held, kind=kind, message=held.message)


class TaskSpec(Struct, frozen=True, kw_only=True, gc=False):
    """What was asked of one task: written once, never changed."""

    id: TaskId
    type: str
    created_at: datetime
    tenant_id: TenantId = DEFAULT_TENANT
    name: str = ""
    payload: str = "{}"  # JSON text
    metadata: Mapping[str, str] = {}
    scheduled_at: datetime | None = None
    timeout: timedelta = DEFAULT_TIMEOUT
    retry: RetryPolicy = STANDARD_RETRY
    rerun_of: TaskId | None = None

    @property
    def end_by(self) -> datetime | None:
        """When the time for all attempts together is over, counted from when the task was to start; None: never."""
        total = self.retry.total_timeout
        return None if total is None else max(self.created_at, self.scheduled_at or self.created_at) + total


class Task(Struct, frozen=True, kw_only=True, gc=False):
    """One instance of a task config, from submit to its final state."""

    spec: TaskSpec
    state: TaskState
    result: TaskResult | None = None
    error: TaskError | None = None

    @property
    def id(self) -> TaskId:
        return self.spec.id

    @property
    def scheduled_at(self) -> datetime | None:
        """When it was to start: where it was moved to before its first attempt, or what was asked for with it."""
        return self.state.moved_due_at or self.spec.scheduled_at

    @property
    def attempt_until(self) -> datetime:
        """The deadline of the attempt that runs, which is not to last longer than all attempts may together."""
        end_by = self.spec.end_by
        return self.state.due_at if end_by is None else min(self.state.due_at, end_by)

    def after(self, step: Transition) -> "Task":
        """The task as it is once the transition is done; the last error stays visible until it succeeds."""
        if step.before.version != self.state.version:
            raise FencedError(f"version of task {self.id}", seen=step.before.version, current=self.state.version)
        error = None if step.after.status is SUCCESS else step.error or self.error
        return replace(self, state=step.after, result=step.result, error=error)


class LiveTask(Struct, frozen=True, kw_only=True, gc=False):
    """A task that has not ended, with just what dispatch and recovery need: no payload."""

    state: TaskState
    type: str
    timeout: timedelta

    @property
    def id(self) -> TaskId:
        return self.state.id


def check_one_step_each(steps: Sequence[Transition]) -> None:
    """A batch may hold one step of a task: the second could only be judged after the first is written."""
    if len({step.after.id for step in steps}) != len(steps):
        raise InvalidError("steps", "a task has more than one step in this batch; write them one after the other")
