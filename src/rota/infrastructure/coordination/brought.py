"""What a task that was just added brings along to its queue, as text (ADR-0017): a JSON array of what is not the same
for every such task."""

from datetime import timedelta

import msgspec

from rota.domain.ids import TaskId, TenantId
from rota.domain.task import PENDING, LiveTask, TaskState
from rota.infrastructure.instants import duration_us, from_us, to_us

_ADDED = msgspec.json.Decoder(tuple[str, str, int, int, int])


def to_brought(added: LiveTask) -> bytes:
    state = added.state
    values = (state.tenant_id, added.type, state.priority, to_us(state.due_at), duration_us(added.timeout))
    return msgspec.json.encode(values)


def find_brought(task_id: TaskId, text: bytes) -> LiveTask | None:
    """The task, unless another release or a stranger wrote this."""
    try:
        tenant, task_type, priority, due_us, timeout_us = _ADDED.decode(text)
        state = TaskState(
            id=task_id, tenant_id=TenantId(tenant), status=PENDING, due_at=from_us(due_us), priority=priority
        )
        return LiveTask(state=state, type=task_type, timeout=timedelta(microseconds=timeout_us))
    except (msgspec.DecodeError, OverflowError, ValueError):
        return None
