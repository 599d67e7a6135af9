"""Tasks."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

import msgspec

from rota.domain.retry import RetryPolicy, RetryStrategy
from rota.domain.task import LogKind, TaskStatus
from rota.domain.waiting import Reason
from rota.wire.base import Answer, Request


class Retry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How often and after which pause a task is tried again."""

    max_retries: int = 3
    strategy: RetryStrategy = RetryStrategy.EXPONENTIAL
    delay_seconds: float = 10.0
    backoff_rate: float = 2.0
    max_delay_seconds: float = 3600.0
    jitter: float = 0.1
    retry_on: list[str] = []  # only these failures: "503", "5xx", "UNAVAILABLE", "ValueError", or an error's code
    give_up_on: list[str] = []  # these never; wins over retry_on
    total_timeout_seconds: float | None = None  # for all attempts and pauses together

    @classmethod
    def of(cls, policy: RetryPolicy) -> Self:
        return cls(
            max_retries=policy.max_retries,
            strategy=policy.strategy,
            delay_seconds=policy.delay.total_seconds(),
            backoff_rate=policy.backoff_rate,
            max_delay_seconds=policy.max_delay.total_seconds(),
            jitter=policy.jitter,
            retry_on=list(policy.retry_on),
            give_up_on=list(policy.give_up_on),
            total_timeout_seconds=None if policy.total_timeout is None else policy.total_timeout.total_seconds(),
        )


class CreateTask(Request):
    """A wish for one task; what is left out comes from the task config."""

    type: str
    payload: Any = None
    name: str = ""
    priority: int | str | None = None
    metadata: Mapping[str, str] = {}
    scheduled_at: datetime | None = None
    delay_seconds: float | None = None
    timeout_seconds: float | None = None
    retry: Retry | None = None
    idempotency_key: str | None = None


class CreateTasks(Request):
    """Many wishes, all or nothing."""

    tasks: list[CreateTask]


class CreatedTasks(Answer):
    """The ids of the tasks, in the order of the request."""

    ids: list[str]


class PatchTask(Request):
    """What may be changed while a task waits."""

    priority: int | str | None = None
    scheduled_at: datetime | None = None


class CancelTask(Request):
    reason: str = ""


class RetryTask(Request):
    """`payload`: other input than that of the task; then it need not have ended, and its type must not be disabled."""

    payload: Any = None


class TaskChoice(Request):
    """Which tasks a bulk action is for: the filters of the list, all of which must be met, or `ids` alone."""

    status: list[TaskStatus] = []
    type: list[str] = []
    worker: str | None = None
    priority: list[int] = []
    created_after: datetime | None = None
    created_before: datetime | None = None
    q: str = ""
    metadata: Mapping[str, str] = {}
    ids: list[str] = []
    cursor: str | None = None  # `next_cursor` of a call that stopped at its bound


class TaskSelection(TaskChoice):
    """Which tasks to cancel or to do again: the filters of the list, all of which must be met, or `ids` alone."""

    reason: str = ""  # of a cancellation


class ReprioritiseTasks(TaskChoice, kw_only=True):
    """Which tasks to make more or less urgent: the filters of the list, or `ids` alone; and how urgent they shall be.

    `priority` is the filter, as in the list."""

    new_priority: int | str


class BulkCount(Answer):
    """What a bulk action did. `has_more`: it stopped at its bound; the same request goes on with `next_cursor`.

    Of those that match, `changed` were changed; what had moved on meanwhile was skipped."""

    matched: int
    changed: int
    skipped: int
    has_more: bool
    next_cursor: str | None = None


class TaskResult(Answer):
    code: int
    message: str
    data: Any


class TaskError(Answer):
    code: str
    message: str
    detail: str
    retryable: bool


class Progress(Answer):
    """How far an attempt got, by its own word."""

    fraction: float
    message: str


class Task(Answer):
    """One task, as it was when it was read. `progress`: of one that runs, when it is asked for by its id.

    `truncated` names what a list left out or cut short: `payload` and `result.data` are null then, `error.detail` is
    its beginning. The task by its id has it all, and so has a list with `full=true`."""

    id: str
    tenant: str
    type: str
    name: str
    status: TaskStatus
    priority: int
    payload: Any
    metadata: Mapping[str, str]
    attempt: int
    retry_count: int
    max_retries: int
    timeout_seconds: float
    worker_id: str | None
    scheduled_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    next_attempt_at: datetime | None
    result: TaskResult | None
    error: TaskError | None
    rerun_of: str | None
    progress: Progress | None = None
    truncated: list[str] = []


class LogLine(Answer):
    """One line of a task's record: a transition, or what the task logged itself. `seq` is its place, and the cursor."""

    seq: str
    kind: LogKind
    at: datetime
    from_status: TaskStatus | None
    to_status: TaskStatus | None
    attempt: int
    worker_id: str | None
    message: str
    detail: str


class Explanation(Answer):
    """Why a task is where it is.

    `executor`, `module`: what a worker would need that none has. `overlap`: the rule by which targets of its schedule
    are skipped until it has ended, or begun. `keeps_firing`: its schedule goes on, though nobody runs what it fires.
    `error_code`, `error_message`: of the last attempt that failed, or of the end. `draining`: how many of the workers
    that support its type take nothing new until they are resumed. A server of an earlier release tells
    nothing of these.
    """

    task_id: str
    status: TaskStatus
    reason: Reason
    sentence: str
    due_at: datetime | None
    attempt: int
    worker_id: str | None
    workers: int | None
    room: int | None
    running: int | None
    max_concurrent: int | None
    rate_per_second: float | None
    global_rate: float | None
    ready: int | None
    executor: str | None = None
    module: str | None = None
    overlap: str | None = None
    keeps_firing: bool = False
    error_code: str | None = None
    error_message: str | None = None
    draining: int | None = None
