"""What follows from a schedule: its targets, when each is due, and which of them fire.

Pure: the last target that was dealt with and the store's time go in, a bounded list of decisions comes out. A target
is the moment that the schedule names and the key of its occurrence; it is due at that moment or, with jitter, a little
later but always before the next target, by chance that is the same on every node.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from itertools import islice
from zoneinfo import ZoneInfo

from rota.domain.calendar import Calendar
from rota.domain.checks import LATEST
from rota.domain.cron.clock_changes import ClockChange, list_clock_changes
from rota.domain.cron.recurrence import EveryRecurrence, Recurrence
from rota.domain.errors import InvalidError
from rota.domain.moving import LONGEST_MOVE, Allowed, MovedRecurrence
from rota.domain.schedule import OnMissed, Schedule

MOST_PREVIEWED = 1_000
_TICK = timedelta(microseconds=1)


class SkipReason(StrEnum):
    MISSED = "missed"
    COALESCED = "coalesced"  # another target runs for it
    MISSED_LIMIT = "missed_limit"  # one of too many
    PAUSED = "paused"
    REPLACED = "replaced"  # the schedule was changed before it was dealt with
    CALENDAR = "calendar"
    OVERLAP = "overlap"  # the run before goes on
    ERROR = "error"  # no task could be made for it
    UNREADABLE = "unreadable"  # the leader is of a release that does not know what the schedule says


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A target and what is to become of it; with `since`, it stands for all targets from there to itself."""

    target: datetime
    due_at: datetime
    reason: SkipReason | None = None  # None: it fires
    detail: str = ""  # which calendar, what is wrong, or where the last run stands
    since: datetime | None = None

    @property
    def fires(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True)
class _Instants:
    at: tuple[datetime, ...]

    def next(self, after: datetime) -> datetime | None:
        place = bisect_right(self.at, after)
        return self.at[place] if place < len(self.at) else None

    def previous(self, before: datetime) -> datetime | None:
        place = bisect_left(self.at, before)
        return self.at[place - 1] if place else None


@dataclass(frozen=True, slots=True)
class _AfterEnd:
    """One target only: the moment that is asked from is the end of the run before."""

    delay: timedelta

    def next(self, after: datetime) -> datetime | None:
        return after + self.delay + _TICK * (not self.delay)

    def previous(self, before: datetime) -> datetime | None:
        """Nobody knows when the run before will have ended."""
        return None


class Timetable:
    """The targets of one schedule. `seed` names its task config; calendars are given by name."""

    def __init__(self, schedule: Schedule, *, seed: str, calendars: Mapping[str, Calendar] | None = None) -> None:
        known = calendars or {}
        for name in (*schedule.only, *schedule.exclude):
            if name not in known:
                where = "schedule.only" if name in schedule.only else "schedule.exclude"
                raise InvalidError(where, f"there is no calendar {name!r} that can be read")
        self.schedule = schedule
        self._seed = seed
        only, exclude = [known[name] for name in schedule.only], [known[name] for name in schedule.exclude]
        self._allowed = Allowed(only, exclude, ZoneInfo(schedule.zone))
        self._targets = self._named = _raw(schedule, seed)
        self._moved: MovedRecurrence | None = None
        if schedule.moves:
            self._moved = self._targets = MovedRecurrence(self._targets, schedule, allowed=self._allowed)
        self._asked: tuple[datetime, datetime | None] | None = None  # the last question for the next target

    @property
    def pace(self) -> timedelta | None:
        """The time between any two targets; None where it differs, or calendars have a say."""
        has_calendars = self.schedule.only or self.schedule.exclude
        return self._targets.interval if isinstance(self._targets, EveryRecurrence) and not has_calendars else None

    def next(self, after: datetime) -> datetime | None:
        """The first target later than this moment. With `after_end`, give the end of the run before."""
        if self._asked is None or self._asked[0] != after:
            self._asked = (after, self._find_next(after))
        return self._asked[1]

    def _find_next(self, after: datetime) -> datetime | None:
        begin = self.schedule.start_at
        if begin is not None and after < begin:
            if self.schedule.after_end is not None:
                return begin
            after = begin - _TICK
        target = self._targets.next(after)
        return target if target is not None and target < (self.schedule.end_at or LATEST) else None

    def previous(self, before: datetime) -> datetime | None:
        """The last target earlier than this moment."""
        end = self.schedule.end_at
        last = before if end is None else min(before, end)
        target = self._targets.previous(last)
        return None if target is None or target < (self.schedule.start_at or target) else target

    def upcoming(self, after: datetime, *, count: int) -> list[datetime]:
        """The next targets, in order; of a schedule that waits for the end of its runs, one."""
        most = 1 if self.schedule.after_end is not None else min(count, MOST_PREVIEWED)
        return list(islice(_walk(self.next, after), most))

    def until_over(self, targets: Sequence[datetime], *, runs: int) -> list[datetime]:
        """Those of the targets to come, in order, at which the schedule is not over, having fired so often."""
        plans = [self.judge(Planned(target=target, due_at=target)) for target in targets]
        return [plan.target for plan in _no_more(plans, left=self._left(runs))]

    def recent(self, before: datetime, *, count: int) -> list[datetime]:
        """The last targets, the newest first."""
        return list(islice(_walk(self.previous, before), min(count, MOST_PREVIEWED)))

    def due_at(self, target: datetime) -> datetime:
        """When a target is due: the same on every node, never later than the next one."""
        longest = self.schedule.jitter
        if not longest:
            return target
        following = self.next(target) if self.schedule.after_end is None else None
        if following is not None:
            longest = min(longest, following - target - _TICK)
        key = f"{self._seed}\0{target.isoformat()}".encode()
        chance = int.from_bytes(sha256(key).digest()[:8], "big")
        return target + timedelta(microseconds=longest // _TICK * chance >> 64)

    def objection(self, at: datetime) -> str:
        """Which calendar lets no target be at this moment, and why; empty: none.

        Raises `InvalidError` when a calendar does not know that year."""
        return self._allowed.objection(at)

    def judge(self, plan: Planned) -> Planned:
        """The plan as the calendars leave it; what they do not know is skipped as an error, never guessed."""
        try:
            objection = self.objection(plan.target)
        except InvalidError as exc:
            return replace(plan, reason=SkipReason.ERROR, detail=exc.problem)
        return replace(plan, reason=SkipReason.CALENDAR, detail=objection) if objection else plan

    def moved_from(self, target: datetime) -> datetime | None:
        """The time that the schedule names and from which the calendars moved a target here; None: it was not moved."""
        return None if self._moved is None else self._moved.origin_of(target)

    def clock_changes(self, begin: datetime, *, end: datetime) -> list[ClockChange]:
        """What changes of the clocks do to what the schedule names in this time, before calendars have their say."""
        return list_clock_changes(self._named, begin, end=end)

    def list_places(self, begin: datetime, *, end: datetime) -> dict[datetime, datetime]:
        """The targets of all times that the schedule names from here to there, by these times."""
        places = {} if self._moved is None else self._moved.list_places(begin, end=end)
        first, last = self.schedule.start_at or begin - LONGEST_MOVE, self.schedule.end_at or LATEST
        return {named: place for named, place in places.items() if first <= place < last}

    def plan_fires(self, after: datetime, now: datetime, *, runs: int = 0) -> list[Planned]:
        """What becomes of every target later than `after` that is due by now, oldest first.

        No longer than `missed_limit` and one: of more targets the oldest are skipped as one range. `runs` is how often
        the schedule has fired so far.
        """
        first = self.next(after)
        if first is None or self.due_at(first) > now:  # then nothing later is due either
            return []
        targets, older = self._due(first, now)
        if self.schedule.is_paused:
            return [self._skip(targets[-1], SkipReason.PAUSED, since=first)]
        plans = [self._skip(older, SkipReason.MISSED_LIMIT, since=first)] if older is not None else []
        return _no_more(plans + self._decide(targets, now), left=self._left(runs))

    def _due(self, first: datetime, now: datetime) -> tuple[list[datetime], datetime | None]:
        """The newest targets that are due, in order, and the newest of the older ones that are too many."""
        following = self.next(first) if self.schedule.after_end is None else None
        if following is None or self.due_at(following) > now:  # most are looked at in time, and have one
            return [first], None
        most = 1 if self.schedule.is_paused else self.schedule.missed_limit  # a pause is one range
        found: list[datetime] = []
        for target in _walk(self.previous, now + _TICK):
            if target < first:
                break
            if len(found) == most:
                return found[::-1], target
            if self.due_at(target) <= now:
                found.append(target)
        return found[::-1], None

    def _decide(self, targets: Sequence[datetime], now: datetime) -> list[Planned]:
        plans = [Planned(target=target, due_at=self.due_at(target)) for target in targets]
        plans = [self.judge(plan) for plan in plans]
        latest = now - self.schedule.missed_grace
        missed = [plan for plan in plans if plan.fires and plan.due_at < latest]
        in_time = any(plan.fires and plan.due_at >= latest for plan in plans)
        if self.schedule.on_missed is OnMissed.RUN_ALL:
            return plans
        reason = SkipReason.MISSED
        if self.schedule.on_missed is OnMissed.RUN_ONCE:
            missed, reason = (missed if in_time else missed[:-1]), SkipReason.COALESCED
        lost = {plan.target for plan in missed}
        return [replace(plan, reason=reason) if plan.target in lost else plan for plan in plans]

    def _left(self, runs: int) -> int | None:
        return None if self.schedule.max_runs is None else max(self.schedule.max_runs - runs, 0)

    def _skip(self, target: datetime, reason: SkipReason, *, since: datetime) -> Planned:
        return Planned(target=target, due_at=target, reason=reason, since=since)


def _raw(schedule: Schedule, seed: str) -> Recurrence:
    if schedule.cron is not None:
        return schedule.recurrence(seed)
    if schedule.every is not None:
        return (
            EveryRecurrence(schedule.every, schedule.start_at) if schedule.start_at else EveryRecurrence(schedule.every)
        )
    return _Instants(schedule.at) if schedule.at else _AfterEnd(schedule.after_end or timedelta(0))


def _walk(step: Callable[[datetime], datetime | None], begin: datetime) -> Iterator[datetime]:
    at = step(begin)
    while at is not None:
        yield at
        at = step(at)


def _no_more(plans: Sequence[Planned], *, left: int | None) -> list[Planned]:
    """The plans until the schedule has fired as often as it may."""
    if left is None:
        return list(plans)
    kept = []
    for plan in plans:
        if plan.fires and left == 0:
            break
        left -= plan.fires
        kept.append(plan)
    return kept
