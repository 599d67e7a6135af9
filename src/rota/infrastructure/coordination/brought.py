"""What a task that was just added brings along to its queue, as text (ADR-0017): a JSON array of what is not the same
for every such task. It is the same for the tasks of a batch, so each text is written and read once."""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated

import msgspec

from rota.domain.ids import TaskId, TenantId
from rota.domain.priority import NORMAL, URGENT
from rota.domain.task import PENDING, LiveTask, TaskState
from rota.infrastructure.instants import duration_us, from_us, to_us

Brought = tuple[TenantId, str, int, datetime, timedelta]
Level = Annotated[int, msgspec.Meta(ge=NORMAL, le=URGENT)]
_ADDED = msgspec.json.Decoder(tuple[str, str, Level, int, int])


def to_brought(added: LiveTask) -> bytes:
    state = added.state
    return _spell((state.tenant_id, added.type, state.priority, state.due_at, added.timeout))


def find_brought(task_id: TaskId, text: bytes) -> LiveTask | None:
    """The task, unless another release or a stranger wrote this."""
    read = _read(text)
    if read is None:
        return None
    tenant_id, task_type, priority, due_at, timeout = read
    state = TaskState(id=task_id, tenant_id=tenant_id, status=PENDING, due_at=due_at, priority=priority)
    return LiveTask(state=state, type=task_type, timeout=timeout)


@lru_cache(maxsize=256)
def _spell(brought: Brought) -> bytes:
    tenant_id, task_type, priority, due_at, timeout = brought
    return msgspec.json.encode((tenant_id, task_type, priority, to_us(due_at), duration_us(timeout)))


@lru_cache(maxsize=256)
def _read(text: bytes) -> Brought | None:
    try:
        tenant, task_type, priority, due_us, timeout_us = _ADDED.decode(text)
        return TenantId(tenant), task_type, priority, from_us(due_us), timedelta(microseconds=timeout_us)
    except (msgspec.DecodeError, OverflowError, ValueError):
        return None
