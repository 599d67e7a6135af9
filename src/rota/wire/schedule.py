"""Schedules: when they fire, in words and in times, and what became of their targets."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from rota.wire.base import Answer, Request

Count = Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many targets before and after now.")]


class PreviewSchedule(Request):
    """A schedule that need not be stored."""

    schedule: dict[str, Any]
    type: str = ""  # of the tasks: what `H` and the jitter are derived from
    count: Count = 5


class SchedulePreview(Answer):
    """When a schedule fires. A calendar may exclude a target that is named here."""

    type: str
    schedule: dict[str, Any]
    in_english: str
    in_chinese: str
    upcoming: list[datetime]
    recent: list[datetime]  # newest first
    next_fire_at: datetime | None
    runs: int


class Occurrence(Answer):
    """One target of a schedule and what became of it: FIRED or SKIPPED, with the reason."""

    type: str
    fire_at: datetime
    status: str
    task_id: str | None
    reason: str
    since: datetime | None  # it stands for all targets from here to fire_at
