"""A task as people and programs see it: the same fields as in the HTTP API, with Python values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rota.domain.attempt import TaskError, TaskResult
from rota.domain.log import Progress
from rota.domain.task import RETRYING, Task, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """What a successful task returned."""

    code: int
    message: str
    data: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorView:
    """Why the last attempt did not succeed."""

    code: str
    message: str
    detail: str
    retryable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    """How far an attempt got, by its own word."""

    fraction: float
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """One task, as it was when it was read. `progress`: of one that runs, when it is asked for by its id.

    `truncated`: what a list left out or cut short, such as `payload`; the task by its id has it all."""

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
    timeout: timedelta
    worker_id: str | None
    scheduled_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    next_attempt_at: datetime | None
    result: ResultView | None
    error: ErrorView | None
    rerun_of: str | None
    progress: ProgressView | None = None
    truncated: tuple[str, ...] = ()


def view_of(task: Task, progress: Progress | None = None) -> TaskView:
    spec, state = task.spec, task.state
    return TaskView(
        id=str(spec.id),
        tenant=spec.tenant_id,
        type=spec.type,
        name=spec.name,
        status=state.status,
        priority=state.priority,
        payload=json.loads(spec.payload),
        metadata=spec.metadata,
        attempt=state.attempt,
        retry_count=state.retry_count,
        max_retries=spec.retry.max_retries,
        timeout=spec.timeout,
        worker_id=None if state.worker_id is None else str(state.worker_id),
        scheduled_at=task.scheduled_at,
        created_at=spec.created_at,
        started_at=state.started_at,
        completed_at=state.completed_at,
        next_attempt_at=state.due_at if state.status is RETRYING else None,
        result=_result(task.result),
        error=_error(task.error),
        rerun_of=None if spec.rerun_of is None else str(spec.rerun_of),
        progress=None if progress is None else ProgressView(fraction=progress.fraction, message=progress.message),
    )


def _result(result: TaskResult | None) -> ResultView | None:
    if result is None:
        return None
    data = None if result.data is None else json.loads(result.data)
    return ResultView(code=result.code, message=result.message, data=data)


def _error(error: TaskError | None) -> ErrorView | None:
    if error is None:
        return None
    return ErrorView(code=error.code, message=error.message, detail=error.detail, retryable=error.retryable)
