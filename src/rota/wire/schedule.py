"""Schedules: when they fire, in words and in times, and what became of their targets."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from rota.wire.base import Answer, Request

Count = Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many targets before and after now.")]
After = Annotated[datetime, msgspec.Meta(description="Targets around this moment instead of now.")]


class PreviewSchedule(Request):
    """A schedule that need not be stored."""

    schedule: dict[str, Any]
    type: str = ""  # of the tasks: what `H` and the jitter are derived from
    count: Count = 5
    after: After | None = None


class PauseSchedule(Request):
    """Let a schedule fire nothing."""

    note: Annotated[str, msgspec.Meta(max_length=500, description="Why, for whoever finds it paused.")] = ""


class CalendarEffect(Answer):
    """What calendars make of a target: `skipped`, `moved` here from another time, or `unknown` to them. And what clocks
    do that are changed: `clocks_moved` here from times that they skip, `clocks_first` or `clocks_second` of two that
    they show the same; `clocks_skipped`, which is no target: times that they skip do not fire."""

    fire_at: datetime  # of times that the clocks skip: when they go forward
    effect: str
    detail: str  # which calendar, or which times the clocks skip
    moved_from: datetime | None


class SchedulePreview(Answer):
    """When a schedule fires. `effects` has what calendars, and clocks that are changed, make of the targets that are
    named here and of what lies between them; `state` says whether what is to come will fire: `active`, `paused`,
    `disabled` (its type) or `ended`."""

    type: str
    schedule: dict[str, Any]
    in_english: str
    in_chinese: str
    upcoming: list[datetime]
    recent: list[datetime]  # newest first
    effects: list[CalendarEffect]
    next_fire_at: datetime | None
    runs: int
    state: str = "active"  # a server of an earlier release tells none


class ForecastBucket(Answer):
    """What begins within one piece of the time."""

    begin: datetime
    runs: int
    work_seconds: float  # of those runs together, as far as their last ones tell
    busy: float  # attempts that run at once on average: the work divided by the time
    complete: bool = True  # false: there may be more runs than these
    unknown_runs: int = 0  # of these runs, of which nobody knows how long they take: they are not in the work


class ForecastType(Answer):
    type: str
    runs: int
    first: datetime | None
    last: datetime | None
    run_seconds: float | None  # as long as the last run that ended took; null: nobody knows
    complete: bool = True  # false: there are more runs than these


class Forecast(Answer):
    """What the schedules would fire, if nothing changed."""

    begin: datetime
    end: datetime
    runs: int
    buckets: list[ForecastBucket]
    types: list[ForecastType]  # those that fire; of what was not looked at so far, with 0 runs
    unforeseen: list[str]  # types that wait for the end of their runs, or whose calendars cannot be read or know less
    complete: bool  # false: there is more; ask for a shorter time or for single types
    reasons: dict[str, str] = {}  # why, for each type that is unforeseen
    known_until: datetime | None = None  # from here on runs are missing; null: none are
    left_out: list[str] = []  # types that were not looked at, up to a thousand of them


class BackfillSchedule(Request):
    """Make up for the targets of a past time, page by page."""

    begin: datetime
    end: datetime  # the first moment that is not in it
    name: str = "backfill"  # each target makes one task under it
    order: str = "oldest"  # or newest
    only_missing: bool = True  # leave out what fired in its time
    payload: Any = None
    dry_run: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="Targets that are dealt with now.")] = 100
    cursor: Annotated[str, msgspec.Meta(max_length=256)] | None = None  # `next_cursor` of the answer before


class BackfillItem(Answer):
    """A target and what becomes of it: `run`, `repeat` (this backfill made its task before) or `skip`."""

    fire_at: datetime
    action: str
    task_id: str | None
    reason: str


class BackfillPage(Answer):
    name: str
    total: int  # targets in the whole time
    items: list[BackfillItem]
    next_cursor: str | None


class Occurrence(Answer):
    """One target of a schedule and what became of it: FIRED or SKIPPED, with the reason."""

    type: str
    fire_at: datetime
    status: str
    task_id: str | None
    reason: str
    since: datetime | None  # it stands for all targets from here to fire_at
