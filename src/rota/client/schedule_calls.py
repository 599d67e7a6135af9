"""The requests that concern schedules and calendars."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import NoneType
from typing import Any, TypedDict

import msgspec

from rota.client.call import Call, path_of, reading, writing
from rota.client.task_calls import page_query
from rota.wire.base import Page
from rota.wire.calendar import Calendar, CalendarSummary, PutCalendar
from rota.wire.config import TaskConfig
from rota.wire.mistakes import explain
from rota.wire.schedule import (
    BackfillPage,
    BackfillSchedule,
    Forecast,
    Occurrence,
    PauseSchedule,
    PreviewSchedule,
    SchedulePreview,
)

CONFIGS, CALENDARS = "task-configs", "calendars"
LARGEST_PAGE = 1_000  # targets of a backfill


def preview_config(type: str, count: int, *, after: datetime | None) -> Call[SchedulePreview]:
    around = [] if after is None else [("after", after.isoformat())]
    return reading(path_of(CONFIGS, type, "schedule"), SchedulePreview, query=[("count", str(count)), *around])


def preview_schedule(
    schedule: Mapping[str, Any] | str, type: str, *, count: int, after: datetime | None
) -> Call[SchedulePreview]:
    """Looks only, so that it may be sent again."""
    wanted = {"cron": schedule} if isinstance(schedule, str) else dict(schedule)
    body = PreviewSchedule(schedule=wanted, type=type, count=count, after=after)
    return writing("POST", path_of("schedules", verb="preview"), kind=SchedulePreview, body=body, may_repeat=True)


def pause_schedule(type: str, note: str) -> Call[TaskConfig]:
    path = path_of(CONFIGS, type, "schedule", verb="pause")
    return writing("POST", path, kind=TaskConfig, body=PauseSchedule(note=note), may_repeat=True)


def resume_schedule(type: str) -> Call[TaskConfig]:
    return writing("POST", path_of(CONFIGS, type, "schedule", verb="resume"), kind=TaskConfig, may_repeat=True)


def list_occurrences(type: str, limit: int) -> Call[Page[Occurrence]]:
    return reading(path_of(CONFIGS, type, "occurrences"), Page[Occurrence], query=[("limit", str(limit))])


class BackfillOptions(TypedDict, total=False):
    """What is made up for, beside the two ends of the time."""

    name: str
    order: str
    only_missing: bool
    payload: Any
    dry_run: bool


def forecast(begin: datetime | None, end: datetime | None, *, buckets: int, types: Sequence[str]) -> Call[Forecast]:
    times = [(name, at.isoformat()) for name, at in (("begin", begin), ("end", end)) if at is not None]
    query = [*times, ("buckets", str(buckets)), *(("type", one) for one in types)]
    return reading(path_of("schedules", verb="forecast"), Forecast, query=query)


def begin_backfill(begin: datetime, end: datetime, *, concurrency: int, options: BackfillOptions) -> BackfillSchedule:
    """What its first page is asked for by: so many targets as may run at once, or where none runs as many as it may."""
    limit = LARGEST_PAGE if options.get("dry_run") else concurrency
    return BackfillSchedule(begin=begin, end=end, limit=limit, **options)


def backfill(type: str, body: BackfillSchedule) -> Call[BackfillPage]:
    """A target makes one task under the name of its backfill, so that it may be sent again."""
    path = path_of(CONFIGS, type, verb="backfill")
    return writing("POST", path, kind=BackfillPage, body=body, may_repeat=True)


def put_calendar(name: str, definition: PutCalendar | Mapping[str, Any]) -> Call[Calendar]:
    """Set the whole calendar. The same again makes the same, unless a revision is expected."""
    body = definition if isinstance(definition, PutCalendar) else _read_calendar(name, definition)
    path = path_of(CALENDARS, name)
    return writing("PUT", path, kind=Calendar, body=body, may_repeat=body.revision is None)


def get_calendar(name: str) -> Call[Calendar]:
    return reading(path_of(CALENDARS, name), Calendar)


def list_calendars(cursor: str | None, size: int) -> Call[Page[CalendarSummary]]:
    return reading(path_of(CALENDARS), Page[CalendarSummary], query=page_query(cursor, size))


def delete_calendar(name: str) -> Call[None]:
    return writing("DELETE", path_of(CALENDARS, name), kind=NoneType)


def _read_calendar(name: str, definition: Mapping[str, Any]) -> PutCalendar:
    fields = {key: value for key, value in definition.items() if (key, value) != ("name", name)}
    try:
        return msgspec.convert(fields, PutCalendar)
    except msgspec.ValidationError as exc:
        raise explain(exc, PutCalendar, whole="calendar") from exc
