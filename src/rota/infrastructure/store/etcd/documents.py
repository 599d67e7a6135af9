"""Tasks as documents: short, since etcd holds them all in memory; what has its usual value is left out."""

import msgspec

from rota.domain.attempt import TaskError, TaskResult
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.log import LogEntry, entry_for
from rota.domain.task import (
    BLOCKED,
    PROCESSING,
    SUCCESS,
    Task,
    TaskSpec,
    TaskState,
    TaskStatus,
    Transition,
)
from rota.infrastructure.instants import find_us, from_us, to_us
from rota.infrastructure.store.etcd.space import KV, id_of


class StateDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    status: TaskStatus
    due_us: int
    tenant: str = DEFAULT_TENANT
    priority: int = 0
    version: int = 1
    attempt: int = 0
    retry_count: int = 0
    worker_id: int = 0
    term: int = 0
    started_us: int = 0
    completed_us: int = 0
    last_lost_us: int = 0
    prior_lost_us: int = 0
    moved_due_us: int = 0


class ResultDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a task; its log entry is here too."""

    state: StateDocument
    log: LogEntry
    result: TaskResult | None = None
    error: TaskError | None = None


_STATE = msgspec.json.Decoder(StateDocument)
_RESULT = msgspec.json.Decoder(ResultDocument)
_ERROR = msgspec.json.Decoder(TaskError)
_LOG = msgspec.json.Decoder(LogEntry)
encode = msgspec.json.encode


def state_document(state: TaskState) -> StateDocument:
    return StateDocument(
        status=state.status,
        due_us=to_us(state.due_at),
        tenant=state.tenant_id,
        priority=state.priority,
        version=state.version,
        attempt=state.attempt,
        retry_count=state.retry_count,
        worker_id=state.worker_id or 0,
        term=state.term,
        started_us=to_us(state.started_at),
        completed_us=to_us(state.completed_at),
        last_lost_us=to_us(state.last_lost_at),
        prior_lost_us=to_us(state.prior_lost_at),
        moved_due_us=to_us(state.moved_due_at),
    )


def result_document(step: Transition) -> bytes:
    return encode(ResultDocument(state_document(step.after), entry_for(step), step.result, step.error))


def read_state(kv: KV) -> TaskState:
    return to_state(id_of(kv), _STATE.decode(kv.value))


def read_result(kv: KV) -> ResultDocument:
    return _RESULT.decode(kv.value)


def read_entry(kv: KV) -> LogEntry:
    return _LOG.decode(kv.value)


def to_state(task_id: TaskId, document: StateDocument) -> TaskState:
    return TaskState(
        id=task_id,
        tenant_id=TenantId(document.tenant),
        status=document.status,
        due_at=from_us(document.due_us),
        priority=document.priority,
        version=document.version,
        attempt=document.attempt,
        retry_count=document.retry_count,
        worker_id=WorkerId(document.worker_id) if document.worker_id else None,
        term=document.term,
        started_at=find_us(document.started_us),
        completed_at=find_us(document.completed_us),
        last_lost_at=find_us(document.last_lost_us),
        prior_lost_at=find_us(document.prior_lost_us),
        moved_due_at=find_us(document.moved_due_us),
    )


def to_task(spec: TaskSpec, *, state: TaskState | None, result: KV | None, error: KV | None) -> Task | None:
    """The task as its documents say, with its state unless it has ended; None: it is half gone, a purge is at work."""
    last = None if error is None else _ERROR.decode(error.value)
    if state is not None:
        return Task(spec=spec, state=state, error=last)
    if result is None:
        return None
    end = read_result(result)
    state = to_state(spec.id, end.state)
    is_well = state.status is SUCCESS
    return Task(spec=spec, state=state, result=end.result, error=None if is_well else end.error or last)


def place_in_time(state: TaskState) -> str:
    """Which of the lists by time a live task is in."""
    return {PROCESSING: "r", BLOCKED: "b"}.get(state.status, "w")


def mark(state: TaskState) -> bytes:
    """What the key by time says: enough to know this very step of the task by, and to count."""
    return f"{state.version} {state.status} {state.worker_id or 0} {state.tenant_id}".encode()
