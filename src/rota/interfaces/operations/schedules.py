"""Operations on schedules: when they fire, and what became of their targets."""

from rota.domain.access import Role
from rota.domain.checks import check_name
from rota.domain.schedule_form import schedule_from
from rota.interfaces.operations import render
from rota.interfaces.operations.configs import ABSENT
from rota.interfaces.operations.operation import Call, NoQuery, Operation, Reply
from rota.interfaces.operations.queries import OccurrencesQuery, PreviewQuery
from rota.wire.base import Page
from rota.wire.schedule import Occurrence, PreviewSchedule, SchedulePreview


async def preview_config(call: Call[PreviewQuery, None]) -> Reply:
    found = await call.services.schedules.preview(call.tenant_id, call.task_type, count=call.query.count)
    return Reply(200, render.preview_answer(found))


async def preview_schedule(call: Call[NoQuery, PreviewSchedule]) -> Reply:
    task_type = check_name("type", call.body.type) if call.body.type else ""
    schedule = schedule_from(call.body.schedule)
    found = call.services.schedules.preview_unsaved(schedule, task_type, count=call.body.count)
    return Reply(200, render.preview_answer(found))


async def list_occurrences(call: Call[OccurrencesQuery, None]) -> Reply:
    found = await call.services.schedules.list_occurrences(call.tenant_id, call.task_type, limit=call.query.limit)
    return Reply(200, Page[Occurrence](items=[render.occurrence_answer(one) for one in found]))


OPERATIONS = (
    Operation(
        name="preview_config",
        method="GET",
        path="/task-configs/{type}/schedule",
        summary="Say when the schedule of a type fires: in words, and its targets before and after now.",
        role=Role.VIEWER,
        handler=preview_config,
        query=PreviewQuery,
        answers={200: SchedulePreview},
        errors=(ABSENT, "schedule_not_found"),
    ),
    Operation(
        name="list_occurrences",
        method="GET",
        path="/task-configs/{type}/occurrences",
        summary="List what became of the targets of a schedule, newest first.",
        role=Role.VIEWER,
        handler=list_occurrences,
        query=OccurrencesQuery,
        answers={200: Page[Occurrence]},
        errors=(ABSENT,),
    ),
    Operation(
        name="preview_schedule",
        method="POST",
        path="/schedules:preview",
        summary="Say when a schedule would fire that is not stored.",
        role=Role.VIEWER,
        handler=preview_schedule,
        body=PreviewSchedule,
        answers={200: SchedulePreview},
    ),
)
