"""Times of commands that look back: as they are, as a day, or as how long ago."""

import re
from datetime import date, datetime, time
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from rota.domain.durations import parse_duration
from rota.domain.errors import InvalidError
from rota.interfaces.cli.filters import read_moment

if TYPE_CHECKING:
    from rota.client.blocking import Client

NOW = "now"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def read_past(client: "Client", text: str, *, option: str) -> datetime:
    """A time, `now`, or how long ago that is, by the clock of the server."""
    if text == NOW:
        return client.cluster().now
    if not text[:1].isdigit() or "-" in text:
        return read_moment(option, text)
    try:
        ago = parse_duration(option, text)
    except InvalidError as exc:
        raise InvalidError(option, f"{text!r} is neither a time nor how long ago it is, such as 7d or 12h") from exc
    return client.cluster().now - ago


def read_past_in(zone: ZoneInfo, text: str, *, client: "Client", option: str) -> datetime:
    """The same, or a day, which stands for its first moment in the zone."""
    if not _DAY.fullmatch(text):
        return read_past(client, text, option=option)
    try:
        return datetime.combine(date.fromisoformat(text), time.min, zone)
    except ValueError as exc:
        raise InvalidError(option, f"{text!r} is no day") from exc
