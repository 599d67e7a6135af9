"""Schedules that will never fire again, and why."""

from datetime import datetime

from rota.domain.errors import InvalidError
from rota.domain.firing import NO_CALENDARS, Calendars
from rota.domain.schedule import Schedule
from rota.domain.task_config import TaskConfig
from rota.domain.timetable import Timetable


def check_fires(config: TaskConfig, now: datetime, *, calendars: Calendars = NO_CALENDARS) -> None:
    """Raise `InvalidError` for a schedule that has no time left. `next_fire_at` must be the one counted from now."""
    schedule = config.schedule
    if schedule is None or config.next_fire_at is not None:
        return
    recent = Timetable(schedule, seed=config.type, calendars=calendars).recent(now, count=1)
    last = f"its last time was {_spell(recent[0])}" if recent else "it has no time within its bounds"
    raise InvalidError(f"schedule.{_cause(schedule, now)}", f"would never fire: {last}")


def _cause(schedule: Schedule, now: datetime) -> str:
    if schedule.end_at is not None and schedule.end_at <= now:
        return "end_at"
    if schedule.at:
        return "at"
    return "cron" if schedule.cron is not None else "end_at"


def _spell(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
