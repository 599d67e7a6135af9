"""Operations on schedules: when they fire, and what became of their targets."""

from rota.domain.access import Role
from rota.domain.checks import check_name
from rota.domain.schedule_form import schedule_from
from rota.interfaces.operations import render
from rota.interfaces.operations.configs import ABSENT
from rota.interfaces.operations.operation import Call, NoBody, NoQuery, Operation, Reply
from rota.interfaces.operations.queries import OccurrencesQuery, PreviewQuery
from rota.wire.base import Page
from rota.wire.config import TaskConfig
from rota.wire.schedule import Occurrence, PauseSchedule, PreviewSchedule, SchedulePreview


async def preview_config(call: Call[PreviewQuery, None]) -> Reply:
    query = call.query
    found = await call.services.schedules.preview(call.tenant_id, call.task_type, count=query.count, after=query.after)
    return Reply(200, render.preview_answer(found))


async def preview_schedule(call: Call[NoQuery, PreviewSchedule]) -> Reply:
    task_type = check_name("type", call.body.type) if call.body.type else ""
    schedule = schedule_from(call.body.schedule)
    key = (call.tenant_id, task_type)
    found = await call.services.schedules.preview_unsaved(schedule, key, count=call.body.count, after=call.body.after)
    return Reply(200, render.preview_answer(found))


async def pause_schedule(call: Call[NoQuery, PauseSchedule]) -> Reply:
    configs, note = call.services.configs, call.body.note
    stored = await configs.pause_schedule(call.tenant_id, call.task_type, note=note, actor=call.actor)
    return Reply(200, render.config_answer(stored))


async def resume_schedule(call: Call[NoQuery, NoBody]) -> Reply:
    stored = await call.services.configs.resume_schedule(call.tenant_id, call.task_type, actor=call.actor)
    return Reply(200, render.config_answer(stored))


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
        name="pause_schedule",
        method="POST",
        path="/task-configs/{type}/schedule:pause",
        summary="Let a schedule fire nothing, with a note why; tasks of the type are accepted as before.",
        role=Role.OPERATOR,
        handler=pause_schedule,
        body=PauseSchedule,
        needs_body=False,
        answers={200: TaskConfig},
        errors=(ABSENT, "schedule_not_found", "conflict"),
    ),
    Operation(
        name="resume_schedule",
        method="POST",
        path="/task-configs/{type}/schedule:resume",
        summary="Let a schedule fire again, whoever paused it.",
        role=Role.OPERATOR,
        handler=resume_schedule,
        body=NoBody,
        needs_body=False,
        answers={200: TaskConfig},
        errors=(ABSENT, "schedule_not_found", "conflict"),
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
