"""What becomes of a config that is due and of which no task can be made: its targets are skipped, on record."""

from dataclasses import replace
from datetime import datetime, timedelta

from rota.domain.firing import MAX_REASON, Firing, due_after, due_of, full_firing, target_at
from rota.domain.schedule import Occurrence, OnExcluded
from rota.domain.task_config import TaskConfig, UnreadableConfig
from rota.domain.timetable import SkipReason, Timetable

ERROR_PAUSE = timedelta(minutes=1)  # at most, until a schedule that cannot be read is looked at again
_TICK = timedelta(microseconds=1)


def firing_failed(config: TaskConfig, now: datetime, *, problem: str) -> Firing:
    """No task can be made of this config: what is due is skipped, on record as one range; the rest has its time.

    Its calendars may be what is wrong, so that they are not asked: the range has all that the schedule names."""
    schedule, seen_at, reason = config.schedule, due_of(config), f"{SkipReason.ERROR}: {problem}"[:MAX_REASON]
    if schedule is None or schedule.after_end is not None:
        return _skip_one(config, next_fire_at=_look_again_at(seen_at, now), reason=reason)
    free = replace(schedule, only=(), exclude=(), on_excluded=OnExcluded.SKIP)
    table = Timetable(free, seed=config.type)
    # Where a calendar moved it, nobody knows from where: the next fire time is all there is.
    first = seen_at if schedule.moves else target_at(table, config, seen_at=seen_at)
    last = table.previous(now + _TICK)
    if last is not None and table.due_at(last) > now:
        last = table.previous(last)
    last = first if last is None else max(first, last)
    since = first if last > first else None
    return _skip_one(config, target=last, since=since, next_fire_at=due_after(table, last), reason=reason)


def skip_unreadable(config: UnreadableConfig, now: datetime) -> Firing:
    """What becomes of a config that only another release can read: nobody knows its targets until the next look."""
    next_fire_at = _look_again_at(config.next_fire_at, now)
    rest = f"; so is all that is due before {next_fire_at:%H:%M}Z"
    reason = f"{SkipReason.UNREADABLE}: {config.problem}"[: MAX_REASON - len(rest)] + rest
    return _skip_one(config, next_fire_at=next_fire_at, reason=reason)


def _look_again_at(seen_at: datetime, now: datetime) -> datetime:
    """At a full minute, as most targets are, so that the one that is due then is in time."""
    return (max(now, seen_at) + ERROR_PAUSE).replace(second=0, microsecond=0)


def _skip_one(
    config: TaskConfig | UnreadableConfig,
    *,
    next_fire_at: datetime | None,
    reason: str,
    target: datetime | None = None,
    since: datetime | None = None,
) -> Firing:
    made = full_firing(config, next_fire_at)
    skipped = Occurrence(
        task_type=config.type, tenant_id=config.tenant_id, fire_at=target or made.seen_at, reason=reason, since=since
    )
    return replace(made, occurrences=(skipped,))
