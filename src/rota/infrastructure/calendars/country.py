"""Public holidays of a country, and the days on which people work to make up for them, from the `holidays` package."""

from collections.abc import Iterable
from datetime import date

from rota.domain.calendar import BusinessDays
from rota.domain.checks import EARLIEST, LATEST, check_number, check_text
from rota.domain.errors import ConfigError, InvalidError

MOST_YEARS = 30


def country_business_days(country: str, years: Iterable[int], *, subdivision: str | None = None) -> BusinessDays:
    """The business days of a country (`CN`, `DE`) or a part of it (`BY`) in some years.

    Holidays are decided from year to year: for a year that is not decided yet the package knows the fixed ones only.
    """
    wanted = _check_years(years)
    where = "calendar.country" if subdivision is None else "calendar.subdivision"
    try:
        import holidays  # 10 MB that only calendars need
    except ImportError as exc:
        raise ConfigError("the package holidays is not installed", fix="pip install 'rota[calendars]'") from exc
    check_text("calendar.country", country, longest=16)
    if country not in holidays.list_supported_countries():  # the package would take any name of its own for one
        raise InvalidError("calendar.country", f"{country!r} is not the code of a country that is known, such as CN")
    try:
        found = holidays.country_holidays(country, subdiv=subdivision, years=wanted)
    except NotImplementedError as exc:
        raise InvalidError(where, str(exc)) from exc
    days: list[date] = sorted(found)
    return BusinessDays(
        weekdays=frozenset(weekday + 1 for weekday in range(7) if weekday not in found.weekend),
        holidays=frozenset(days),
        workdays=frozenset(day for day in found.weekend_workdays if day.year in wanted),
    )


def _check_years(years: Iterable[int]) -> list[int]:
    wanted = sorted(set(years))
    if not 1 <= len(wanted) <= MOST_YEARS:
        raise InvalidError("calendar.years", f"must be 1 to {MOST_YEARS} years")
    return [check_number("calendar.years", year, least=EARLIEST.year, most=LATEST.year - 1) for year in wanted]
