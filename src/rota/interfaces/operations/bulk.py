"""Operations on all tasks that match a filter."""

from typing import Any

from rota.application.bulk import BulkOutcome, Selection
from rota.domain.access import Role
from rota.domain.ids import TaskId, parse_id
from rota.domain.priority import parse_priority
from rota.interfaces.operations import read
from rota.interfaces.operations.operation import Call, NoQuery, Operation, Reply
from rota.wire import task as wire


async def cancel_tasks(call: Call[NoQuery, wire.TaskSelection]) -> Reply:
    bulk = call.services.bulk
    return _reply(await bulk.cancel(_selection(call), reason=call.body.reason, actor=call.actor))


async def retry_tasks(call: Call[NoQuery, wire.TaskSelection]) -> Reply:
    return _reply(await call.services.bulk.retry(_selection(call), key=call.idempotency_key, actor=call.actor))


async def reprioritise_tasks(call: Call[NoQuery, wire.ReprioritiseTasks]) -> Reply:
    level = parse_priority(call.body.new_priority, field="new_priority")
    return _reply(await call.services.bulk.reprioritise(_selection(call), level, actor=call.actor))


def _selection(call: Call[NoQuery, Any]) -> Selection:
    wanted = read.selection_filter(call.body, call.tenant_id)
    ids = [TaskId(parse_id(f"ids[{place}]", text)) for place, text in enumerate(call.body.ids)]
    return Selection(wanted, tuple(ids))


def _reply(outcome: BulkOutcome) -> Reply:
    following = None if outcome.next_before is None else read.write_cursor(outcome.next_before)
    counted = wire.BulkCount(
        matched=outcome.matched,
        changed=outcome.changed,
        skipped=outcome.skipped,
        has_more=following is not None,
        next_cursor=following,
    )
    return Reply(200, counted)


OPERATIONS = (
    Operation(
        name="cancel_tasks",
        method="POST",
        path="/tasks:cancel",
        summary="Cancel all tasks that match and have not ended, up to 10,000 in one call.",
        role=Role.OPERATOR,
        handler=cancel_tasks,
        body=wire.TaskSelection,
        answers={200: wire.BulkCount},
        errors=("conflict",),
    ),
    Operation(
        name="retry_tasks",
        method="POST",
        path="/tasks:retry",
        summary="Do the work of all ended tasks that match again, up to 10,000 in one call; "
        "without `status`, of those that are FAILED or TIMEOUT.",
        role=Role.OPERATOR,
        handler=retry_tasks,
        body=wire.TaskSelection,
        answers={200: wire.BulkCount},
        errors=("conflict", "idempotency_mismatch"),
        takes_key=True,
    ),
    Operation(
        name="reprioritise_tasks",
        method="POST",
        path="/tasks:reprioritise",
        summary="Change how urgent all tasks that match and have not begun are, up to 10,000 in one call.",
        role=Role.OPERATOR,
        handler=reprioritise_tasks,
        body=wire.ReprioritiseTasks,
        answers={200: wire.BulkCount},
        errors=("conflict",),
    ),
)
