"""Checks on values that come from outside. Each raises `InvalidError` naming the field; none changes anything."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from rota.domain.errors import InvalidError
from rota.domain.strict_json import check_values
from rota.domain.zones import suggest_zone

MAX_PAYLOAD_BYTES = 256 * 1024
MAX_RESULT_BYTES = 64 * 1024
MAX_DEPTH = 64
MAX_MESSAGE = 2000  # characters
MAX_LINE = 16_000  # characters of a log line: four bytes each still fit the 64 KiB of MySQL's TEXT
MAX_DETAIL = 64 * 1024  # characters: a long traceback
MAX_METADATA_KEYS = 64
MAX_RATE = 1e6  # per second
MAX_DURATION = timedelta(days=366)
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
# What is within itself is deeper than anything may be: that is found before.
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
_PLAIN_JSON = (
    msgspec.json.Encoder()
)  # spells these as the other does, in a tenth of the time; NaN it would take for null
_PLAIN = frozenset({str, int, bool, type(None)})
_TEXT = frozenset({str})
_CONTAINERS = (dict, list, tuple)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_UNHOLDABLE = re.compile("[\x00\ud800-\udfff]")
_LOCAL_ZONE = re.compile(r"localtime|posixrules|(posix|right)/.*")  # files that mean something else on each machine


def check_text(field: str, value: object, *, longest: int) -> str:
    """Text that every store can hold: a string, encodable, without NUL, not too long."""
    if not isinstance(value, str):
        raise InvalidError(field, f"must be text, not {type(value).__name__}")
    if "\x00" in value:
        raise InvalidError(field, "must not contain a NUL character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidError(field, f"is not valid Unicode (lone surrogate at {exc.start})") from exc
    if len(value) > longest:
        raise InvalidError(field, f"has {len(value)} characters, at most {longest} are allowed")
    return value


def check_name(field: str, value: object, *, longest: int = 200) -> str:
    """A name used in keys and routes: letters, digits and `_ . -`, starting with a letter or digit."""
    text = check_text(field, value, longest=longest)
    if not _NAME.fullmatch(text):
        raise InvalidError(field, f"{text!r} must be letters, digits and _ . - and start with a letter or digit")
    return text


def tidy_text(text: str, *, longest: int) -> str:
    """Text from user code, made fit for every store: what none can hold is replaced, what is too much is cut."""
    held = _UNHOLDABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    return held if len(held) <= longest else f"{held[: longest - 1]}…"


def check_duration(field: str, value: timedelta, *, least: timedelta = timedelta(0)) -> timedelta:
    """A duration within reason."""
    if not isinstance(value, timedelta):
        raise InvalidError(field, f"must be a duration, not {type(value).__name__}")
    if not least <= value <= MAX_DURATION:
        lowest = f"{least.total_seconds():g} seconds" if least else "0"
        problem = f"{value.total_seconds():.15g} seconds is not between {lowest} and {MAX_DURATION.days} days"
        raise InvalidError(field, problem)
    return value


def check_number(field: str, value: object, *, least: int, most: int) -> int:
    """A whole number in a range (a bool is not a number)."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidError(field, f"must be a whole number from {least} to {most}")
    return value


def check_rate(field: str, value: object) -> float:
    """So many per second: more than none, and no more than anybody could notice."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= MAX_RATE:
        raise InvalidError(field, f"must be a number of times per second, more than 0 and at most {MAX_RATE:g}")
    return float(value)


def check_aware(field: str, value: datetime) -> datetime:
    """A time with its zone, in any year."""
    if not isinstance(value, datetime):
        raise InvalidError(field, f"must be a time, not {type(value).__name__}")
    if value.tzinfo is None:
        raise InvalidError(field, "needs a time zone, for example 2026-01-31T09:00:00Z")
    return value


def check_instant(field: str, value: datetime) -> datetime:
    """An aware time that the id clock and every store can express."""
    check_aware(field, value)
    if not EARLIEST <= value < LATEST:
        raise InvalidError(field, f"{value.isoformat()} is outside the years 2000 to 2099")
    return value


def check_zone(field: str, name: object) -> str:
    """An IANA time zone name."""
    text = check_text(field, name, longest=64)
    problem = f"{text!r} is not an IANA time zone such as Asia/Shanghai"
    if _LOCAL_ZONE.fullmatch(text):
        raise InvalidError(field, problem)
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError) as exc:
        near = suggest_zone(text)
        raise InvalidError(
            field, f"{text!r} is not an IANA time zone; did you mean {near}?" if near else problem
        ) from exc
    return text


def check_metadata(field: str, value: Mapping[str, str]) -> dict[str, str]:
    """Small searchable facts: text to text."""
    if value == {}:
        return {}  # most tasks have none, and asking for a Mapping takes longer than all other checks of a task
    if not isinstance(value, Mapping):
        raise InvalidError(field, f"must be text by name, not {type(value).__name__}")
    if len(value) > MAX_METADATA_KEYS:
        raise InvalidError(field, f"has {len(value)} keys, at most {MAX_METADATA_KEYS} are allowed")
    return {
        check_name(field, key, longest=64): check_text(f"{field}.{key}", text, longest=500)
        for key, text in value.items()
    }


def to_json(field: str, value: Any, *, most_bytes: int = MAX_PAYLOAD_BYTES) -> str:
    """The value as JSON text; refuses what JSON or a store cannot hold (NaN, NUL, surrogates, keys, depth, size)."""
    is_plain = _is_plain(value)
    if not is_plain:
        _check_shape(field, value)
    try:
        encoded = _PLAIN_JSON.encode(value) if is_plain else _JSON.encode(value).encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidError(field, "is not valid Unicode (lone surrogate)") from exc
    except (TypeError, ValueError) as exc:
        check_values(value, within=field)  # a number that is none is told with its place
        raise InvalidError(field, f"cannot be written as JSON: {exc}") from exc
    text = encoded.decode("utf-8")
    if "\\u0000" in text and "\\u0000" in text.replace("\\\\", ""):  # an escaped backslash before u0000 is just text
        raise InvalidError(field, "must not contain a NUL character")
    _check_size(field, len(encoded), most_bytes=most_bytes)
    return text


def check_json(field: str, text: object, *, most_bytes: int = MAX_PAYLOAD_BYTES) -> str:
    """JSON text that `to_json` could have written, but for spaces."""
    held = check_text(field, text, longest=most_bytes)
    _check_size(field, len(held.encode("utf-8")), most_bytes=most_bytes)
    try:
        value = json.loads(held)
    except RecursionError as exc:
        raise InvalidError(field, f"is nested deeper than {MAX_DEPTH} levels") from exc
    except ValueError as exc:
        raise InvalidError(field, f"is not JSON: {exc}") from exc
    to_json(field, value, most_bytes=most_bytes)
    return held


def _check_size(field: str, size: int, *, most_bytes: int) -> None:
    if size > most_bytes:
        raise InvalidError(field, f"is {size} bytes of JSON, at most {most_bytes} are allowed")


def _is_plain(value: Any) -> bool:
    """Whether it is what most payloads are: values by name, none of which is a number with a point or holds others."""
    return type(value) is dict and _TEXT.issuperset(map(type, value)) and _PLAIN.issuperset(map(type, value.values()))


def _check_shape(field: str, value: Any) -> None:
    level = [value] if isinstance(value, _CONTAINERS) else []
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise InvalidError(field, f"is nested deeper than {MAX_DEPTH} levels")
        children: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                _check_keys(field, item)
                children += item.values()
            else:
                children += item
        level = [child for child in children if isinstance(child, _CONTAINERS)]


def _check_keys(field: str, value: Mapping[Any, Any]) -> None:
    for key in value:
        if not isinstance(key, str):
            raise InvalidError(field, "has a key that is not text")
