import sys
from datetime import UTC, date, datetime

import pytest

from rota.domain.calendar import Calendar, Period
from rota.domain.errors import ConfigError, InvalidError
from rota.infrastructure.calendars.country import days_of_country
from rota.infrastructure.calendars.ics import MAX_BYTES, calendar_from_ics


def an_ics(*events: str) -> str:
    inside = "".join(f"BEGIN:VEVENT\r\n{event}\r\nEND:VEVENT\r\n" for event in events)
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{inside}END:VCALENDAR\r\n"


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


def test_whole_days_and_periods_are_read_from_a_file() -> None:
    text = an_ics(
        "SUMMARY:New\r\n  Year\r\nno property\r\nDTSTART;VALUE=DATE:20260101",
        "DTSTART;VALUE=DATE:20261224\r\nDTEND;VALUE=DATE:20261227\r\nBEGIN:VALARM\r\nDURATION:PT5M\r\nEND:VALARM",
        "DTSTART:20260301T100000Z\r\nDTEND:20260301T120000Z",
        "DTSTART;TZID=Europe/Berlin:20260701T100000\r\nDTEND;TZID=Europe/Berlin:20260701T110000",
    )

    assert calendar_from_ics("mine", text) == Calendar(
        name="mine",
        dates=frozenset({date(2026, 1, 1), date(2026, 12, 24), date(2026, 12, 25), date(2026, 12, 26)}),
        periods=(
            Period(begin=datetime(2026, 3, 1, 10, tzinfo=UTC), end=datetime(2026, 3, 1, 12, tzinfo=UTC)),
            Period(begin=datetime(2026, 7, 1, 8, tzinfo=UTC), end=datetime(2026, 7, 1, 9, tzinfo=UTC)),
        ),
    )


def test_what_was_cancelled_does_not_count() -> None:
    text = an_ics("DTSTART:20260101", "DTSTART:20260102\nSTATUS:CANCELLED", "RRULE:FREQ=YEARLY\nSTATUS:cancelled")
    assert calendar_from_ics("mine", text).dates == {date(2026, 1, 1)}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hello", "BEGIN:VCALENDAR is missing"),
        ("BEGIN:VCALENDAR" + "x" * MAX_BYTES, "larger than"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101\n", "in the middle of an event"),
        (an_ics("SUMMARY:when?"), "event 1: DTSTART is missing"),
        (an_ics("DTSTART:20260101", "DTSTART:20260101\nRRULE:FREQ=YEARLY"), "event 2: RRULE is not supported"),
        (an_ics("DTSTART:20260101T100000Z\nDURATION:PT1H"), "DURATION is not supported"),
        (an_ics("DTSTART:20260101T100000"), "names no zone"),
        (an_ics("DTSTART:20260101T100000Z"), "event 1: DTEND is missing, so that it ends when it begins"),
        (an_ics("DTSTART;TZID=Mars/Base:20260101T100000"), "is not an IANA time zone"),
        (an_ics("DTSTART:20261332"), "'20261332' is not a date or time"),
        (an_ics("DTSTART:tomorrow"), "'tomorrow' is not a date or time"),
        (an_ics("DTSTART:20260102\nDTEND:20260101"), "DTEND does not fit DTSTART"),
        (an_ics("DTSTART:20260102\nDTEND:20260102T100000Z"), "DTEND does not fit DTSTART"),
        (an_ics("DTSTART:20260101\nDTEND:20280101"), "has 730 days, at most 366"),
        (an_ics(*(f"DTSTART:{year}0101\nDTEND:{year + 1}0101" for year in range(2000, 2030))), "more than 10000 days"),
    ],
)
def test_a_file_that_would_be_misread_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        calendar_from_ics("mine", text)

    assert refusal.value.field == "calendar.ics"
    assert problem in refusal.value.problem
