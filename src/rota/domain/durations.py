"""Durations as people write them: `100ms`, `10s`, `5m`, `1h30m`, `2d`."""

import math
import re
from datetime import timedelta

from rota.domain.checks import check_duration
from rota.domain.errors import InvalidError

_UNITS = {  # largest first: the order in which they are written
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}
_PART = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-z]*)")
_EXAMPLES = "write it like 100ms, 10s, 5m, 1h30m or 2d"
_LONGEST_TEXT = 64  # characters; nobody writes a longer one, and an error must not repeat a whole file


def parse_duration(field: str, value: str | int | float | timedelta) -> timedelta:
    """The duration that was written; a bare number counts seconds. Raises `InvalidError` that names the field."""
    if isinstance(value, timedelta):
        return check_duration(field, value)
    if isinstance(value, str):
        return check_duration(field, _parse_text(field, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidError(field, f"must be a duration, not {type(value).__name__}; {_EXAMPLES}")
    if not math.isfinite(value):
        raise InvalidError(field, f"{value} is not a duration; {_EXAMPLES}")
    return check_duration(field, _sum(field, [(float(value), "s")]))


def format_duration(value: timedelta) -> str:
    """The duration as `parse_duration` reads it, in whole units: `1h30m`, `1s500ms`, `0s`."""
    return "".join([f"{count}{unit}" for count, unit in split_duration(value)]) or "0s"


def split_duration(value: timedelta) -> list[tuple[int, str]]:
    """How many of each unit it has, the largest first, without those of which it has none."""
    if value < timedelta(0):
        raise InvalidError("duration", f"{value.total_seconds():g} seconds is less than nothing")
    parts = []
    for unit, length in _UNITS.items():
        count, value = divmod(value, length)
        if count:
            parts.append((count, unit))
    return parts


def _parse_text(field: str, text: str) -> timedelta:
    written = text.strip()
    if not written:
        raise InvalidError(field, f"is empty; {_EXAMPLES}")
    if len(written) > _LONGEST_TEXT:
        raise InvalidError(field, f"has {len(written)} characters, too many for a duration; {_EXAMPLES}")
    parts: list[tuple[float, str]] = []
    place = 0
    while place < len(written):
        found = _PART.match(written, place)
        if found is None:
            if written.startswith("-"):
                raise InvalidError(field, f"must not be negative, as {written!r} is")
            raise InvalidError(field, f"{written!r} is not a duration; {_EXAMPLES}")
        parts.append((float(found[1]), _check_unit(field, found[2], written=written)))
        place = found.end()
        while place < len(written) and written[place].isspace():
            place += 1
    units = [unit for _, unit in parts]
    if units != [unit for unit in _UNITS if unit in units]:
        raise InvalidError(field, f"{written!r} must name each unit once, the largest first, like 1h30m")
    return _sum(field, parts)


def _check_unit(field: str, unit: str, *, written: str) -> str:
    if not unit:
        raise InvalidError(field, f"{written!r} has a number without a unit; {_EXAMPLES}")
    if unit not in _UNITS:
        raise InvalidError(field, f"{unit!r} in {written!r} is no unit; use {', '.join(_UNITS)}")
    return unit


def _sum(field: str, parts: list[tuple[float, str]]) -> timedelta:
    try:
        return sum((_UNITS[unit] * count for count, unit in parts), timedelta(0))
    except OverflowError as exc:
        raise InvalidError(field, "is longer than any duration that can be kept") from exc
