"""Calendars as JSON: `{"dates": ["2026-12-24"], "windows": [{"weekdays": [6, 7]}]}`. Empty parts are left out."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from typing import Any, TypeVar

from rota.domain.calendar import BusinessDays, Calendar, Period, Window
from rota.domain.checks import check_number
from rota.domain.errors import InvalidError
from rota.domain.spelling import hint

T = TypeVar("T")

_KEYS = ("dates", "windows", "periods", "business_days", "years")


def calendar_from(name: str, given: Mapping[str, Any]) -> Calendar:
    """The calendar that was written. Raises `InvalidError` that names the key."""
    _check_keys("calendar", given, known=_KEYS)
    business = given.get("business_days")
    return Calendar(
        name=name,
        dates=_days("calendar.dates", given.get("dates")),
        windows=tuple(_each("calendar.windows", given.get("windows"), read=_window)),
        periods=tuple(_each("calendar.periods", given.get("periods"), read=_period)),
        business_days=None if business is None else _business_days("calendar.business_days", business),
        years=_years(given.get("years")),
    )


def calendar_to(calendar: Calendar) -> dict[str, Any]:
    """The calendar as `calendar_from` reads it."""
    business = calendar.business_days
    written = {
        "dates": _write_days(calendar.dates),
        "windows": [_write_window(one) for one in calendar.windows],
        "periods": [{"begin": _write_instant(one.begin), "end": _write_instant(one.end)} for one in calendar.periods],
        "business_days": None if business is None else _write_business_days(business),
        "years": None if calendar.years is None else list(calendar.years),
    }
    return {key: value for key, value in written.items() if value not in (None, [])}


def _check_keys(where: str, given: object, *, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidError(where, f"must be an object, not {type(given).__name__}")
    for key in given:
        if key not in known:
            raise InvalidError(f"{where}.{key}", f"is not known; {hint(str(key), known)}")
    return given


def _each(where: str, given: object, *, read: Callable[[str, Any], T]) -> list[T]:
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        raise InvalidError(where, f"must be a list, not {type(given).__name__}")
    return [read(f"{where}[{place}]", one) for place, one in enumerate(given)]


def _days(where: str, given: object) -> frozenset[date]:
    return frozenset(_each(where, given, read=_day))


def _day(where: str, given: Any) -> date:
    try:
        return datetime.strptime(given, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except (TypeError, ValueError) as exc:
        raise InvalidError(where, f"{str(given)[:40]!r} is not a day such as 2026-12-24") from exc


def _window(where: str, given: Any) -> Window:
    found = _check_keys(where, given, known=("weekdays", "begin", "end"))
    begin, end = (_time_of_day(f"{where}.{key}", found.get(key, "00:00")) for key in ("begin", "end"))
    return Window(weekdays=_weekdays(where, found.get("weekdays", list(range(1, 8)))), begin=begin, end=end)


def _weekdays(where: str, given: object) -> frozenset[int]:
    return frozenset(_each(f"{where}.weekdays", given, read=_weekday))


def _weekday(where: str, given: Any) -> int:
    return check_number(where, given, least=1, most=7)


def _time_of_day(where: str, given: Any) -> time:
    try:
        found = time.fromisoformat(given)
    except (TypeError, ValueError) as exc:
        quoted = "; in YAML it needs quotes" if isinstance(given, int) else ""  # which reads 22:00 as 1320
        raise InvalidError(where, f"{str(given)[:40]!r} is not a time of day such as '22:00'{quoted}") from exc
    if found.tzinfo is not None:
        raise InvalidError(where, "must name no zone: a window goes by the clock of the schedule's zone")
    return found


def _period(where: str, given: Any) -> Period:
    found = _check_keys(where, given, known=("begin", "end"))
    begin, end = (_instant(f"{where}.{key}", found.get(key)) for key in ("begin", "end"))
    return Period(begin=begin, end=end)


def _instant(where: str, given: Any) -> datetime:
    try:
        at = datetime.fromisoformat(given)
        if at.tzinfo is not None:
            return at.astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as exc:
        raise InvalidError(where, f"{str(given)[:40]!r} is not a time such as 2026-12-24T09:00:00Z") from exc
    raise InvalidError(where, "must be a time with its zone, such as 2026-12-24T09:00:00Z")


def _business_days(where: str, given: Any) -> BusinessDays:
    found = _check_keys(where, given, known=("weekdays", "holidays", "workdays"))
    return BusinessDays(
        weekdays=_weekdays(where, found.get("weekdays", list(range(1, 6)))),
        holidays=_days(f"{where}.holidays", found.get("holidays")),
        workdays=_days(f"{where}.workdays", found.get("workdays")),
    )


def _years(given: object) -> tuple[int, int] | None:
    if given is None:
        return None
    if not isinstance(given, list | tuple) or len(given) != 2 or not all(type(one) is int for one in given):
        raise InvalidError("calendar.years", "must be the first and the last year that it knows, such as [2026, 2028]")
    return given[0], given[1]


def _write_days(days: frozenset[date]) -> list[str]:
    return [day.isoformat() for day in sorted(days)]


def _write_window(window: Window) -> dict[str, Any]:
    times = {"begin": window.begin.isoformat(), "end": window.end.isoformat()}
    return {"weekdays": sorted(window.weekdays), **times}


def _write_instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _write_business_days(business: BusinessDays) -> dict[str, Any]:
    return {
        "weekdays": sorted(business.weekdays),
        "holidays": _write_days(business.holidays),
        "workdays": _write_days(business.workdays),
    }
