"""Schedules as JSON: `{"cron": "0 9 * * 1-5", "zone": "Asia/Shanghai", "overlap": "queue_one"}`.

Reading is strict: an unknown key is refused with the nearest known one, and so is every value of another kind. What has
its default is left out in writing, except the zone.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from rota.domain.checks import to_json
from rota.domain.cron.dialect import Dialect
from rota.domain.cron.recurrence import DstGap, DstOverlap
from rota.domain.errors import InvalidError
from rota.domain.priority import parse_priority
from rota.domain.schedule import OnExcluded, OnMissed, Overlap, Schedule
from rota.domain.spelling import hint


@dataclass(frozen=True, slots=True)
class _Key:
    """One key of the JSON: the field it is of, and how its value is read (with a name for errors) and written."""

    field: str
    read: Callable[[str, Any], Any]
    write: Callable[[Any], Any]


def schedule_from(given: object) -> Schedule:
    """The schedule that was written. Raises `InvalidError` that names the key."""
    if not isinstance(given, Mapping):
        raise InvalidError("schedule", f'must be an object such as {{"cron": "0 9 * * *"}}, not {type(given).__name__}')
    values = {}
    for key, value in given.items():
        if key not in _KEYS:
            raise InvalidError(f"schedule.{key}", f"is not known; {hint(str(key), _KEYS)}")
        if value is not None:
            values[_KEYS[key].field] = _KEYS[key].read(f"schedule.{key}", value)
    return Schedule(**values)


def schedule_to(schedule: Schedule) -> dict[str, Any]:
    """The schedule as `schedule_from` reads it."""
    written = {}
    for name, key in _KEYS.items():
        value = getattr(schedule, key.field)
        if value is not None and (value != _DEFAULTS[key.field] or key.field == "zone"):
            written[name] = key.write(value)
    return written


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidError(where, f"must be text, not {type(value).__name__}")
    return value


def _flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidError(where, f"must be true or false, not {type(value).__name__}")
    return value


def _as_given(_: str, value: Any) -> Any:
    """Judged by the schedule itself."""
    return value


def _seconds(where: str, value: Any) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidError(where, f"must be a number of seconds, not {type(value).__name__}")
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError) as exc:
        raise InvalidError(where, f"{value} is no number of seconds that can be kept") from exc


def _instant(where: str, value: Any) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as exc:
            raise InvalidError(where, f"{value[:40]!r} is not a time such as 2026-01-31T09:00:00Z") from exc
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidError(where, "must be a time with its zone, such as 2026-01-31T09:00:00Z")
    try:
        return value.astimezone(UTC)
    except OverflowError as exc:
        raise InvalidError(where, "is outside the years 2000 to 2099") from exc


def _instants(where: str, value: Any) -> tuple[datetime, ...]:
    if not isinstance(value, list | tuple):
        return (_instant(where, value),)
    if not value:
        raise InvalidError(where, "needs at least one time")
    return tuple(sorted({_instant(f"{where}[{place}]", one) for place, one in enumerate(value)}))


def _names(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidError(where, "must be a list of names")
    return tuple(_text(f"{where}[{place}]", one) for place, one in enumerate(value))


def _choice(kind: type[StrEnum]) -> Callable[[str, Any], StrEnum]:
    def read(where: str, value: Any) -> StrEnum:
        if value not in list(kind):
            raise InvalidError(where, f"{str(value)[:40]!r} must be one of {', '.join(kind)}")
        return kind(value)

    return read


def _priority(where: str, value: Any) -> int:
    try:
        return parse_priority(value)
    except InvalidError as exc:
        raise InvalidError(where, exc.problem) from exc


def _write_instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _write_instants(value: tuple[datetime, ...]) -> str | list[str]:
    return _write_instant(value[0]) if len(value) == 1 else [_write_instant(one) for one in value]


_KEYS: Mapping[str, _Key] = {
    "cron": _Key("cron", _text, str),
    "dialect": _Key("dialect", _choice(Dialect), str),
    "every_seconds": _Key("every", _seconds, timedelta.total_seconds),
    "after_end_seconds": _Key("after_end", _seconds, timedelta.total_seconds),
    "at": _Key("at", _instants, _write_instants),
    "zone": _Key("zone", _text, str),
    "dst_gap": _Key("dst_gap", _choice(DstGap), str),
    "dst_overlap": _Key("dst_overlap", _choice(DstOverlap), str),
    "start_at": _Key("start_at", _instant, _write_instant),
    "end_at": _Key("end_at", _instant, _write_instant),
    "jitter_seconds": _Key("jitter", _seconds, timedelta.total_seconds),
    "max_runs": _Key("max_runs", _as_given, int),
    "overlap": _Key("overlap", _choice(Overlap), str),
    "on_missed": _Key("on_missed", _choice(OnMissed), str),
    "missed_grace_seconds": _Key("missed_grace", _seconds, timedelta.total_seconds),
    "missed_limit": _Key("missed_limit", _as_given, int),
    "only": _Key("only", _names, list),
    "exclude": _Key("exclude", _names, list),
    "on_excluded": _Key("on_excluded", _choice(OnExcluded), str),
    "paused": _Key("is_paused", _flag, bool),
    "pause_note": _Key("pause_note", _text, str),
    "pause_after_failures": _Key("pause_after_failures", _as_given, int),
    "payload": _Key("payload", to_json, json.loads),
    "priority": _Key("priority", _priority, int),
}
KNOWN_KEYS = frozenset(_KEYS)
_DEFAULTS = {field.name: field.default for field in fields(Schedule)}
