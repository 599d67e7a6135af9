"""What was asked of a task as a JSON document, for stores that keep it so; what has its usual value is left out."""

from collections.abc import Mapping

import msgspec

from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId
from rota.domain.log import LogEntry, first_entry
from rota.domain.retry import STANDARD_RETRY, RetryPolicy
from rota.domain.submission import NewTask
from rota.domain.task import DEFAULT_TIMEOUT, PENDING, LiveTask, Task, TaskSpec, TaskState, TaskStatus
from rota.infrastructure.instants import duration_of, duration_us, find_us, from_us, to_us

LONG_PAYLOAD = 4096  # characters: kept apart, where nobody reads it who does not need it


class SpecDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    created_us: int
    tenant: str = DEFAULT_TENANT
    name: str = ""
    payload: str | None = "{}"  # None: it is kept apart
    metadata: Mapping[str, str] = {}
    scheduled_us: int = 0
    timeout_us: int = duration_us(DEFAULT_TIMEOUT)
    retry: RetryPolicy | None = None  # None: the standard one
    rerun_of: int = 0
    key: str | None = None
    first_status: TaskStatus = PENDING  # what it began with, as its first log entry says
    first_version: int = 1


_DECODER = msgspec.json.Decoder(SpecDocument)


def read_spec(document: bytes) -> SpecDocument:
    return _DECODER.decode(document)


def write_spec(new: NewTask, *, is_apart: bool) -> bytes:
    spec, state = new.task.spec, new.task.state
    document = SpecDocument(
        type=spec.type,
        created_us=to_us(spec.created_at),
        tenant=spec.tenant_id,
        name=spec.name,
        payload=None if is_apart else spec.payload,
        metadata=spec.metadata,
        scheduled_us=to_us(spec.scheduled_at),
        timeout_us=duration_us(spec.timeout),
        retry=None if spec.retry == STANDARD_RETRY else spec.retry,
        rerun_of=spec.rerun_of or 0,
        key=new.key,
        first_status=state.status,
        first_version=state.version,
    )
    return msgspec.json.encode(document)


def to_spec(task_id: TaskId, document: SpecDocument, *, apart: bytes | None) -> TaskSpec:
    """The spec, with the payload that is kept apart; without it, an empty one."""
    kept = "{}" if apart is None else apart.decode()
    return TaskSpec(
        id=task_id,
        type=document.type,
        created_at=from_us(document.created_us),
        tenant_id=TenantId(document.tenant),
        name=document.name,
        payload=kept if document.payload is None else document.payload,
        metadata=document.metadata,
        scheduled_at=find_us(document.scheduled_us),
        timeout=duration_of(document.timeout_us),
        retry=document.retry or STANDARD_RETRY,
        rerun_of=TaskId(document.rerun_of) if document.rerun_of else None,
    )


def to_live(state: TaskState, document: SpecDocument) -> LiveTask:
    return LiveTask(state=state, type=document.type, timeout=duration_of(document.timeout_us))


def creation_entry(task_id: TaskId, document: SpecDocument) -> LogEntry:
    """The first log entry of a task, which follows from what it was made of."""
    spec = to_spec(task_id, document, apart=None)
    state = TaskState(
        id=task_id,
        tenant_id=spec.tenant_id,
        status=document.first_status,
        due_at=spec.created_at,
        version=document.first_version,
    )
    return first_entry(Task(spec=spec, state=state))
