"""What the values of iCalendar properties say: moments, lengths, zones. Whatever is refused names its line."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from rota.domain.checks import check_zone
from rota.domain.errors import InvalidError
from rota.infrastructure.calendars.windows_zones import ZONES

FIELD = "calendar.ics"
_FIRST_YEAR, _LAST_YEAR = 1900, 2999  # what is not meant to be counted from or to
_ZONE = re.compile(r";TZID=(?:\"([^\"]*)\"|([^;:\"]*))", re.IGNORECASE)
_DURATION = re.compile(r"\+?P(?:(\d{1,4})W)?(?:(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?")


class Property(NamedTuple):
    line: int
    parameters: str
    value: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A whole day, or a time that the clocks of a zone show."""

    wall: datetime  # as if it were UTC
    zone: tzinfo | None  # None: a whole day

    @property
    def is_day(self) -> bool:
        return self.zone is None

    @property
    def key(self) -> datetime:
        """What it is the same by, however it is written: the instant, or midnight for a day."""
        return self.wall if self.zone is None else self.wall.replace(tzinfo=self.zone).astimezone(UTC)

    def at(self, wall: datetime) -> "Moment":
        """Another one of the same kind."""
        return replace(self, wall=wall)


@dataclass(frozen=True, slots=True)
class Length:
    """Days by the calendar, then time by the clock: they differ where clocks are changed."""

    days: int = 0
    rest: timedelta = timedelta(0)


def refusal(line: int, problem: str) -> InvalidError:
    return InvalidError(FIELD, f"line {line}: {problem}")


def read_moment(given: Property) -> Moment:
    value, is_day = given.value, re.fullmatch("[0-9]{8}", given.value) is not None
    try:
        form = "%Y%m%d" if is_day else "%Y%m%dT%H%M%S"
        wall = datetime.strptime(value.removesuffix("Z"), form).replace(tzinfo=UTC)
    except ValueError as exc:
        raise refusal(given.line, f"{value[:40]!r} is not a date or time") from exc
    if not _FIRST_YEAR <= wall.year <= _LAST_YEAR:
        raise refusal(given.line, f"{value!r} is in no year from {_FIRST_YEAR} to {_LAST_YEAR}")
    if is_day:
        return Moment(wall, None)
    if value.endswith("Z"):
        return Moment(wall, UTC)
    if zone := _ZONE.search(given.parameters):
        return Moment(wall, _find_zone(zone[1] or zone[2] or "", line=given.line))
    raise refusal(given.line, f"{value!r} names no zone; write it in UTC (…Z) or with TZID")


def read_moments(given: Property) -> list[Moment]:
    """Several, with commas between."""
    if "VALUE=PERIOD" in given.parameters.upper():
        raise refusal(given.line, "VALUE=PERIOD is not supported; export the single events")
    return [read_moment(given._replace(value=value.strip())) for value in given.value.split(",")]


def read_length(given: Property) -> Length:
    found = _DURATION.fullmatch(given.value.upper())
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0,) * 5
    length = Length(7 * weeks + days, timedelta(hours=hours, minutes=minutes, seconds=seconds))
    if length == Length():
        raise refusal(given.line, f"DURATION {given.value[:40]!r} is not a length of time such as P1D or PT90M")
    return length


def _find_zone(name: str, *, line: int) -> ZoneInfo:
    """By its IANA name, or by the one that Windows has for it."""
    try:
        return ZoneInfo(check_zone(FIELD, ZONES.get(name, name)))
    except InvalidError as exc:
        raise refusal(line, f"TZID {name[:60]!r} is neither an IANA time zone nor one of Windows") from exc
