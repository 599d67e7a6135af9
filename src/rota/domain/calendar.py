"""Calendars: named sets of moments that schedules can keep to, or keep out of.

A calendar is pure data. It is asked with the wall time of a schedule's zone, so that a holiday is a holiday where the
schedule lives; the instants of a period are the same everywhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta

from rota.domain.checks import EARLIEST, LATEST, check_aware, check_name, check_number, check_text
from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT, TenantId

MAX_DATES = 10_000
MAX_WINDOWS = 100
NAMED_USERS = 5  # schedules that are named of a calendar that cannot be deleted because of them
_WEEKDAYS = frozenset(range(1, 8))
_WORKDAYS = frozenset(range(1, 6))
_FIRST_YEAR, _LAST_YEAR = EARLIEST.year, LATEST.year


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

    def touches(self, day: date) -> bool:
        """Whether it may cover some moment of a day."""
        return bool({day.isoweekday(), (day.isoweekday() - 2) % 7 + 1} & self.weekdays)


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
    years: tuple[int, int] | None = None  # the first and the last that it knows about; None: every one

    def __post_init__(self) -> None:
        check_name("calendar.name", self.name)
        if self.years is not None:
            first, last = self.years
            check_number("calendar.years", first, least=_FIRST_YEAR, most=_LAST_YEAR)
            check_number("calendar.years", last, least=first, most=_LAST_YEAR)
        business = self.business_days or BusinessDays()
        _check_count("dates", (*self.dates, *business.holidays, *business.workdays), most=MAX_DATES)
        _check_count("windows", self.windows, most=MAX_WINDOWS)
        _check_count("periods", self.periods, most=MAX_WINDOWS)

    def covers(self, wall: datetime) -> bool:
        """Whether an aware time is in it, by the clock of the zone it carries.

        Raises `InvalidError` for a year that it knows nothing about: a holiday that nobody entered is no workday.
        """
        day = wall.date()
        if self.years is not None and not self._knows(day.year):
            known = f"{self.years[0]} to {self.years[1]}"
            raise InvalidError("calendar", f"{self.name} knows the years {known}, not {day.year}; put it anew")
        return (
            self._covers_date(day)
            or any(window.covers(wall) for window in self.windows)
            or any(period.begin <= wall < period.end for period in self.periods)
        )

    def covers_all_of(self, day: date) -> bool:
        """Whether it is certain that it covers a whole day, whatever the clock shows."""
        return self._knows(day.year) and self._covers_date(day)

    def touches(self, midnight: datetime) -> bool:
        """Whether it may cover some moment of the day that begins then."""
        day, end = midnight.date(), midnight + timedelta(days=1)
        return (
            not self._knows(day.year)
            or self._covers_date(day)
            or any(window.touches(day) for window in self.windows)
            or any(period.begin < end and midnight < period.end for period in self.periods)
        )

    def _knows(self, year: int) -> bool:
        return self.years is None or self.years[0] <= year <= self.years[1]

    def _covers_date(self, day: date) -> bool:
        return day in self.dates or (self.business_days is not None and self.business_days.covers(day))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCalendar:
    """A calendar of a tenant, as it is kept under its name."""

    calendar: Calendar
    tenant_id: TenantId = DEFAULT_TENANT
    description: str = ""
    origin: str = ""  # where its days come from, such as `country CN`
    revision: int = 0  # 0: not stored yet
    created_at: datetime | None = None
    updated_at: datetime | None = None

    def __post_init__(self) -> None:
        check_name("tenant", self.tenant_id, longest=63)
        check_text("calendar.description", self.description, longest=2000)
        check_text("calendar.origin", self.origin, longest=200)

    @property
    def name(self) -> str:
        return self.calendar.name

    def is_repeat_of(self, current: "StoredCalendar", *, expected_revision: int | None) -> bool:
        """Whether storing this would change nothing: it is the current one, perhaps stored by this very call."""
        stamped = replace(self, revision=current.revision, created_at=current.created_at, updated_at=current.updated_at)
        is_expected = expected_revision in (None, current.revision, current.revision - 1)
        return stamped == current and is_expected


def _check_count(name: str, things: Iterable[object], *, most: int) -> None:
    count = sum(1 for _ in things)
    if count > most:
        raise InvalidError(f"calendar.{name}", f"has {count} entries, at most {most} are allowed")
