import sys
from datetime import date

import pytest

from rota.domain.errors import ConfigError, InvalidError
from rota.infrastructure.calendars.country import days_of_country


def test_chinese_business_days_know_holidays_and_make_up_days() -> None:
    china = days_of_country("CN", [2026]).days

    assert not china.covers(date(2026, 2, 17))  # the New Year of the moon, a Tuesday
    assert china.covers(date(2026, 2, 14))  # a Saturday that is worked
    assert china.covers(date(2026, 10, 10))
    assert not china.covers(date(2026, 10, 11))
    assert {day.year for day in china.workdays} == {2026}


def test_chinese_days_that_are_not_announced_are_not_made_up() -> None:
    known = days_of_country("CN", [2025, 2026])
    last = days_of_country("CN", range(2026, 2041)).worked_until
    assert last is not None
    beyond = days_of_country("CN", [last, last + 1])

    assert (known.worked_until, known.is_announced_yearly, beyond.worked_until) == (None, True, last)
    assert {day.year for day in beyond.days.holidays | beyond.days.workdays} == {last}


def test_a_year_without_days_that_are_worked_instead_is_known_if_a_later_one_has_some() -> None:
    assert days_of_country("HU", [2023]).worked_until is None
    assert days_of_country("DE", [2090]).worked_until is None
    hungary = days_of_country("HU", [2089, 2090])
    assert (hungary.is_announced_yearly, {day.year for day in hungary.days.holidays}) == (False, {2089, 2090})
    assert hungary.worked_until is not None


def test_a_part_of_a_country_has_holidays_of_its_own() -> None:
    epiphany = date(2026, 1, 6)

    assert days_of_country("DE", [2026]).days.covers(epiphany)
    assert not days_of_country("DE", [2026], subdivision="BY").days.covers(epiphany)


def test_the_weekend_is_that_of_the_country() -> None:
    friday = date(2026, 6, 5)

    assert not days_of_country("EG", [2026]).days.covers(friday)


@pytest.mark.parametrize(
    ("field", "country", "subdivision", "years"),
    [
        ("calendar.country", "XX", None, [2026]),
        ("calendar.country", "utils", None, [2026]),
        ("calendar.country", "__class__", None, [2026]),
        ("calendar.subdivision", "US", "ZZ", [2026]),
        ("calendar.years", "US", None, []),
        ("calendar.years", "US", None, range(2000, 2099)),
        ("calendar.years", "US", None, [1999]),
    ],
)
def test_a_country_nobody_knows_is_refused(field: str, country: str, subdivision: str | None, years: list[int]) -> None:
    with pytest.raises(InvalidError) as refusal:
        days_of_country(country, years, subdivision=subdivision)

    assert refusal.value.field == field


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)

    with pytest.raises(ConfigError, match=r"rota\[calendars\]"):
        days_of_country("CN", [2026])
