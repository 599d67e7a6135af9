"""The source of days that calendars are made of: the `holidays` package and iCalendar files."""

import asyncio
from collections.abc import Sequence

from rota.application.ports.days import DaysOfCountry
from rota.domain.calendar import Calendar
from rota.domain.errors import ConfigError, InvalidError
from rota.infrastructure.calendars.country import days_of_country
from rota.infrastructure.calendars.ics import calendar_from_ics


class KnownDays:
    async def of_country(self, country: str, years: Sequence[int], *, subdivision: str | None = None) -> DaysOfCountry:
        try:
            return await asyncio.to_thread(days_of_country, country, years, subdivision=subdivision)
        except ConfigError as exc:  # whoever asked over the API can be told, and somebody else can install it
            raise InvalidError("country", f"is not known to this server: {exc}") from exc

    async def of_ics(self, name: str, text: str) -> Calendar:
        try:
            return await asyncio.to_thread(calendar_from_ics, name, text)
        except ConfigError as exc:
            raise InvalidError("ics", f"has events that repeat, which this server cannot read: {exc}") from exc
