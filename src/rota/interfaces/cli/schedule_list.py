"""The schedules of all types, one on a line, each on the clock of its own zone."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from rota.domain.cron.words import Language
from rota.domain.durations import format_duration
from rota.domain.errors import InvalidError
from rota.domain.schedule import Schedule
from rota.domain.schedule_form import schedule_from
from rota.domain.schedule_words import describe_schedule
from rota.interfaces.cli.output import Column, Table
from rota.interfaces.cli.text import on_clock

if TYPE_CHECKING:
    from rota.wire.config import TaskConfig


def _read(config: "TaskConfig") -> Schedule | None:
    """None: a server of a newer release knows more of schedules than this command."""
    try:
        return schedule_from(config.schedule)
    except InvalidError:
        return None


def _short(config: "TaskConfig") -> str | None:
    schedule = _read(config)
    if schedule is None:
        return None
    if schedule.cron is not None:
        return schedule.cron
    if schedule.every is not None:
        return f"every {format_duration(schedule.every)}"
    if schedule.after_end is not None:
        return f"{format_duration(schedule.after_end)} after its end"
    first = on_clock(schedule.at[0], ZoneInfo(schedule.zone))
    return f"at {first}" if len(schedule.at) == 1 else f"at {first} and {len(schedule.at) - 1} more"


def _words(config: "TaskConfig") -> str | None:
    schedule = _read(config)
    return None if schedule is None else describe_schedule(schedule, Language.ENGLISH, seed=config.type)


def _state(config: "TaskConfig") -> str:
    if not config.enabled:
        return "disabled"
    if _told(config, "paused"):
        return "paused"
    return "ended" if config.next_fire_at is None else "on"


def _next(config: "TaskConfig") -> str | None:
    at = config.next_fire_at
    return None if at is None or _state(config) != "on" else on_clock(at, ZoneInfo(_told(config, "zone") or "UTC"))


def _told(config: "TaskConfig", key: str) -> Any:
    return (config.schedule or {}).get(key)


SCHEDULES = Table(
    (
        Column("TYPE", attrgetter("type")),
        Column("SCHEDULE", _short),
        Column("ZONE", lambda config: _told(config, "zone")),
        Column("STATE", _state),
        Column("NEXT", _next),
        Column("WORDS", _words, is_wide=True),
        Column("DIALECT", lambda config: _told(config, "dialect"), is_wide=True),
        Column("NOTE", lambda config: _told(config, "pause_note"), is_wide=True),
    ),
    attrgetter("type"),
    empty="no type has a schedule; to give one: @rota.cron in the code, or schedule in a definition",
)
