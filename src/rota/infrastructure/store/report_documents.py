"""What stores have in common of reports: sums and lists of ids as JSON, and what is known of a task."""

from collections.abc import Sequence
from itertools import accumulate

import msgspec

from rota.domain.ids import TaskId
from rota.domain.rollup import POISON, Figures, TaskFacts
from rota.domain.task import FAILED, Task
from rota.infrastructure.instants import to_us

_FIGURES = msgspec.json.Decoder(Figures)
_IDS = msgspec.json.Decoder(list[int])
write_figures = msgspec.json.encode


def read_figures(written: str | bytes) -> Figures:
    return _FIGURES.decode(written)


def write_ids(ids: Sequence[TaskId]) -> bytes:
    """The first, and by how much each is greater than the one before: half as long."""
    return msgspec.json.encode([one - before for one, before in zip(ids, (0, *ids), strict=False)])


def read_ids(written: str | bytes) -> tuple[TaskId, ...]:
    return tuple(map(TaskId, accumulate(_IDS.decode(written))))


def facts_of(task: Task) -> TaskFacts:
    spec, state = task.spec, task.state
    return TaskFacts(
        id=task.id,
        tenant_id=spec.tenant_id,
        type=spec.type,
        status=state.status if state.status.is_final else None,
        created_us=to_us(spec.created_at),
        due_us=max(to_us(spec.created_at), to_us(task.scheduled_at)),
        started_us=to_us(state.started_at),
        completed_us=to_us(state.completed_at),
        attempt=state.attempt,
        retry_count=state.retry_count,
        is_quarantined=state.status is FAILED and task.error is not None and task.error.code == POISON,
    )
