"""What becomes of a schedule whose runs a calendar moves when that calendar changes.

Each time that the schedule names had a place by the calendar as it was, and has one by the calendar as it is. What was
not dealt with and now lies in the past is made up for as after an outage or, if there are later targets that were dealt
with, skipped; what ran already does not run again where it is now. Both are on record.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.domain.firing import Calendars, Firing, FullFiring, due_after, due_of, first_fire_at, target_at
from rota.domain.moving import LONGEST_MOVE
from rota.domain.schedule import Occurrence
from rota.domain.task_config import TaskConfig
from rota.domain.timetable import SkipReason, Timetable

_TICK = timedelta(microseconds=1)
_RAN_BEFORE = f"{SkipReason.CALENDAR}: it ran before it was moved"


@dataclass(frozen=True, slots=True)
class Realigned:
    next_fire_at: datetime | None
    skipped: tuple[Occurrence, ...] = ()


@dataclass(frozen=True, slots=True)
class CalendarChange:
    """The calendars of a schedule, as they were and as they are."""

    before: Calendars
    after: Calendars


def has_run(occurrence: Occurrence) -> bool:
    """Whether its target fired, or stands for one that did: a calendar that moves it once more brings no second run."""
    return occurrence.task_id is not None or occurrence.reason == _RAN_BEFORE


def aimed_anew(config: TaskConfig, now: datetime, *, calendars: Calendars) -> datetime | None:
    """When a config is next after one of its calendars changed; what is due, or only waits for its jitter, stays."""
    schedule, seen_at = config.schedule, config.next_fire_at
    if schedule is None or seen_at is None or seen_at - schedule.jitter <= now:
        return seen_at
    return first_fire_at(config, now, calendars=calendars, current=config)


def realign(config: TaskConfig, now: datetime, *, change: CalendarChange, ran: Collection[datetime]) -> Realigned:
    """When the config is next, and which targets are skipped at once; `ran` are those that have run so far."""
    schedule, seen_at = config.schedule, config.next_fire_at
    if schedule is None or seen_at is None:
        return Realigned(seen_at)
    before = Timetable(schedule, seed=config.type, calendars=change.before)
    after = Timetable(schedule, seed=config.type, calendars=change.after)
    # What was until then has been dealt with; what is due, or only waits for its jitter, has not.
    turn = min(now, target_at(before, config, seen_at=seen_at) - _TICK)
    begin, end = turn - LONGEST_MOVE, turn + LONGEST_MOVE
    old, new = before.list_places(begin, end=end), after.list_places(begin, end=end)
    both = [(place, new[named]) for named, place in old.items() if named in new]

    passed = {at for was, at in both if at <= turn < was}
    latest = max((was for was in old.values() if was <= turn), default=begin)
    late = {at for at in passed if at > latest}
    next_fire_at = min([*late, *filter(None, [due_after(after, turn)])], default=None)
    lost = passed - late
    to_run = {at for was, at in both if was not in ran}
    again = {at for was, at in both if was in ran} - to_run - set(ran)
    reasons = dict.fromkeys(lost, f"{SkipReason.CALENDAR}: moved into the past") | dict.fromkeys(again, _RAN_BEFORE)
    return Realigned(next_fire_at, _skipped(config, reasons))


def _skipped(config: TaskConfig, reasons: Mapping[datetime, str]) -> tuple[Occurrence, ...]:
    return tuple(
        Occurrence(
            task_type=config.type,
            tenant_id=config.tenant_id,
            fire_at=at,
            reason=reasons[at],
        )
        for at in sorted(reasons)
    )


def skip_ahead(config: TaskConfig, realigned: Realigned) -> Firing:
    """Note what is skipped. A firing moves the next fire time on: where it is to be earlier, it must be aimed then."""
    seen_at, next_fire_at = due_of(config), realigned.next_fire_at
    return FullFiring(
        tenant_id=config.tenant_id,
        task_type=config.type,
        revision=config.revision,
        seen_at=seen_at,
        next_fire_at=None if next_fire_at is None else max(next_fire_at, seen_at + _TICK),
        occurrences=realigned.skipped,
    )
