"""What a setting may be: each kind reads a raw value, says what is allowed, and writes the value back.

A raw value is what YAML made of the file, or the text of an environment variable or a flag. Whatever `write` gives,
`read` accepts. A value that is not allowed is an `InvalidError` that names the setting.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

from rota.domain.checks import check_duration, check_metadata, check_name, check_number, check_text, to_json
from rota.domain.durations import format_duration, parse_duration
from rota.domain.errors import ConfigError, InvalidError
from rota.domain.worker import ANY_TYPE, EXECUTOR_MARK, types_by
from rota.infrastructure.server_urls import UNREADABLE, split_url
from rota.infrastructure.telemetry.redact import redact_text

T = TypeVar("T")

LONGEST_TEXT = 4096
LONGEST_WEB_URL = 500
MOST_ITEMS = 1000
NULL_WORDS = frozenset({"", "null", "none", "~"})
SIZE_UNITS = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_SIZE = re.compile(r"([0-9]{1,12})\s*(B|KiB|MiB|GiB)")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
_WEB_URL = re.compile(r"https?://[A-Za-z0-9_.:%\[\]-]+(/[A-Za-z0-9_.~/-]*)?")
_HOST = re.compile(r"[A-Za-z0-9_.:%-]+")
_IPV6 = re.compile(r"\[[^\[\],\s]*:[^\[\],\s]*:[^\[\],\s]*\]")  # with the brackets that are its own


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """How a value is read and written, and what is allowed, in words."""

    allowed: str
    read: Callable[[str, Any], T]
    write: Callable[[T], Any]


def setting(default: T, kind: Kind[T], *, text: str, live: bool = False) -> T:
    """A field with all that is known of it; `live` ones can change while the process runs."""
    about = {"kind": kind, "text": text, "live": live}
    made: T = field(default=default, metadata=about)
    return made


def whole(least: int, most: int) -> Kind[int]:
    """A whole number."""

    def read(key: str, raw: Any) -> int:
        number = int(raw) if isinstance(raw, str) and _WHOLE.fullmatch(raw.strip()) else raw
        return check_number(key, number, least=least, most=most)

    return Kind(f"a whole number from {least} to {most}", read, _same)


def real(least: float, most: float) -> Kind[float]:
    """A number with a fraction."""
    allowed = f"a number from {least:g} to {most:g}"

    def read(key: str, raw: Any) -> float:
        try:
            number = float(raw) if isinstance(raw, str | int | float) and not isinstance(raw, bool) else float("nan")
        except (ValueError, OverflowError):
            number = float("nan")
        if not least <= number <= most:  # not a number is in no range
            raise InvalidError(key, f"{_show(raw)} is not {allowed}")
        return number

    return Kind(allowed, read, _same)


def duration(least: timedelta = timedelta(0), most: timedelta = timedelta(days=366)) -> Kind[timedelta]:
    """A time span with its unit; a bare number would leave the unit to be guessed."""
    allowed = f"a duration from {format_duration(least)} to {format_duration(most)}, such as 100ms, 10s, 5m or 30d"

    def read(key: str, raw: Any) -> timedelta:
        if not isinstance(raw, str | timedelta):
            raise InvalidError(key, f"{_show(raw)} is not {allowed}")
        value = check_duration(key, parse_duration(key, raw))
        if not least <= value <= most:
            raise InvalidError(key, f"{format_duration(value)} is not {allowed}")
        return value

    return Kind(allowed, read, format_duration)


def size(least: int, most: int) -> Kind[int]:
    """A number of bytes."""
    allowed = f"a size from {_write_size(least)} to {_write_size(most)}, such as 256KiB or 1MiB"

    def read(key: str, raw: Any) -> int:
        found = _SIZE.fullmatch(raw.strip()) if isinstance(raw, str) else None
        value = int(found[1]) * SIZE_UNITS.get(found[2], 1) if found else -1
        if not least <= value <= most:
            raise InvalidError(key, f"{_show(raw)} is not {allowed}")
        return value

    return Kind(allowed, read, _write_size)


def choice(*words: str) -> Kind[str]:
    """One of a few words."""
    allowed = f"one of {', '.join(words)}"

    def read(key: str, raw: Any) -> str:
        if raw not in words:
            raise InvalidError(key, f"{_show(raw)} is not {allowed}")
        return str(raw)

    return Kind(allowed, read, _same)


def name(longest: int = 63) -> Kind[str]:
    """A name used in keys."""
    allowed = f"letters, digits and _ . -, starting with a letter or digit, at most {longest}"
    return Kind(allowed, lambda key, raw: check_name(key, raw, longest=longest), _same)


def url(*examples: str) -> Kind[str]:
    """A URL with a scheme, whose servers can be read. Its password is a secret, also in an error."""
    allowed = f"a URL such as {' or '.join(examples)}"

    def read(key: str, raw: Any) -> str:
        text = check_text(key, raw, longest=LONGEST_TEXT)
        if not _URL.fullmatch(text):
            raise InvalidError(key, f"{_show(redact_text(text))} is not {allowed}")
        try:
            split_url(text)
        except ConfigError:
            raise InvalidError(key, UNREADABLE) from None
        return text

    return Kind(allowed, read, _same)


def web_url() -> Kind[str]:
    """Where a web server is reached: no query, and no slash at the end, so that a path can be appended."""
    allowed = "a URL such as https://rota.example.com"

    def read(key: str, raw: Any) -> str:
        text = check_text(key, raw, longest=LONGEST_WEB_URL)
        if not _WEB_URL.fullmatch(text):
            raise InvalidError(key, f"{_show(redact_text(text))} is not {allowed}")
        return text.rstrip("/")

    return Kind(allowed, read, _same)


def host() -> Kind[str]:
    """A host name or an address."""
    allowed = "a host name or an IP address, such as 127.0.0.1"

    def read(key: str, raw: Any) -> str:
        if not isinstance(raw, str) or len(raw) > 253 or not _HOST.fullmatch(raw):
            raise InvalidError(key, f"{_show(raw)} is not {allowed}")
        return raw

    return Kind(allowed, read, _same)


def hosts() -> Kind[tuple[str, ...]]:
    """A list of host names; in a variable or flag separated by commas."""
    allowed = "a list of host names such as [rota.example.com]"
    one = host()

    def read(key: str, raw: Any) -> tuple[str, ...]:
        items = read_list(key, raw, allowed=allowed, typed="rota.example.com,localhost")
        return tuple(one.read(key, item) for item in items)

    return Kind(allowed, read, list)


def read_list(key: str, raw: Any, *, allowed: str, typed: str) -> Sequence[Any]:
    """What stands in a list of a file; or in the text of a flag or variable, where commas alone separate.

    Such text is refused when it is written as in a file: its brackets and quotes would become part of what it names.
    """
    if isinstance(raw, str) and any(sign in _IPV6.sub("", raw) for sign in "[]'\""):
        how = f"in a flag or variable they stand without brackets and quotes: {typed}"
        raise InvalidError(key, f"{_show(raw)} is not {allowed}; {how}")
    items = _split(raw)
    if not isinstance(items, list | tuple) or len(items) > MOST_ITEMS:
        raise InvalidError(key, f"{_show(raw)} is not {allowed}")
    return items


def truth() -> Kind[bool]:
    """Yes or no."""
    words = {"true": True, "false": False}

    def read(key: str, raw: Any) -> bool:
        value = words.get(raw.strip().lower()) if isinstance(raw, str) else raw
        if not isinstance(value, bool):
            raise InvalidError(key, f"{_show(raw)} is not true or false")
        return value

    return Kind("true or false", read, _same)


def path() -> Kind[str]:
    """A path in the file system."""
    return Kind("a path", lambda key, raw: _filled(key, check_text(key, raw, longest=LONGEST_TEXT)), _same)


def optional(kind: Kind[T]) -> Kind[T | None]:
    """The kind, or nothing: `null`."""

    def read(key: str, raw: Any) -> T | None:
        is_null = raw is None or (isinstance(raw, str) and raw.strip().lower() in NULL_WORDS)
        return None if is_null else kind.read(key, raw)

    return Kind(f"{kind.allowed}; or null", read, lambda value: None if value is None else kind.write(value))


def words() -> Kind[tuple[str, ...]]:
    """A list of task types, or `*` for all, or `@http` for all of an executor; in a variable separated by commas."""
    allowed = "a list of task types such as [email, report], '@http' for all of an executor, or ['*'] for all"

    def read(key: str, raw: Any) -> tuple[str, ...]:
        items = read_list(key, raw, allowed=allowed, typed="email,report or *")
        if not items:
            raise InvalidError(key, f"{_show(raw)} is not {allowed}")
        return tuple(_read_type(key, item) for item in items)

    return Kind(allowed, read, list)


def labels() -> Kind[Mapping[str, str]]:
    """Small facts, text to text; in a variable or flag `zone=a,disk=ssd`."""
    allowed = "a mapping of names to text, such as {zone: a, disk: ssd}"

    def read(key: str, raw: Any) -> Mapping[str, str]:
        pairs = dict(item.partition("=")[::2] for item in _split(raw)) if isinstance(raw, str) else raw
        if not isinstance(pairs, Mapping):
            raise InvalidError(key, f"{_show(raw)} is not {allowed}")
        return check_metadata(key, pairs)

    return Kind(allowed, read, dict)


@dataclass(frozen=True, slots=True)
class PluginChoice:
    """A plugin to run, and the settings that are its own."""

    name: str
    settings: Mapping[str, Any]


def plugins() -> Kind[tuple[PluginChoice, ...]]:
    """Plugins in the order they start: a name, or a mapping of the name and the plugin's own settings."""
    allowed = "a list of names, or of mappings such as {name: alerts, channel: ops}"

    def read(key: str, raw: Any) -> tuple[PluginChoice, ...]:
        items = read_list(key, raw, allowed=allowed, typed="alerts,audit")
        chosen = tuple(_read_plugin(key, item) for item in items)
        if len({plugin.name for plugin in chosen}) < len(chosen):
            raise InvalidError(key, "names a plugin twice")
        return chosen

    return Kind(allowed, read, lambda value: [_write_plugin(plugin) for plugin in value])


def _read_type(key: str, item: Any) -> str:
    if item == ANY_TYPE:
        return ANY_TYPE
    if isinstance(item, str) and item.startswith(EXECUTOR_MARK):
        return types_by(check_name(key, item.removeprefix(EXECUTOR_MARK)))
    return check_name(key, item)


def _read_plugin(key: str, raw: Any) -> PluginChoice:
    given = {"name": raw} if isinstance(raw, str) else raw
    if not isinstance(given, dict):
        raise InvalidError(key, f"{_show(raw)} is neither a name nor a mapping with a name")
    to_json(key, given)  # plain values only, of a sensible size
    return PluginChoice(
        check_name(f"{key}.name", given.get("name"), longest=63),
        {setting: value for setting, value in given.items() if setting != "name"},
    )


def _write_plugin(plugin: PluginChoice) -> Any:
    return {"name": plugin.name, **plugin.settings} if plugin.settings else plugin.name


def _write_size(value: int) -> str:
    fitting = [(unit, count) for unit, count in SIZE_UNITS.items() if value and value % count == 0]
    return f"{value // fitting[-1][1]}{fitting[-1][0]}" if fitting else f"{value}B"


def _split(raw: Any) -> Any:
    return [part.strip() for part in raw.split(",") if part.strip()] if isinstance(raw, str) else raw


def _filled(key: str, text: str) -> str:
    if not text.strip():
        raise InvalidError(key, "is empty")
    return text


def _same(value: T) -> T:
    return value


def _show(raw: Any) -> str:
    """A bad value for an error: short, whatever it is."""
    if isinstance(raw, list | dict):
        return f"a {'list' if isinstance(raw, list) else 'mapping'}"
    text = "null" if raw is None else repr(raw)
    return text if len(text) <= 80 else f"{text[:79]}…"
