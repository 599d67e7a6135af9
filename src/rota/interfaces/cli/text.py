"""Text for terminals. What tasks and other people wrote is shown, never obeyed: control characters are escaped."""

import json
import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from rota.domain.durations import format_duration

# C0 and C1 controls, DEL, line separators, and those that change the direction of text.
_RISKY = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]")


def safe(text: str) -> str:
    """The text on one line, with nothing in it that a terminal would act on."""
    return _RISKY.sub(_escape, text)


def safe_lines(text: str) -> list[str]:
    """The same for text of several lines, such as a traceback."""
    return [safe(line.rstrip("\r")) for line in text.split("\n")]


def is_safe(text: str) -> bool:
    """Whether there is nothing to escape but line breaks."""
    return not _RISKY.search(text.replace("\n", ""))


def safe_json(text: str) -> str:
    """JSON as it was, with what a terminal would act on as JSON's own escapes; line breaks between values stay."""
    return "\n".join(_RISKY.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in text.split("\n"))


def cell(value: Any) -> str:
    """A value in a table."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return moment(value)
        case timedelta():
            return format_duration(value)
        case float():
            return f"{value:g}"
        case dict():
            return ",".join(f"{safe(str(key))}={safe(str(text))}" for key, text in value.items()) or "-"
        case list() | tuple():
            return ",".join(safe(str(item)) for item in value) or "-"
        case _:
            return safe(str(value)) or "-"


def moment(at: datetime) -> str:
    """A time, to the second, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def on_clock(at: datetime, zone: tzinfo) -> str:
    """A time on the clock of a zone, with how far it is from UTC: so a change of clocks is seen."""
    return at.astimezone(zone).isoformat(timespec="seconds").replace("+00:00", "Z")


def exact_moment(at: datetime) -> str:
    """A time, to the millisecond, in UTC."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def compact(value: Any) -> str:
    """JSON on one line."""
    return safe_json(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    short = {9: "\\t", 10: "\\n", 13: "\\r", 27: "\\e"}.get(number)
    return short or (f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}")
