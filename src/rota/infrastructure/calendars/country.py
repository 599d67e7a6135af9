"""Public holidays of a country, and the days on which people work to make up for them, from the `holidays` package."""

from collections.abc import Iterable
from datetime import date

from rota.application.ports.days import DaysOfCountry
from rota.domain.calendar import BusinessDays
from rota.domain.checks import EARLIEST, LATEST, check_number, check_text
from rota.domain.errors import ConfigError, InvalidError

MOST_YEARS = 30
LOOKED_BEYOND = 10  # years: one without days that are worked instead is known if a later one has some
_ANNOUNCED_YEARLY = frozenset({"CN", "CHN"})  # by the State Council, each autumn for the next year


def days_of_country(country: str, years: Iterable[int], *, subdivision: str | None = None) -> DaysOfCountry:
    """The days of a country (`CN`, `DE`) or a part of it (`BY`) in some years.

    Days that are worked instead of others are announced from year to year: the package has no more than was announced
    when it was released, and nothing in it tells a year that is not decided from one that has none.
    """
    wanted = _check_years(years)
    try:
        import holidays  # 10 MB that only calendars need
    except ImportError as exc:
        raise ConfigError("the package holidays is not installed", fix="pip install 'rota[calendars]'") from exc
    check_text("calendar.country", country, longest=16)
    if country not in holidays.list_supported_countries():  # the package would take any name of its own for one
        raise InvalidError("calendar.country", f"{country!r} is not the code of a country that is known, such as CN")
    looked_at = range(EARLIEST.year, min(wanted[-1] + LOOKED_BEYOND, LATEST.year))
    try:
        found = holidays.country_holidays(country, subdiv=subdivision, years=looked_at)
    except NotImplementedError as exc:
        raise InvalidError("calendar.country" if subdivision is None else "calendar.subdivision", str(exc)) from exc
    last = max((day.year for day in found.weekend_workdays), default=wanted[-1])
    is_yearly = country in _ANNOUNCED_YEARLY
    known = {year for year in wanted if year <= last or not is_yearly}
    days: list[date] = sorted(found)
    business_days = BusinessDays(
        weekdays=frozenset(weekday + 1 for weekday in range(7) if weekday not in found.weekend),
        holidays=frozenset(day for day in days if day.year in known),
        workdays=frozenset(day for day in found.weekend_workdays if day.year in known),
    )
    return DaysOfCountry(business_days, last if last < wanted[-1] else None, is_yearly)


def _check_years(years: Iterable[int]) -> list[int]:
    wanted = sorted(set(years))
    if not 1 <= len(wanted) <= MOST_YEARS:
        raise InvalidError("calendar.years", f"must be 1 to {MOST_YEARS} years")
    return [check_number("calendar.years", year, least=EARLIEST.year, most=LATEST.year - 1) for year in wanted]
