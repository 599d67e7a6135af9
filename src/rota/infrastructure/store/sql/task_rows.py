"""Between tasks and their rows. Column order is fixed here; nothing else in the store counts columns."""

from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec

from rota.domain.attempt import TaskError, TaskResult
from rota.domain.ids import TaskId, TenantId, WorkerId
from rota.domain.retry import STANDARD_RETRY, RetryPolicy, RetryStrategy
from rota.domain.task import SUCCESS, LiveTask, Task, TaskSpec, TaskState, Transition
from rota.infrastructure.database.codes import STATUS_CODES, STATUS_OF
from rota.infrastructure.instants import duration_of, duration_us, find_us, from_us, to_us

SPEC_COLUMNS = (
    "id",
    "priority",
    "created_us",
    "scheduled_us",
    "timeout_us",
    "rerun_of",
    "tenant_id",
    "type",
    "name",
    "retry_json",
    "retry_rules_json",
    "metadata_json",
    "payload_json",
)
LIVE_COLUMNS = (
    "id",
    "version",
    "status",
    "priority",
    "attempt",
    "retry_count",
    "due_us",
    "started_us",
    "worker_id",
    "term",
    "last_lost_us",
    "prior_lost_us",
    "tenant_id",
)
NEW_LIVE_COLUMNS = ("id", "status", "priority", "due_us", "tenant_id")  # the rest begins with its default
CHANGING_COLUMNS = LIVE_COLUMNS[1:-1]
AMENDED_COLUMNS = ("priority", "moved_due_us")  # of a task's own row, while it waits
FINAL_COLUMNS = ("status", "version", "attempt", "retry_count", "worker_id", "term", "started_us", "completed_us")
RESULT_COLUMNS = ("task_id", "tenant_id", "status", "result_json", "error_json")

SELECT_LIVE = (
    f"SELECT {','.join(f'l.{name}' for name in LIVE_COLUMNS)}, t.moved_due_us, t.type, t.timeout_us"
    " FROM task_live l JOIN task t ON t.id = l.id"
)
STATE_COLUMNS = ("version", "status", "attempt", "retry_count", "worker_id", "term", "started_us")  # in both tables
# Of a live task its live row counts, and only one that was tried again has something in `task_result`.
SELECT_TASK = (
    f"SELECT {','.join(f't.{name}' for name in SPEC_COLUMNS)},"
    f"{','.join(f'COALESCE(l.{name},t.{name})' for name in STATE_COLUMNS)},COALESCE(l.due_us,t.completed_us),"
    "l.last_lost_us,l.prior_lost_us,t.completed_us,t.moved_due_us,r.result_json,r.error_json"
    " FROM task t LEFT JOIN task_live l ON l.id=t.id"
    " LEFT JOIN task_result r ON r.task_id=t.id AND (t.status<>0 OR l.retry_count>0)"
)
_PLAIN = TaskResult()
_SPEC_END = len(SPEC_COLUMNS)


def spec_row(task: Task) -> tuple[Any, ...]:
    spec = task.spec
    return (
        spec.id,
        task.state.priority,
        to_us(spec.created_at),
        to_us(spec.scheduled_at),
        duration_us(spec.timeout),
        spec.rerun_of or 0,
        spec.tenant_id,
        spec.type,
        spec.name,
        "" if spec.retry is STANDARD_RETRY else retry_to_json(spec.retry),
        None if spec.retry is STANDARD_RETRY else rules_to_json(spec.retry),
        msgspec.json.encode(spec.metadata).decode() if spec.metadata else None,
        spec.payload,
    )


def step_row(step: Transition) -> tuple[int, ...]:
    """What a transition writes into the live row: id, the version it starts from, then CHANGING_COLUMNS."""
    state = step.after
    return (
        state.id,
        step.before.version,
        state.version,
        STATUS_CODES[state.status],
        state.priority,
        state.attempt,
        state.retry_count,
        to_us(state.due_at),
        to_us(state.started_at),
        state.worker_id or 0,
        state.term,
        to_us(state.last_lost_at),
        to_us(state.prior_lost_at),
    )


def new_live_row(state: TaskState) -> tuple[Any, ...]:
    """The live row of a task that has made no step yet, in the order of NEW_LIVE_COLUMNS."""
    return (state.id, STATUS_CODES[state.status], state.priority, to_us(state.due_at), state.tenant_id)


def amended_row(state: TaskState) -> tuple[int, int]:
    """What a task's own row keeps of where it stands while it waits: AMENDED_COLUMNS."""
    return state.priority, to_us(state.moved_due_at)


def final_row(state: TaskState) -> tuple[int, ...]:
    """What the end of a task writes into its own row: its id, then FINAL_COLUMNS."""
    return (
        state.id,
        STATUS_CODES[state.status],
        state.version,
        state.attempt,
        state.retry_count,
        state.worker_id or 0,
        state.term,
        to_us(state.started_at),
        to_us(state.completed_at),
    )


def result_rows(steps: Sequence[Transition]) -> list[tuple[Any, ...]]:
    """Rows for the steps that have something to tell, or something older to overwrite."""
    rows: list[tuple[Any, ...]] = []
    for step in steps:
        has_news = step.error is not None or (step.result is not None and step.result != _PLAIN)
        if not has_news and not (step.before.retry_count and step.after.status is SUCCESS):
            continue
        result = msgspec.json.encode(step.result).decode() if step.result is not None else None
        error = msgspec.json.encode(step.error).decode() if step.error is not None else None
        rows.append((step.task_id, step.after.tenant_id, STATUS_CODES[step.after.status], result, error))
    return rows


def to_live(row: Sequence[Any]) -> LiveTask:
    state = _live_state(row[:-2])
    return LiveTask(state=state, type=row[-2], timeout=duration_of(row[-1]))


def to_task(row: Sequence[Any]) -> Task:
    """Of SPEC_COLUMNS, STATE_COLUMNS, when it is due, was lost twice, ended and was moved to, its result and error."""
    spec = _spec(row[:_SPEC_END])
    state = _state(spec, priority=row[1], values=row[_SPEC_END:-2])
    result_json, error_json = row[-2:]
    result = msgspec.json.decode(result_json, type=TaskResult) if result_json else None
    error = msgspec.json.decode(error_json, type=TaskError) if error_json else None
    if state.status is SUCCESS and result is None:
        result = TaskResult()
    return Task(spec=spec, state=state, result=result, error=error)


def _spec(values: Sequence[Any]) -> TaskSpec:
    # Without a star, which would make a list for every task.
    task_id, _, created, scheduled, timeout, rerun_of, tenant, task_type, name, retry, rules, metadata, payload = values
    return TaskSpec(
        id=task_id,
        tenant_id=tenant,
        type=task_type,
        name=name,
        payload=payload,
        metadata=msgspec.json.decode(metadata, type=dict[str, str]) if metadata else {},
        created_at=from_us(created),
        scheduled_at=find_us(scheduled),
        timeout=duration_of(timeout),
        retry=retry_from_json(retry, rules) if retry else STANDARD_RETRY,
        rerun_of=TaskId(rerun_of) if rerun_of else None,
    )


def _live_state(values: Sequence[Any]) -> TaskState:
    task_id, version, status, priority, attempt, retries, due, started, worker, term, lost, prior, tenant, moved = (
        values
    )
    return TaskState(
        id=TaskId(task_id),
        tenant_id=TenantId(tenant),
        status=STATUS_OF[status],
        due_at=from_us(due),
        priority=priority,
        version=version,
        attempt=attempt,
        retry_count=retries,
        worker_id=WorkerId(worker) if worker else None,
        term=term,
        started_at=from_us(started) if started else None,
        last_lost_at=from_us(lost) if lost else None,
        prior_lost_at=from_us(prior) if prior else None,
        moved_due_at=from_us(moved) if moved else None,
    )


def _state(spec: TaskSpec, *, priority: int, values: Sequence[Any]) -> TaskState:
    version, status, attempt, retries, worker, term, started, due, lost, prior, completed, moved = values
    return TaskState(
        id=spec.id,
        tenant_id=spec.tenant_id,
        status=STATUS_OF[status],
        due_at=from_us(due),
        priority=priority,
        version=version,
        attempt=attempt,
        retry_count=retries,
        worker_id=WorkerId(worker) if worker else None,
        term=term,
        started_at=find_us(started),
        completed_at=find_us(completed),
        last_lost_at=find_us(lost or 0),  # no live row: None
        prior_lost_at=find_us(prior or 0),
        moved_due_at=find_us(moved),
    )


def retry_to_json(policy: RetryPolicy) -> str:
    values = (
        policy.max_retries,
        policy.strategy.value,
        duration_us(policy.delay),
        policy.backoff_rate,
        duration_us(policy.max_delay),
        policy.jitter,
    )
    return msgspec.json.encode(values).decode()


class _Rules(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a policy says beyond its numbers; apart, because a release before it reads those and knows nothing of it."""

    retry_on: tuple[str, ...] = ()
    give_up_on: tuple[str, ...] = ()
    total_timeout_us: int = 0


_NO_RULES = _Rules()


def rules_to_json(policy: RetryPolicy) -> str | None:
    """None where there are none."""
    if not (policy.retry_on or policy.give_up_on or policy.total_timeout):
        return None
    total_us = 0 if policy.total_timeout is None else duration_us(policy.total_timeout)
    return msgspec.json.encode(_Rules(policy.retry_on, policy.give_up_on, total_us)).decode()


@lru_cache(maxsize=1024)
def retry_from_json(text: str, rules_text: str | None) -> RetryPolicy:
    """The policy; the standard one is always the same object, of which `spec_row` need not write anything."""
    retries, strategy, delay_us, rate, max_delay_us, jitter = msgspec.json.decode(text)
    rules = msgspec.json.decode(rules_text, type=_Rules) if rules_text else _NO_RULES
    policy = RetryPolicy(
        max_retries=retries,
        strategy=RetryStrategy(strategy),
        delay=timedelta(microseconds=delay_us),
        backoff_rate=rate,
        max_delay=timedelta(microseconds=max_delay_us),
        jitter=jitter,
        retry_on=rules.retry_on,
        give_up_on=rules.give_up_on,
        total_timeout=timedelta(microseconds=rules.total_timeout_us) if rules.total_timeout_us else None,
    )
    return STANDARD_RETRY if policy == STANDARD_RETRY else policy
