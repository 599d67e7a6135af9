"""Objects for tests: sound by default, and every field can be set by keyword.

    a_task(7, type="report", state=a_state(7, priority=URGENT))

Ids are given by the caller, so that a test shows which task it means.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from rota.domain.access import AccessToken, Role, digest_of
from rota.domain.attempt import Attempt, TaskError
from rota.domain.audit import AuditEntry
from rota.domain.ids import DEFAULT_TENANT, TaskId, WorkerId
from rota.domain.priority import NORMAL
from rota.domain.queue import QueueEntry
from rota.domain.submission import NewTask, Submission
from rota.domain.task import PENDING, LiveTask, Task, TaskSpec, TaskState
from rota.domain.task_config import TaskConfig
from rota.domain.worker import Worker
from rota.testing.values import replace

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
EMAIL = "email"


def a_config(task_type: str = EMAIL, **changes: Any) -> TaskConfig:
    return replace(TaskConfig(type=task_type), **changes)


def a_submission(**changes: Any) -> Submission:
    return replace(Submission(type=EMAIL), **changes)


def a_spec(task_id: int = 1, **changes: Any) -> TaskSpec:
    return replace(TaskSpec(id=TaskId(task_id), type=EMAIL, created_at=NOW), **changes)


def a_state(task_id: int = 1, **changes: Any) -> TaskState:
    """A task that waits and is due."""
    return replace(TaskState(id=TaskId(task_id), status=PENDING, due_at=NOW), **changes)


def a_running_state(task_id: int = 1, *, worker_id: int = 1, **changes: Any) -> TaskState:
    """A task whose next attempt was granted a moment ago."""
    waiting = a_state(task_id, **changes)
    return waiting.granted(WorkerId(worker_id), term=1, at=NOW, timeout=MINUTE).after


def a_task(task_id: int = 1, *, state: TaskState | None = None, **spec: Any) -> Task:
    """A whole task; other keywords are fields of its `TaskSpec`."""
    asked = a_spec(task_id, **spec)
    return Task(spec=asked, state=state or a_state(task_id, tenant_id=asked.tenant_id))


def a_new_task(task_id: int = 1, *, key: str | None = None, digest: str = "", **spec: Any) -> NewTask:
    """A task that is yet to be added."""
    return NewTask(a_task(task_id, **spec), key, digest)


def a_live_task(task_id: int = 1, *, state: TaskState | None = None, **changes: Any) -> LiveTask:
    task = a_task(task_id, state=state)
    return replace(LiveTask(state=task.state, type=task.spec.type, timeout=task.spec.timeout), **changes)


def an_entry(task_id: int = 1, **changes: Any) -> QueueEntry:
    """A task in the queue, of normal priority and ready."""
    return replace(QueueEntry(TaskId(task_id), NORMAL), **changes)


def a_worker(worker_id: int = 1, **changes: Any) -> Worker:
    return replace(Worker(id=WorkerId(worker_id), name=f"worker-{worker_id}"), **changes)


def a_token(token_id: str, **changes: Any) -> AccessToken:
    """A token that is good, of a secret that nobody knows."""
    token = AccessToken(
        id=token_id,
        tenant_id=DEFAULT_TENANT,
        name=f"token {token_id}",
        role=Role.OPERATOR,
        digest=digest_of(f"secret {token_id}"),
        created_at=NOW,
    )
    return replace(token, **changes)


def an_audit_entry(entry_id: int = 1, **changes: Any) -> AuditEntry:
    entry = AuditEntry(
        id=entry_id, tenant_id=DEFAULT_TENANT, at=NOW, actor="ada", action="task.cancel", object=str(entry_id)
    )
    return replace(entry, **changes)


def an_attempt(state: TaskState) -> Attempt:
    """The attempt that a running task was granted."""
    assert state.worker_id is not None, f"task {state.id} is {state.status}: it has no attempt now"
    return Attempt(state.id, state.attempt, state.worker_id)


def an_error(code: str = "boom", **changes: Any) -> TaskError:
    return replace(TaskError(code, "it did not work"), **changes)
