"""Between log entries and their rows."""

from collections.abc import Sequence
from typing import Any

from rota.domain.ids import TaskId, TenantId, WorkerId
from rota.domain.log import LINE_BITS, LogEntry
from rota.domain.task import LogKind, Task, Transition
from rota.infrastructure.database.codes import KIND_CODES, KIND_OF, STATUS_CODES, STATUS_OF
from rota.infrastructure.instants import from_us, to_us

STATE_CHANGE = KIND_CODES[LogKind.STATE_CHANGE]
FIRST_SEQ = 1 << LINE_BITS  # of a task that is at its first version
LOG_COLUMNS = (
    "task_id",
    "seq",
    "kind",
    "from_status",
    "to_status",
    "attempt",
    "worker_id",
    "at_us",
    "tenant_id",
    "message",
    "detail",
)


def creation_row(task: Task) -> tuple[Any, ...]:
    """The row of a task's creation."""
    state = task.state
    at_us = to_us(task.spec.created_at)
    code = STATUS_CODES[state.status]
    return (state.id, state.version << LINE_BITS, STATE_CHANGE, 0, code, 0, 0, at_us, state.tenant_id, None, None)


def transition_row(step: Transition) -> tuple[Any, ...]:
    """The row of `entry_for(step)`, without making the entry: this runs for every step of every task."""
    before, after = step.before, step.after
    return (
        after.id,
        after.version << LINE_BITS,
        KIND_CODES[step.kind],
        STATUS_CODES[before.status],
        STATUS_CODES[after.status],
        after.attempt,
        after.worker_id or before.worker_id or 0,
        to_us(step.at),
        after.tenant_id,
        step.message or None,
        step.error.detail or None if step.error is not None else None,
    )


def entry_row(entry: LogEntry) -> tuple[Any, ...]:
    return (
        entry.task_id,
        entry.seq,
        KIND_CODES[entry.kind],
        STATUS_CODES[entry.from_status] if entry.from_status else 0,
        STATUS_CODES[entry.to_status] if entry.to_status else 0,
        entry.attempt,
        entry.worker_id or 0,
        to_us(entry.at),
        entry.tenant_id,
        entry.message or None,
        entry.detail or None,
    )


def to_entry(row: Sequence[Any]) -> LogEntry:
    task_id, seq, kind, before, after, attempt, worker_id, at_us, tenant_id, message, detail = row
    return LogEntry(
        task_id=TaskId(task_id),
        tenant_id=TenantId(tenant_id),
        seq=seq,
        kind=KIND_OF[kind],
        at=from_us(at_us),
        from_status=STATUS_OF.get(before),
        to_status=STATUS_OF.get(after),
        attempt=attempt,
        worker_id=WorkerId(worker_id) if worker_id else None,
        message=message or "",
        detail=detail or "",
    )
