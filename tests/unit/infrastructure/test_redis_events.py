"""Events as they travel through Redis."""

from datetime import UTC, datetime

import msgspec

from rota.domain.events import Event, EventKind
from rota.domain.ids import TaskId, TenantId, WorkerId
from rota.domain.log import Progress
from rota.domain.task import PROCESSING, SUCCESS
from rota.infrastructure.coordination.redis.signals import _to_json, _to_wire

AT = datetime(2026, 1, 1, 12, 0, 0, 250, tzinfo=UTC)


def test_what_a_batch_shares_is_written_once_and_reads_as_if_each_was_written_by_itself() -> None:
    done = EventKind.TASK_COMPLETED
    events = [
        Event(kind=done, at=AT, task_id=TaskId(1), task_type="a", status=SUCCESS, attempt=1, worker_id=WorkerId(7)),
        Event(kind=done, at=AT, task_id=TaskId(2), task_type="a", status=SUCCESS, attempt=1, worker_id=WorkerId(7)),
        Event(kind=done, at=AT, task_id=TaskId(4), task_type="a", status=SUCCESS, attempt=1, worker_id=WorkerId(8)),
        Event(kind=done, at=AT, task_id=TaskId(5), task_type="a", status=SUCCESS, attempt=1),
        Event(kind=done, at=AT, task_id=TaskId(6), task_type='"worker_id":""', worker_id=WorkerId(2**62)),
        Event(kind=done, at=AT, task_id=TaskId(2**62), task_type='"task_id":""', tenant_id=TenantId("x")),
        Event(kind=done, at=AT, task_id=TaskId(7), task_type="%d %", tenant_id=TenantId("%s"), worker_id=WorkerId(1)),
        Event(kind=done, at=AT, task_id=TaskId(8), task_type="?", tenant_id=TenantId("%s"), worker_id=WorkerId(1)),
        Event(kind=done, at=AT, task_id=TaskId(9)),
        Event(
            kind=EventKind.TASK_PROGRESS, at=AT, task_id=TaskId(3), status=PROCESSING, progress=Progress(0.5, "half")
        ),
        Event(kind=EventKind.WORKER_ONLINE, at=AT, worker_id=WorkerId(7)),
    ]
    assert _to_json(events) == msgspec.json.encode([_to_wire(event) for event in events])
