"""Where the days of calendars come from: the holidays of countries, and files of other programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.domain.calendar import BusinessDays, Calendar


@dataclass(frozen=True, slots=True)
class DaysOfCountry:
    """What is known of the years that were asked for."""

    days: BusinessDays
    worked_until: int | None = None  # the last year with days that are worked instead, if later ones have none yet
    is_announced_yearly: bool = False  # every year has such days: the later ones are not decided, and not among these


class DaySource(Protocol):
    """What others know about days: no network, no clock. It may take a second, in which the loop goes on."""

    async def of_country(self, country: str, years: Sequence[int], *, subdivision: str | None = None) -> DaysOfCountry:
        """The business days of a country, or of a part of it, in some years.

        Raises `InvalidError` for a country that nobody knows, and where the package that knows them is missing."""
        ...

    async def of_ics(self, name: str, text: str) -> Calendar:
        """The calendar that an iCalendar file holds. Raises `InvalidError` that says which line cannot be read."""
        ...
