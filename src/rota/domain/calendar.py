"""Calendars: named sets of moments that schedules can keep to, or keep out of.

A calendar is pure data. It is asked with the wall time of a schedule's zone, so that a holiday is a holiday where the
schedule lives; the instants of a period are the same everywhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time

from rota.domain.checks import check_aware, check_name
from rota.domain.errors import InvalidError

MAX_DATES = 10_000
MAX_WINDOWS = 100
_WEEKDAYS = frozenset(range(1, 8))
_WORKDAYS = frozenset(range(1, 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From `begin` and before `end` on some weekdays (1: Monday … 7: Sunday); over midnight when end is not later."""

    weekdays: frozenset[int] = _WEEKDAYS
    begin: time = time.min
    end: time = time.min

    def __post_init__(self) -> None:
        if not self.weekdays or not self.weekdays <= _WEEKDAYS:
            raise InvalidError("calendar.windows", "weekdays are 1 (Monday) to 7 (Sunday)")

    def covers(self, wall: datetime) -> bool:
        shown, weekday = wall.time(), wall.isoweekday()
        if self.begin < self.end:
            return weekday in self.weekdays and self.begin <= shown < self.end
        began_today = weekday in self.weekdays and shown >= self.begin
        return began_today or ((weekday - 2) % 7 + 1 in self.weekdays and shown < self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """From one instant and before another, such as a freeze of releases."""

    begin: datetime
    end: datetime

    def __post_init__(self) -> None:
        if check_aware("calendar.periods", self.begin) >= check_aware("calendar.periods", self.end):
            raise InvalidError("calendar.periods", "must end later than it begins")


@dataclass(frozen=True, slots=True, kw_only=True)
class BusinessDays:
    """Monday to Friday, without holidays and with the days on which people work instead."""

    weekdays: frozenset[int] = _WORKDAYS
    holidays: frozenset[date] = frozenset()
    workdays: frozenset[date] = frozenset()  # worked although the weekday is free

    def covers(self, day: date) -> bool:
        return day in self.workdays or (day.isoweekday() in self.weekdays and day not in self.holidays)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Everything that any of its parts covers."""

    name: str
    dates: frozenset[date] = frozenset()
    windows: tuple[Window, ...] = ()
    periods: tuple[Period, ...] = ()
    business_days: BusinessDays | None = None

    def __post_init__(self) -> None:
        check_name("calendar.name", self.name)
        business = self.business_days or BusinessDays()
        _check_count("dates", (*self.dates, *business.holidays, *business.workdays), most=MAX_DATES)
        _check_count("windows", self.windows, most=MAX_WINDOWS)
        _check_count("periods", self.periods, most=MAX_WINDOWS)

    def covers(self, wall: datetime) -> bool:
        """Whether an aware time is in it, by the clock of the zone it carries."""
        day = wall.date()
        return (
            day in self.dates
            or (self.business_days is not None and self.business_days.covers(day))
            or any(window.covers(wall) for window in self.windows)
            or any(period.begin <= wall < period.end for period in self.periods)
        )


def _check_count(name: str, things: Iterable[object], *, most: int) -> None:
    count = sum(1 for _ in things)
    if count > most:
        raise InvalidError(f"calendar.{name}", f"has {count} entries, at most {most} are allowed")
