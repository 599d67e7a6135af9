"""Targets as calendars move them: to the same time of the nearest day that is allowed. They need not keep their order.

What lies between two moments is found in one go and kept, so that each time that the schedule names is moved once,
however many targets are asked for. Nothing moves over a day of which no moment is excluded: that is how far one has to
look for what may have come from elsewhere.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from rota.domain.calendar import Calendar
from rota.domain.checks import EARLIEST
from rota.domain.cron.recurrence import DstGap, DstOverlap, Recurrence
from rota.domain.cron.stretches import stretch_at
from rota.domain.errors import InvalidError
from rota.domain.schedule import OnExcluded, Schedule

LONGEST_MOVE_DAYS = 31
LONGEST_MOVE = timedelta(days=LONGEST_MOVE_DAYS + 1)
_DAY = timedelta(days=1)
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The moments that the calendars of a schedule allow."""

    only: Sequence[Calendar]
    exclude: Sequence[Calendar]
    zone: ZoneInfo

    def __bool__(self) -> bool:
        """Whether there is any calendar to ask."""
        return bool(self.only or self.exclude)

    def objection(self, at: datetime) -> str:
        """Which calendar lets no target be at this moment, and why; empty: none.

        Raises `InvalidError` when a calendar does not know that year."""
        if not self:
            return ""
        wall = at.astimezone(self.zone)
        missed = next((f"not in {one.name}" for one in self.only if not one.covers(wall)), "")
        return missed or next((f"in {one.name}" for one in self.exclude if one.covers(wall)), "")

    def has_all_of(self, day: date) -> bool:
        """Whether it is certain that every moment of a day is allowed."""
        begin = datetime.combine(day, time.min, self.zone)
        return all(one.covers_all_of(day) for one in self.only) and not any(one.touches(begin) for one in self.exclude)


class MovedRecurrence:
    """The targets of a schedule whose calendars move them."""

    def __init__(self, named: Recurrence, schedule: Schedule, *, allowed: Allowed) -> None:
        self._named = named
        self._schedule = schedule
        self._allowed = allowed
        self._is_later = schedule.on_excluded is OnExcluded.RUN_AFTER
        self._start(EARLIEST)

    def next(self, after: datetime) -> datetime | None:
        self._begin_at(after)
        has_more = True
        while not self._targets or self._targets[-1] <= after:
            if not has_more:
                return None
            has_more = self._look_on()
        return self._targets[bisect_right(self._targets, after)]

    def previous(self, before: datetime) -> datetime | None:
        self._begin_at(before)
        has_more = True
        while not self._targets or self._targets[0] >= before:
            if not has_more:
                return None
            has_more = self._look_back()
        return self._targets[bisect_left(self._targets, before) - 1]

    def origin_of(self, target: datetime) -> datetime | None:
        """The time that the schedule names and that moved to this target; None: it is where it was, or is none."""
        if self.next(target - _TICK) != target or self._origins[target] == target:
            return None
        return self._origins[target]

    def list_places(self, begin: datetime, *, end: datetime) -> dict[datetime, datetime]:
        """Where each of the named times between two moments goes."""
        all_named = list(_between(self._named.next, begin, end=end))
        return {named: self._moved(named) for named in (reversed(all_named) if self._is_later else all_named)}

    def _begin_at(self, at: datetime) -> None:
        """Keep what is known around this moment; anywhere else, nothing is."""
        if not self._begin <= at <= self._end:
            self._start(at)

    def _start(self, at: datetime) -> None:
        self._begin = self._end = at
        self._span = _DAY
        self._targets: list[datetime] = []  # all from begin and before end, in order
        self._origins: dict[datetime, datetime] = {}
        self._havens: dict[datetime, datetime | None] = {}  # where excluded times go, by what the clock shows

    def _look_on(self) -> bool:
        """Find some targets later than all that are known; whether there may be more."""
        begin = self._end
        named = self._named.next(begin if self._is_later else begin + LONGEST_MOVE)
        self._end = max(self._wider(begin, 1), begin + LONGEST_MOVE if named is None else self._moved(named) + _TICK)
        self._targets += self._find(begin, self._end)
        return named is not None

    def _look_back(self) -> bool:
        end = self._begin
        named = self._named.previous(end - LONGEST_MOVE if self._is_later else end)
        self._begin = min(self._wider(end, -1), end - LONGEST_MOVE if named is None else self._moved(named))
        self._targets[:0] = self._find(self._begin, end)
        return named is not None

    def _wider(self, at: datetime, step: int) -> datetime:
        """How far to look: little for one target, more and more for many."""
        span, self._span = self._span, min(2 * self._span, LONGEST_MOVE)
        return at + step * span

    def _find(self, begin: datetime, end: datetime) -> list[datetime]:
        first = self._edge(begin, -1) if self._is_later else begin
        last = end if self._is_later else self._edge(end, 1)
        all_named = list(_between(self._named.next, first, end=last))
        found: dict[datetime, datetime] = {}
        # The nearest first: it counts where several meet, and those behind it need look no further than it had to.
        for named in reversed(all_named) if self._is_later else all_named:
            moved = self._moved(named)
            if begin <= moved < end:
                found.setdefault(moved, named)
        self._origins |= found
        return sorted(found)

    def _edge(self, at: datetime, step: int) -> datetime:
        """Beyond it, nothing that is named moves to this moment or over it."""
        day = at.astimezone(self._allowed.zone).date()
        for _ in range(LONGEST_MOVE_DAYS):
            day += step * _DAY
            if self._allowed.has_all_of(day):
                return datetime.combine(day + max(step, 0) * _DAY, time.min, self._allowed.zone).astimezone(UTC)
        return at + step * LONGEST_MOVE

    def _moved(self, named: datetime) -> datetime:
        """Where a named time goes; where it is, if that is allowed, or no day is near that is."""
        try:
            if not self._allowed.objection(named):
                return named
        except InvalidError:
            return named  # nothing is moved over days that nobody knows; it is judged where it is
        wall = named.astimezone(self._allowed.zone).replace(tzinfo=None)
        if wall not in self._havens:
            self._havens[wall] = self._find_haven(wall)
        return self._havens[wall] or named

    def _find_haven(self, wall: datetime) -> datetime | None:
        """The nearest other day on which a time of the day is allowed; None: none is near, or nobody knows."""
        step = _DAY if self._is_later else -_DAY
        for days in range(1, LONGEST_MOVE_DAYS + 1):
            moved = self._shown_at(wall + days * step)
            try:
                if moved is None or not self._allowed.objection(moved):
                    return moved
            except InvalidError:
                return None
            if wall + days * step in self._havens:
                return self._near(self._havens[wall + days * step], wall)
        return None

    def _near(self, haven: datetime | None, wall: datetime) -> datetime | None:
        if haven is None:
            return None
        away = haven.astimezone(self._allowed.zone).date() - wall.date()
        return haven if abs(away.days) <= LONGEST_MOVE_DAYS else None

    def _shown_at(self, wall: datetime) -> datetime | None:
        """When the clocks show a time, as the schedule means it where they skip it or show it twice: one run stays one.
        None: they skip it, and so does the schedule."""
        zone, is_second = self._allowed.zone, self._schedule.dst_overlap is DstOverlap.SECOND
        shown = wall.replace(tzinfo=zone, fold=int(is_second)).astimezone(UTC)
        if shown.astimezone(zone).replace(tzinfo=None) == wall:
            return shown
        if self._schedule.dst_gap is DstGap.SKIP:
            return None
        behind = wall.replace(tzinfo=zone, fold=0).timestamp()
        return datetime.fromtimestamp(stretch_at(self._schedule.zone, int(behind)).begin, UTC)


def _between(step: Callable[[datetime], datetime | None], begin: datetime, *, end: datetime) -> Iterator[datetime]:
    at = step(begin - _TICK)
    while at is not None and at < end:
        yield at
        at = step(at)
