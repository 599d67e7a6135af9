"""Calendars from iCalendar files (RFC 5545), as holiday services and office programs export them.

Of each event its days count if it is a whole-day one, otherwise its period; one that was cancelled does not. What would
be misread is refused rather than left out: recurrence rules, durations, times that name no zone or that never end.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from rota.domain.calendar import MAX_DATES, Calendar, Period
from rota.domain.checks import check_zone
from rota.domain.errors import InvalidError

MAX_BYTES = 1024 * 1024
MAX_DAYS_OF_AN_EVENT = 366
_FIELD = "calendar.ics"
_FOLD = re.compile(r"\r?\n[ \t]")
_PROPERTY = re.compile(r"([A-Za-z-]+)((?:;[^:\"]*(?:\"[^\"]*\")?[^:\"]*)*):(.*)")
_ZONE = re.compile(r";TZID=\"?([^;\":]+)\"?", re.IGNORECASE)
_UNREADABLE = ("RRULE", "RDATE", "DURATION")

Moment = date | datetime
Property = tuple[str, str]  # parameters, value


def calendar_from_ics(name: str, text: str) -> Calendar:
    """The calendar that a file holds. Raises `InvalidError` that says which event cannot be read."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise InvalidError(_FIELD, f"is larger than {MAX_BYTES} bytes")
    if "BEGIN:VCALENDAR" not in text[:1000].upper():
        raise InvalidError(_FIELD, "is not an iCalendar file: BEGIN:VCALENDAR is missing")
    dates: set[date] = set()
    periods: list[Period] = []
    for number, event in enumerate(_events(text), 1):
        if event.get("STATUS", ("", ""))[1].upper() == "CANCELLED":
            continue
        begin, end = _span_of(event, number=number)
        if isinstance(begin, datetime) and isinstance(end, datetime):
            periods.append(Period(begin=begin, end=end))
        else:
            dates.update(_days(begin, end, number=number))
        if len(dates) > MAX_DATES:
            raise InvalidError(_FIELD, f"has more than {MAX_DATES} days")
    return Calendar(name=name, dates=frozenset(dates), periods=tuple(periods))


def _events(text: str) -> Iterator[dict[str, Property]]:
    event: dict[str, Property] | None = None
    nested = 0  # alarms and the like inside an event, whose properties are not the event's
    for line in _FOLD.sub("", text).splitlines():
        found = _PROPERTY.fullmatch(line.strip())
        if found is None:
            continue
        name, value = found[1].upper(), found[3].strip()
        if name == "BEGIN" and event is not None:
            nested += 1
        elif name == "BEGIN" and value.upper() == "VEVENT":
            event = {}
        elif name == "END" and event is not None:
            if not nested:
                yield event
                event = None
            nested = max(nested - 1, 0)
        elif event is not None and not nested:
            event[name] = (found[2], value)
    if event is not None:
        raise InvalidError(_FIELD, "ends in the middle of an event")


def _span_of(event: dict[str, Property], *, number: int) -> tuple[Moment, Moment]:
    for name in _UNREADABLE:
        if name in event:
            raise _refusal(number, f"{name} is not supported; export the single events")
    if "DTSTART" not in event:
        raise _refusal(number, "DTSTART is missing")
    begin = _moment(event["DTSTART"], number=number)
    if "DTEND" not in event and isinstance(begin, datetime):
        raise _refusal(number, "DTEND is missing, so that it ends when it begins")
    end = _moment(event["DTEND"], number=number) if "DTEND" in event else begin + timedelta(days=1)
    if isinstance(begin, datetime) != isinstance(end, datetime) or end <= begin:
        raise _refusal(number, "DTEND does not fit DTSTART")
    return begin, end


def _days(begin: date, end: date, *, number: int) -> Iterator[date]:
    count = (end - begin).days
    if count > MAX_DAYS_OF_AN_EVENT:
        raise _refusal(number, f"has {count} days, at most {MAX_DAYS_OF_AN_EVENT} are allowed")
    return (begin + timedelta(days=day) for day in range(count))


def _moment(given: Property, *, number: int) -> Moment:
    parameters, value = given
    try:
        if re.fullmatch("[0-9]{8}", value):
            return datetime.strptime(value, "%Y%m%d").replace(tzinfo=UTC).date()
        at = datetime.strptime(value.removesuffix("Z"), "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
        if value.endswith("Z"):
            return at
        if zone := _ZONE.search(parameters):
            return at.replace(tzinfo=ZoneInfo(check_zone(_FIELD, zone[1]))).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise _refusal(number, f"{value[:40]!r} is not a date or time") from exc
    raise _refusal(number, f"{value!r} names no zone; write it in UTC (…Z) or with TZID")


def _refusal(number: int, problem: str) -> InvalidError:
    return InvalidError(_FIELD, f"event {number}: {problem}")
