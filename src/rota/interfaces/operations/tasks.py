"""Operations on single tasks, and on lists of them."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec

from rota.application.progress import find_progress
from rota.application.submit import MOST_AT_ONCE, Created
from rota.domain.access import Role
from rota.domain.errors import InvalidError, NotFoundError
from rota.domain.ids import TaskId
from rota.domain.priority import parse_priority
from rota.domain.task import Task
from rota.interfaces.operations import read, render
from rota.interfaces.operations.operation import MIB, Call, NoQuery, Operation, Reply
from rota.interfaces.operations.queries import GetTaskQuery, ListTasksQuery
from rota.wire import task as wire
from rota.wire.base import Page

MOST_BATCH_BYTES = 16 * MIB
MOST_BATCH_MARKS = 30 * MOST_AT_ONCE  # brackets and commas: a task with every field has 25

MOST_PAGE_BYTES = 8 * MIB
MOST_READ = 100  # tasks that are asked of the store at once: payload and result may have 256 KiB each


async def create_task(call: Call[NoQuery, wire.CreateTask]) -> Reply:
    key = call.key_for(call.body.idempotency_key)
    wish = read.submission(call.body, tenant_id=call.tenant_id, key=key)
    return reply_created(await call.services.submit.create(wish, actor=call.actor))


def reply_created(created: Created) -> Reply:
    """A new task, or the one that the same key made before."""
    task = created.task
    headers = {"Location": f"/api/v1/tasks/{task.id}"}
    return Reply(200 if created.is_repeat else 201, render.task_answer(task), headers)


async def create_tasks(call: Call[NoQuery, wire.CreateTasks]) -> Reply:
    if (number := len(call.body.tasks)) > MOST_AT_ONCE:  # before each is looked at
        raise InvalidError("tasks", f"has {number} tasks, at most {MOST_AT_ONCE} are allowed at once")
    key, errors, wishes = call.idempotency_key, [], []
    for place, body in enumerate(call.body.tasks):
        own_key = f"{key}#{place}" if key is not None and body.idempotency_key is None else body.idempotency_key
        try:
            wishes.append(read.submission(body, tenant_id=call.tenant_id, key=own_key))
        except InvalidError as exc:
            errors.append(InvalidError(f"tasks[{place}].{exc.field}", exc.problem))
    if errors:
        raise InvalidError.of(errors)
    added = await call.services.submit.submit_many(wishes, actor=call.actor)
    return Reply(201, wire.CreatedTasks(ids=[str(answer.task_id) for answer in added]))


async def get_task(call: Call[GetTaskQuery, None]) -> Reply:
    task = await (_get(call) if call.query.wait is None else _wait(call, read.wait_of(call.query.wait)))
    return Reply(200, render.task_answer(task, await find_progress(call.services.node.store.logs, task)))


async def _wait(call: Call[GetTaskQuery, None], most: timedelta) -> Task:
    """The task when it has ended, or as it is when the time is over or the server stops."""
    waiting = asyncio.create_task(call.services.watch.wait(call.task_id, call.tenant_id, most=most))
    stopping = asyncio.create_task(call.stopping.wait())
    try:
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return await waiting if waiting.done() else await _get(call)
    finally:
        waiting.cancel()
        stopping.cancel()


async def list_tasks(call: Call[ListTasksQuery, None]) -> Reply:
    """A page ends at its limit, where it would have over `MOST_PAGE_BYTES`, or where the store looked far enough."""
    wanted, items, size = read.task_filter(call.query, call.tenant_id), list[wire.Task](), 0
    show = render.task_answer if call.query.full else render.task_summary
    while True:
        left = wanted.limit - len(items)
        page = await call.services.node.store.tasks.list_page(replace(wanted, limit=min(left, MOST_READ)))
        for answer in map(show, page.items):
            size += len(msgspec.json.encode(answer))
            if items and size > MOST_PAGE_BYTES:
                return _reply_page(items, TaskId(int(items[-1].id)))
            items.append(answer)
        if page.next_before is None or page.is_short or len(items) == wanted.limit:
            return _reply_page(items, page.next_before)
        wanted = replace(wanted, before=page.next_before)


def _reply_page(items: list[wire.Task], before: TaskId | None) -> Reply:
    following = None if before is None else read.write_cursor(before)
    return Reply(200, Page[wire.Task](items=items, next_cursor=following))


async def amend_task(call: Call[NoQuery, wire.PatchTask]) -> Reply:
    body = call.body
    if body.priority is None and body.scheduled_at is None:  # wrong for any task, so also for one that is not there
        raise InvalidError("body", "changes nothing; give priority or scheduled_at")
    priority = None if body.priority is None else parse_priority(body.priority)
    task = await call.services.steer.amend(
        call.task_id, call.tenant_id, priority=priority, due_at=body.scheduled_at, actor=call.actor
    )
    return Reply(200, render.task_answer(task))


async def cancel_task(call: Call[NoQuery, wire.CancelTask]) -> Reply:
    task = await call.services.steer.cancel(call.task_id, call.tenant_id, reason=call.body.reason, actor=call.actor)
    return Reply(200, render.task_answer(task))


async def retry_task(call: Call[NoQuery, wire.RetryTask]) -> Reply:
    task, key = await _get(call), call.idempotency_key
    return reply_created(await call.services.submit.rerun(task, key=key, payload=call.body.payload, actor=call.actor))


async def explain_task(call: Call[NoQuery, None]) -> Reply:
    return Reply(200, render.explanation(await call.services.explain(call.task_id, call.tenant_id)))


async def _get(call: Call[Any, Any]) -> Task:
    task = await call.services.node.store.tasks.find(call.task_id, call.tenant_id)
    if task is None:
        raise NotFoundError("task", call.task_id)
    return task


OPERATIONS = (
    Operation(
        name="create_task",
        method="POST",
        path="/tasks",
        summary="Create a task; what is left out comes from the task config of its type.",
        role=Role.OPERATOR,
        handler=create_task,
        body=wire.CreateTask,
        answers={201: wire.Task, 200: wire.Task},
        errors=("idempotency_mismatch",),
        takes_key=True,
    ),
    Operation(
        name="create_tasks",
        method="POST",
        path="/tasks:batch",
        summary="Create up to 10,000 tasks, all or none.",
        role=Role.OPERATOR,
        handler=create_tasks,
        body=wire.CreateTasks,
        answers={201: wire.CreatedTasks},
        errors=("idempotency_mismatch",),
        most_bytes=MOST_BATCH_BYTES,
        most_marks=MOST_BATCH_MARKS,
        takes_key=True,
    ),
    Operation(
        name="list_tasks",
        method="GET",
        path="/tasks",
        summary="List tasks, newest first, with what is large left out unless `full` is asked for.",
        role=Role.VIEWER,
        handler=list_tasks,
        query=ListTasksQuery,
        answers={200: Page[wire.Task]},
    ),
    Operation(
        name="get_task",
        method="GET",
        path="/tasks/{id}",
        summary="Get a task; with `wait`, when it has ended.",
        role=Role.VIEWER,
        handler=get_task,
        query=GetTaskQuery,
        answers={200: wire.Task},
        errors=("task_not_found",),
    ),
    Operation(
        name="amend_task",
        method="PATCH",
        path="/tasks/{id}",
        summary="Change the priority or the time of a task that waits.",
        role=Role.OPERATOR,
        handler=amend_task,
        body=wire.PatchTask,
        answers={200: wire.Task},
        errors=("task_not_found", "illegal_transition", "conflict"),
    ),
    Operation(
        name="cancel_task",
        method="POST",
        path="/tasks/{id}:cancel",
        summary="End a task, waiting or running.",
        role=Role.OPERATOR,
        handler=cancel_task,
        body=wire.CancelTask,
        needs_body=False,
        answers={200: wire.Task},
        errors=("task_not_found", "illegal_transition", "conflict"),
    ),
    Operation(
        name="retry_task",
        method="POST",
        path="/tasks/{id}:retry",
        summary="Do the work of an ended task again, as a new task; or, of any task, with another payload.",
        role=Role.OPERATOR,
        handler=retry_task,
        body=wire.RetryTask,
        needs_body=False,
        answers={201: wire.Task, 200: wire.Task},
        errors=("task_not_found", "illegal_transition", "idempotency_mismatch"),
        takes_key=True,
    ),
    Operation(
        name="explain_task",
        method="GET",
        path="/tasks/{id}/explain",
        summary="Say why a task is where it is.",
        role=Role.VIEWER,
        handler=explain_task,
        answers={200: wire.Explanation},
        errors=("task_not_found",),
    ),
)
