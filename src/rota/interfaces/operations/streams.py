"""What can be followed live: the record of a task, and everything that happens."""

import re
from collections.abc import AsyncIterator

from rota.domain.access import Role
from rota.domain.errors import InvalidError
from rota.domain.events import EVENT_ID, Event, check_event_id
from rota.interfaces.operations import read, render
from rota.interfaces.operations.operation import Call, Frame, Operation, Places, Reply, Stream
from rota.interfaces.operations.queries import EventsQuery, LogsQuery
from rota.wire import cluster, task
from rota.wire.base import Page

LINE = "[0-9]{1,18}"


def check_line(field: str, value: str) -> str:
    """The `seq` of a line."""
    if value and re.fullmatch(LINE, value) is None:
        raise InvalidError(
            field, f"{value!r} is not the seq of a line, such as 17; leave it out to begin with the first"
        )
    return value


async def read_logs(call: Call[LogsQuery, None]) -> Reply | Stream:
    follow = call.services.follow
    if call.wants_stream:
        await follow.check(call.task_id, call.tenant_id)
        return Stream(_follow_logs(call))
    after = 0 if call.query.cursor is None else read.number_cursor(call.query.cursor)
    entries = await follow.read(call.task_id, call.tenant_id, after=after, limit=call.query.limit)
    following = read.write_cursor(entries[-1].seq) if len(entries) == call.query.limit else None
    return Reply(200, Page[task.LogLine](items=[render.log_line(entry) for entry in entries], next_cursor=following))


async def _follow_logs(call: Call[LogsQuery, None]) -> AsyncIterator[Frame]:
    after = int(call.last_event_id or 0)
    async for entry in call.services.follow.follow(call.task_id, call.tenant_id, after=after):
        yield Frame("log", render.log_line(entry), id=str(entry.seq))
    ended = await call.services.follow.check(call.task_id, call.tenant_id)
    yield Frame("end", render.task_answer(ended))


async def watch_events(call: Call[EventsQuery, None]) -> Stream:
    return Stream(_watch(call))


async def _watch(call: Call[EventsQuery, None]) -> AsyncIterator[Frame]:
    async with call.services.node.coordinator.signals.subscribe(after=call.last_event_id or None) as told:
        async for news in told:
            if news.event is None:
                yield Frame("missed", cluster.Missed(id=news.id), id=news.id)
            elif _is_wanted(news.event, call):
                yield Frame(news.event.kind, render.event_answer(news.id, news.event), id=news.id)


def _is_wanted(event: Event, call: Call[EventsQuery, None]) -> bool:
    """Workers belong to all tenants, tasks to one."""
    if event.task_id is not None and event.tenant_id != call.tenant_id:
        return False
    types, kinds = call.query.type, call.query.kind
    return (not types or event.task_type in types) and (not kinds or event.kind in kinds)


OPERATIONS = (
    Operation(
        name="read_logs",
        method="GET",
        path="/tasks/{id}/logs",
        summary="Read the record of a task: its transitions and its own lines, in order. "
        "With `Accept: text/event-stream` it is followed live until the task has ended.",
        role=Role.VIEWER,
        handler=read_logs,
        query=LogsQuery,
        answers={200: Page[task.LogLine]},
        errors=("task_not_found", "too_many_streams"),
        places=Places(LINE, check_line),
        frame=task.LogLine,
    ),
    Operation(
        name="watch_events",
        method="GET",
        path="/events",
        summary="Follow what happens to tasks and workers, as it happens. `Last-Event-ID` goes on after a break.",
        role=Role.VIEWER,
        handler=watch_events,
        query=EventsQuery,
        answers={200: None},
        errors=("too_many_streams",),
        places=Places(EVENT_ID, check_event_id),
        frame=cluster.Event,
    ),
)
