"""Which wall-clock times an expression matches, and the next and previous one, without any time zone.

A wall time is the number of seconds that a clock on the wall shows, counted from 1970. Which days of a month match
depends on nothing but its length and the weekday it begins with, so that there are 28 masks at most and a search looks
at months, never at days.
"""

from collections.abc import Callable, Iterable
from datetime import date

from rota.domain.cron.dialect import FIRST_YEAR, LAST_YEAR

DAY = 86_400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

DayMask = Callable[[int, int], int]  # weekday of the first (0: Sunday), length of the month → bit n for day n


class _Steps:
    """The next and the previous of a set of small numbers, by table."""

    __slots__ = ("before", "first", "last", "next")

    def __init__(self, values: Iterable[int], size: int) -> None:
        held = sorted(set(values))
        self.first, self.last = held[0], held[-1]
        self.next: list[int] = []  # at n: the smallest that is n or more, or -1
        self.before: list[int] = []  # at n: the largest that is less than n, or -1
        for value in held:
            self.next += [value] * (value + 1 - len(self.next))
        self.next += [-1] * (size + 1 - len(self.next))
        previous = -1
        for value in held:
            self.before += [previous] * (value + 1 - len(self.before))
            previous = value
        self.before += [previous] * (size + 1 - len(self.before))


class Pattern:
    """The matching wall times of an expression."""

    __slots__ = (
        "_day_mask",
        "_first_time",
        "_hours",
        "_last_time",
        "_masks",
        "_minutes",
        "_months",
        "_seconds",
        "_years",
    )

    def __init__(
        self,
        times: tuple[Iterable[int], Iterable[int], Iterable[int]],
        *,
        months: Iterable[int],
        years: Iterable[int] | None,
        day_mask: DayMask,
    ) -> None:
        seconds, minutes, hours = times
        self._seconds, self._minutes, self._hours = _Steps(seconds, 60), _Steps(minutes, 60), _Steps(hours, 24)
        self._months = frozenset(months)
        self._years = None if years is None else frozenset(years)
        self._day_mask = day_mask
        self._masks: dict[tuple[int, int], int] = {}
        self._first_time = self._hours.first * 3600 + self._minutes.first * 60 + self._seconds.first
        self._last_time = self._hours.last * 3600 + self._minutes.last * 60 + self._seconds.last

    def next(self, wall: int) -> int | None:
        """The first match at or after this wall time; None if there is none before 2100."""
        day, time = divmod(wall, DAY)
        found = date.fromordinal(day + _EPOCH_ORDINAL)
        mask = self._mask(found.year, found.month) >> found.day
        if mask & 1 and (later := self._next_time(time)) >= 0:
            return day * DAY + later
        rest = mask >> 1
        if rest:
            return (day + _lowest(rest) + 1) * DAY + self._first_time
        ordinal = self._next_day(found.year, found.month + 1)
        return None if ordinal is None else (ordinal - _EPOCH_ORDINAL) * DAY + self._first_time

    def previous(self, wall: int) -> int | None:
        """The last match at or before this wall time; None if there is none from 1970 on."""
        day, time = divmod(wall, DAY)
        found = date.fromordinal(day + _EPOCH_ORDINAL)
        mask = self._mask(found.year, found.month)
        if mask >> found.day & 1 and (earlier := self._previous_time(time)) >= 0:
            return day * DAY + earlier
        rest = mask & ((1 << found.day) - 1)
        if rest:
            return (day - found.day + rest.bit_length() - 1) * DAY + self._last_time
        ordinal = self._previous_day(found.year, found.month - 1)
        return None if ordinal is None else (ordinal - _EPOCH_ORDINAL) * DAY + self._last_time

    def _next_day(self, year: int, month: int) -> int | None:
        while True:
            if month > 12:
                year, month = year + 1, 1
            if year > LAST_YEAR:
                return None
            if self._years is not None and year not in self._years:
                year, month = year + 1, 1
            elif mask := self._mask(year, month):
                return date(year, month, _lowest(mask)).toordinal()
            else:
                month += 1

    def _previous_day(self, year: int, month: int) -> int | None:
        while True:
            if month < 1:
                year, month = year - 1, 12
            if year < FIRST_YEAR:
                return None
            if self._years is not None and year not in self._years:
                year, month = year - 1, 12
            elif mask := self._mask(year, month):
                return date(year, month, mask.bit_length() - 1).toordinal()
            else:
                month -= 1

    def _mask(self, year: int, month: int) -> int:
        """Bit n says whether day n of this month matches."""
        if month not in self._months or (self._years is not None and year not in self._years):
            return 0
        is_leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        key = (date(year, month, 1).toordinal() % 7, _LENGTHS[month] + is_leap)
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks[key] = self._day_mask(*key)
        return mask

    def _next_time(self, time: int) -> int:
        """The first matching time of the day at or after this one, or -1."""
        hour, rest = divmod(time, 3600)
        if self._hours.next[hour] == hour:
            minute, second = divmod(rest, 60)
            if self._minutes.next[minute] == minute and (found := self._seconds.next[second]) >= 0:
                return hour * 3600 + minute * 60 + found
            if (found := self._minutes.next[minute + 1]) >= 0:
                return hour * 3600 + found * 60 + self._seconds.first
        later = self._hours.next[hour + 1]
        return -1 if later < 0 else later * 3600 + self._first_time % 3600

    def _previous_time(self, time: int) -> int:
        """The last matching time of the day at or before this one, or -1."""
        hour, rest = divmod(time, 3600)
        if self._hours.next[hour] == hour:
            minute, second = divmod(rest, 60)
            if self._minutes.next[minute] == minute and (found := self._seconds.before[second + 1]) >= 0:
                return hour * 3600 + minute * 60 + found
            if (found := self._minutes.before[minute]) >= 0:
                return hour * 3600 + found * 60 + self._seconds.last
        earlier = self._hours.before[hour]
        return -1 if earlier < 0 else earlier * 3600 + self._last_time % 3600


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
