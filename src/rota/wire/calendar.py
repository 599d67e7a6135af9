"""Calendars: named sets of moments that schedules keep to, or keep out of."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from rota.wire.base import Answer, Request

Year = Annotated[int, msgspec.Meta(ge=2000, le=2099)]


class PutCalendar(Request):
    """The whole calendar; what is left out is not in it. The days of a country or of a file are added to it."""

    description: str = ""
    dates: list[str] = []  # 2026-12-24
    windows: list[dict[str, Any]] = []  # {"weekdays": [6, 7], "begin": "22:00", "end": "06:00"}
    periods: list[dict[str, Any]] = []  # {"begin": "2026-12-20T00:00:00Z", "end": "2027-01-05T00:00:00Z"}
    business_days: dict[str, Any] | None = None  # {"weekdays": [1, 2], "holidays": [], "workdays": []}
    years: list[Year] = []  # the first and the last that it knows about; in others nothing fires with it
    country: str | None = None  # ISO 3166, such as CN
    subdivision: str | None = None  # such as BY
    country_days: str = "business_days"  # or holidays
    first_year: Year | None = None  # of the country's days; the one before this by default
    last_year: Year | None = None  # the next by default, as far as its days are announced
    ics: str | None = None  # the text of an iCalendar file
    revision: int | None = None  # what it is expected to replace; 0: it must be new


class CalendarSummary(Answer):
    name: str
    tenant: str
    description: str
    origin: str  # where its days come from
    years: list[int]
    revision: int
    created_at: datetime | None
    updated_at: datetime | None


class Calendar(CalendarSummary):
    dates: list[str]
    windows: list[dict[str, Any]]
    periods: list[dict[str, Any]]
    business_days: dict[str, Any] | None
