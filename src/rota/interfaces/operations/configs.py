"""Operations on task configs."""

from rota.domain.access import Role
from rota.interfaces.operations import read, render
from rota.interfaces.operations.operation import Call, NoBody, NoQuery, Operation, Reply
from rota.interfaces.operations.queries import ListQuery, RevisionsQuery
from rota.interfaces.operations.tasks import reply_created
from rota.wire import config as wire
from rota.wire.base import Page
from rota.wire.task import Task


async def list_configs(call: Call[ListQuery, None]) -> Reply:
    limit, after = call.query.limit, read.text_cursor(call.query.cursor)
    found = await call.services.configs.list_page(call.tenant_id, after=after, limit=limit)
    following = read.cursor_after(found, limit, place=lambda config: config.type)
    items = [render.config_answer(config) for config in found]
    return Reply(200, Page[wire.TaskConfig](items=items, next_cursor=following))


async def get_config(call: Call[NoQuery, None]) -> Reply:
    return Reply(200, render.config_answer(await call.services.configs.get(call.tenant_id, call.task_type)))


async def put_config(call: Call[NoQuery, wire.PutConfig]) -> Reply:
    wanted = read.task_config(call.body, task_type=call.task_type, tenant_id=call.tenant_id)
    stored = await call.services.configs.put(wanted, expected_revision=call.body.revision, actor=call.actor)
    return Reply(201 if stored.revision == 1 else 200, render.config_answer(stored))


async def check_config(call: Call[NoQuery, wire.PutConfig]) -> Reply:
    wanted = read.task_config(call.body, task_type=call.task_type, tenant_id=call.tenant_id)
    checked = await call.services.configs.check_put(wanted, expected_revision=call.body.revision)
    return Reply(200, render.config_answer(checked))


async def delete_config(call: Call[NoQuery, None]) -> Reply:
    await call.services.configs.delete(call.tenant_id, call.task_type, actor=call.actor)
    return Reply(204)


async def pause_config(call: Call[NoQuery, NoBody]) -> Reply:
    stored = await call.services.configs.pause(call.tenant_id, call.task_type, actor=call.actor)
    return Reply(200, render.config_answer(stored))


async def resume_config(call: Call[NoQuery, NoBody]) -> Reply:
    stored = await call.services.configs.resume(call.tenant_id, call.task_type, actor=call.actor)
    return Reply(200, render.config_answer(stored))


async def list_revisions(call: Call[RevisionsQuery, None]) -> Reply:
    found = await call.services.configs.list_revisions(call.tenant_id, call.task_type, limit=call.query.limit)
    return Reply(200, Page[wire.TaskConfig](items=[render.config_answer(config) for config in found]))


async def roll_back_config(call: Call[NoQuery, wire.RollBackConfig]) -> Reply:
    body, key = call.body, (call.tenant_id, call.task_type)
    stored = await call.services.configs.roll_back(
        key, body.revision, expected_revision=body.expected_revision, actor=call.actor
    )
    return Reply(200, render.config_answer(stored))


async def trigger_config(call: Call[NoQuery, wire.TriggerTask]) -> Reply:
    wish = read.trigger(call.body, task_type=call.task_type, tenant_id=call.tenant_id, key=call.idempotency_key)
    return reply_created(await call.services.configs.trigger(wish, actor=call.actor))


ABSENT = "task_config_not_found"
OPERATIONS = (
    Operation(
        name="list_configs",
        method="GET",
        path="/task-configs",
        summary="List the task configs by type.",
        role=Role.VIEWER,
        handler=list_configs,
        query=ListQuery,
        answers={200: Page[wire.TaskConfig]},
    ),
    Operation(
        name="get_config",
        method="GET",
        path="/task-configs/{type}",
        summary="Get the config of a type.",
        role=Role.VIEWER,
        handler=get_config,
        answers={200: wire.TaskConfig},
        errors=(ABSENT,),
    ),
    Operation(
        name="put_config",
        method="PUT",
        path="/task-configs/{type}",
        summary="Create or replace the config of a type.",
        role=Role.ADMIN,
        handler=put_config,
        body=wire.PutConfig,
        answers={200: wire.TaskConfig, 201: wire.TaskConfig},
        errors=("revision_conflict",),
    ),
    Operation(
        name="check_config",
        method="POST",
        path="/task-configs/{type}:check",
        summary="Refuse a config for whatever would keep it from being stored; nothing is changed.",
        role=Role.VIEWER,
        handler=check_config,
        body=wire.PutConfig,
        answers={200: wire.TaskConfig},
        errors=("revision_conflict",),
    ),
    Operation(
        name="delete_config",
        method="DELETE",
        path="/task-configs/{type}",
        summary="Delete the config of a type; its tasks stay.",
        role=Role.ADMIN,
        handler=delete_config,
        answers={204: None},
        errors=(ABSENT,),
    ),
    Operation(
        name="pause_config",
        method="POST",
        path="/task-configs/{type}:pause",
        summary="Accept no new tasks of a type; those that are there go on.",
        role=Role.OPERATOR,
        handler=pause_config,
        body=NoBody,
        needs_body=False,
        answers={200: wire.TaskConfig},
        errors=(ABSENT, "conflict"),
    ),
    Operation(
        name="resume_config",
        method="POST",
        path="/task-configs/{type}:resume",
        summary="Accept tasks of a type again.",
        role=Role.OPERATOR,
        handler=resume_config,
        body=NoBody,
        needs_body=False,
        answers={200: wire.TaskConfig},
        errors=(ABSENT, "conflict"),
    ),
    Operation(
        name="list_revisions",
        method="GET",
        path="/task-configs/{type}/revisions",
        summary="List what a type was defined as, newest first, also if it was deleted since.",
        role=Role.VIEWER,
        handler=list_revisions,
        query=RevisionsQuery,
        answers={200: Page[wire.TaskConfig]},
        errors=(ABSENT,),
    ),
    Operation(
        name="roll_back_config",
        method="POST",
        path="/task-configs/{type}:rollback",
        summary="Define a type as it was in an earlier revision; one that was deleted is there again.",
        role=Role.ADMIN,
        handler=roll_back_config,
        body=wire.RollBackConfig,
        answers={200: wire.TaskConfig},
        errors=("task_config_revision_not_found", "revision_conflict"),
    ),
    Operation(
        name="trigger_config",
        method="POST",
        path="/task-configs/{type}:trigger",
        summary="Create a task of a type now, with its own payload or another one.",
        role=Role.OPERATOR,
        handler=trigger_config,
        body=wire.TriggerTask,
        needs_body=False,
        answers={201: Task, 200: Task},
        errors=(ABSENT, "idempotency_mismatch"),
        takes_key=True,
    ),
)
