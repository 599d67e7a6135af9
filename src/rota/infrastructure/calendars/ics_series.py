"""Events of iCalendar files that repeat: RRULE, RDATE and EXDATE.

A rule is followed to its end, or as far as any calendar goes; what it would take too many days or periods for is
refused. `python-dateutil` finds its days; it is given none of the rules that it could search for ever.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice

from rota.domain.calendar import MAX_DATES, MAX_WINDOWS
from rota.domain.checks import LATEST
from rota.domain.errors import ConfigError
from rota.infrastructure.calendars.ics_values import Moment, Property, read_moment, read_moments, refusal

_KNOWN = frozenset(
    (
        "FREQ",
        "INTERVAL",
        "COUNT",
        "UNTIL",
        "WKST",
        "BYMONTH",
        "BYMONTHDAY",
        "BYYEARDAY",
        "BYWEEKNO",
        "BYDAY",
        "BYSETPOS",
    )
)
_PACES = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")


def starts_of(
    begin: Moment, properties: Mapping[str, Sequence[Property]], *, replaced: Collection[Moment]
) -> Iterator[Moment]:
    """When an event begins, each time; but for the times that other events stand in for."""
    gone = {moment.key for moment in (*_list_moments("EXDATE", begin, given=properties), *replaced)}
    rules = properties.get("RRULE", ())
    if len(rules) > 1:
        raise refusal(rules[1].line, "an event may have one RRULE")
    starts = (moment for rule in rules for moment in _follow(rule, begin))
    seen: set[datetime] = set()
    for moment in (*(starts if rules else (begin,)), *_list_moments("RDATE", begin, given=properties)):
        if moment.key not in gone and moment.key not in seen:
            seen.add(moment.key)
            yield moment


def _list_moments(name: str, begin: Moment, *, given: Mapping[str, Sequence[Property]]) -> Iterator[Moment]:
    for one in given.get(name, ()):
        for moment in read_moments(one):
            if moment.is_day != begin.is_day:
                raise refusal(one.line, f"{name} does not fit DTSTART: both must be days, or both times")
            yield moment


def _follow(rule: Property, begin: Moment) -> list[Moment]:
    parts = _read_parts(rule)
    until, count = _find_end(rule, begin, parts=parts), _find_number(rule, parts.pop("COUNT", None))
    most = MAX_DATES if begin.is_day else MAX_WINDOWS
    walls = islice(_list_walls(rule, begin.wall, parts=parts, until=until), count)
    found = [begin.at(wall) for wall in islice(walls, most + 1)]
    if len(found) > most:
        what = "days" if begin.is_day else "periods; what comes every week is better a window of the calendar"
        raise refusal(rule.line, f"RRULE makes more than {most} {what}")
    if not found or found[0] != begin:
        raise refusal(rule.line, "DTSTART is not the first time of its RRULE")
    return found


def _read_parts(rule: Property) -> dict[str, str]:
    pairs = [part.partition("=") for part in rule.value.upper().rstrip(";").split(";")]
    parts = {name: value for name, _, value in pairs}
    strange = sorted(parts.keys() - _KNOWN)
    if strange:
        raise refusal(rule.line, f"RRULE with {strange[0][:40]} is not supported; export the single events")
    if len(parts) != len(pairs):
        raise refusal(rule.line, "RRULE says something twice")
    if parts.get("FREQ") not in _PACES:
        raise refusal(rule.line, f"RRULE needs a FREQ of {', '.join(_PACES)}")
    _find_number(rule, parts.get("INTERVAL"))
    return parts


def _find_number(rule: Property, value: str | None) -> int | None:
    if value is None:
        return None
    if not re.fullmatch("[1-9][0-9]{0,8}", value):
        raise refusal(rule.line, f"RRULE: {value[:40]!r} is not a number from 1")
    return int(value)


def _find_end(rule: Property, begin: Moment, *, parts: dict[str, str]) -> datetime:
    """By the clocks of the event's zone, as what it begins with."""
    written = parts.pop("UNTIL", None)
    if written is None:
        return LATEST
    if "COUNT" in parts:
        raise refusal(rule.line, "RRULE has both COUNT and UNTIL")
    until = read_moment(Property(rule.line, "", written))
    if begin.zone is None:
        return until.wall.replace(hour=0, minute=0, second=0)
    if until.zone is None:
        raise refusal(rule.line, f"UNTIL={written} is a day, and DTSTART a time")
    return until.wall.astimezone(begin.zone).replace(tzinfo=UTC)


def _list_walls(rule: Property, begin: datetime, *, parts: Mapping[str, str], until: datetime) -> Iterator[datetime]:
    try:
        from dateutil.rrule import rrulestr  # it comes with `holidays`
    except ImportError as exc:
        raise ConfigError("the package python-dateutil is not installed", fix="pip install 'rota[calendars]'") from exc
    text = ";".join(f"{name}={value}" for name, value in parts.items())
    try:
        series: Iterator[datetime] = iter(rrulestr(text, dtstart=begin).replace(until=min(until, LATEST)))
    except ValueError as exc:
        raise refusal(rule.line, f"RRULE {rule.value[:60]!r} cannot be read: {exc}") from exc
    return series
