"""From the JSON of a task to the view of it that embedded programs get too."""

from datetime import timedelta

from rota.client.call import decode
from rota.sdk.views import ErrorView, ProgressView, ResultView, TaskView
from rota.wire.base import Page
from rota.wire.task import Task


def read_task(body: bytes) -> TaskView:
    return view_of(decode(body, Task))


def read_tasks(body: bytes) -> Page[TaskView]:
    page = decode(body, Page[Task])
    return Page(items=[view_of(task) for task in page.items], next_cursor=page.next_cursor)


def view_of(task: Task) -> TaskView:
    result, error, progress = task.result, task.error, task.progress
    return TaskView(
        id=task.id,
        tenant=task.tenant,
        type=task.type,
        name=task.name,
        status=task.status,
        priority=task.priority,
        payload=task.payload,
        metadata=task.metadata,
        attempt=task.attempt,
        retry_count=task.retry_count,
        max_retries=task.max_retries,
        timeout=timedelta(seconds=task.timeout_seconds),
        worker_id=task.worker_id,
        scheduled_at=task.scheduled_at,
        created_at=task.created_at,
        started_at=task.started_at,
        completed_at=task.completed_at,
        next_attempt_at=task.next_attempt_at,
        result=None if result is None else ResultView(code=result.code, message=result.message, data=result.data),
        error=None
        if error is None
        else ErrorView(code=error.code, message=error.message, detail=error.detail, retryable=error.retryable),
        rerun_of=task.rerun_of,
        progress=None if progress is None else ProgressView(fraction=progress.fraction, message=progress.message),
        truncated=tuple(task.truncated),
    )
