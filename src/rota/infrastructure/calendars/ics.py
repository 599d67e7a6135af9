"""Calendars from iCalendar files (RFC 5545), as holiday services and office programs export them.

Of each event its days count if it is a whole-day one, otherwise its period, as often as it repeats; one that was
cancelled does not. What would be misread is refused, with its line, rather than left out: times that name no zone or
that never end, rules that are not known.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from rota.domain.calendar import MAX_DATES, MAX_WINDOWS, Calendar, Period
from rota.domain.errors import InvalidError
from rota.infrastructure.calendars.ics_series import starts_of
from rota.infrastructure.calendars.ics_values import (
    FIELD,
    Length,
    Moment,
    Property,
    read_length,
    read_moment,
    refusal,
)

MAX_BYTES = 1024 * 1024
MAX_DAYS_OF_AN_EVENT = 366
_PROPERTY = re.compile(r"([A-Za-z-]+)((?:;[^:\"]*(?:\"[^\"]*\")?[^:\"]*)*):(.*)")
_ONCE = ("DTSTART", "DTEND", "DURATION", "RECURRENCE-ID", "STATUS", "UID")

Replaced = Mapping[str, Collection[Moment]]  # by the UID of a series, the times that other events stand in for


@dataclass(frozen=True, slots=True)
class _Event:
    line: int
    properties: dict[str, list[Property]] = field(default_factory=lambda: defaultdict(list))

    def find(self, name: str) -> Property | None:
        found = self.properties.get(name)
        return found[0] if found else None

    def text(self, name: str) -> str:
        found = self.find(name)
        return "" if found is None else found.value


def calendar_from_ics(name: str, text: str) -> Calendar:
    """The calendar that a file holds. Raises `InvalidError` that says which line cannot be read."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise InvalidError(FIELD, f"is larger than {MAX_BYTES} bytes")
    if "BEGIN:VCALENDAR" not in text[:1000].upper():
        raise InvalidError(FIELD, "is not an iCalendar file: BEGIN:VCALENDAR is missing")
    events = list(_events(text))
    replaced = _find_replaced(events)
    dates: set[date] = set()
    periods: list[Period] = []
    for event in events:
        if event.text("STATUS").upper() == "CANCELLED":
            continue
        begin, length = _span_of(event)
        for start in starts_of(begin, event.properties, replaced=_others(event, begin, replaced=replaced)):
            if start.is_day:
                dates.update(start.wall.date() + timedelta(days=day) for day in range(length.days))
            else:
                periods.append(_period(start, length))
        if len(dates) > MAX_DATES or len(periods) > MAX_WINDOWS:
            raise refusal(event.line, f"up to here are more than {MAX_DATES} days, or than {MAX_WINDOWS} periods")
    return Calendar(name=name, dates=frozenset(dates), periods=tuple(periods))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """What a line says with those that continue it, and its number."""
    begun, whole = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line[:1] in (" ", "\t") and begun:
            whole += line[1:]
            continue
        if begun:
            yield begun, whole
        begun, whole = number, line
    if begun:
        yield begun, whole


def _events(text: str) -> Iterator[_Event]:
    event: _Event | None = None
    nested = 0  # alarms and the like inside an event, whose properties are not the event's
    for number, line in _lines(text):
        found = _PROPERTY.fullmatch(line.strip())
        if found is None:
            continue
        name, value = found[1].upper(), found[3].strip()
        if name == "BEGIN" and event is not None:
            nested += 1
        elif name == "BEGIN" and value.upper() == "VEVENT":
            event = _Event(number)
        elif name == "END" and event is not None:
            if not nested:
                yield event
                event = None
            nested = max(nested - 1, 0)
        elif event is not None and not nested:
            event.properties[name].append(Property(number, found[2], value))
            if name in _ONCE and len(event.properties[name]) > 1:
                raise refusal(number, f"{name} is there twice")
    if event is not None:
        raise refusal(event.line, "the file ends in the middle of the event that begins here")


def _find_replaced(events: Collection[_Event]) -> Replaced:
    """The times of series for which the file has an event of their own, cancelled or not."""
    replaced: dict[str, list[Moment]] = defaultdict(list)
    for event in events:
        instead = event.find("RECURRENCE-ID")
        if instead is None:
            continue
        if "RANGE=" in instead.parameters.upper():
            raise refusal(instead.line, "RECURRENCE-ID with RANGE is not supported; export the single events")
        replaced[event.text("UID")].append(read_moment(instead))
    return replaced


def _others(event: _Event, begin: Moment, *, replaced: Replaced) -> Collection[Moment]:
    """Which times of an event others stand in for; one that stands in for another is there all the same."""
    if "RECURRENCE-ID" in event.properties:
        return ()
    others = replaced.get(event.text("UID"), ())
    if any(one.is_day != begin.is_day for one in others):
        raise refusal(event.line, "one of its RECURRENCE-IDs does not fit DTSTART: both must be days, or both times")
    return others


def _span_of(event: _Event) -> tuple[Moment, Length]:
    """When an event begins first, and how long it is."""
    for rule in event.properties.get("EXRULE", ()):
        raise refusal(rule.line, "EXRULE is not supported; export the single events")
    given, until, duration = event.find("DTSTART"), event.find("DTEND"), event.find("DURATION")
    if given is None:
        raise refusal(event.line, "DTSTART is missing in the event that begins here")
    begin = read_moment(given)
    if duration is not None:
        if until is not None:
            raise refusal(duration.line, "an event has DTEND or DURATION, not both")
        length, line = read_length(duration), duration.line
        if begin.is_day and length.rest:
            raise refusal(line, f"DURATION {duration.value} is no number of days, and DTSTART is a day")
    elif until is not None:
        length, line = _between(begin, read_moment(until), line=until.line), until.line
    elif begin.is_day:
        length, line = Length(days=1), given.line
    else:
        raise refusal(given.line, "DTEND is missing, so that it ends when it begins")
    if begin.is_day and length.days > MAX_DAYS_OF_AN_EVENT:
        raise refusal(line, f"has {length.days} days, at most {MAX_DAYS_OF_AN_EVENT} are allowed")
    return begin, length


def _between(begin: Moment, end: Moment, *, line: int) -> Length:
    if begin.is_day != end.is_day or end.key <= begin.key:
        raise refusal(line, "DTEND does not fit DTSTART")
    length = end.key - begin.key
    return Length(days=length.days) if begin.is_day else Length(rest=length)


def _period(start: Moment, length: Length) -> Period:
    end = start.at(start.wall + timedelta(days=length.days))
    return Period(begin=start.key, end=end.key + length.rest)
