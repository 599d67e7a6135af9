"""Calendars from iCalendar files."""

import sys
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.domain.calendar import Calendar, Period
from rota.domain.errors import InvalidError
from rota.infrastructure.calendars.days import KnownDays
from rota.infrastructure.calendars.ics import MAX_BYTES, calendar_from_ics
from rota.infrastructure.calendars.windows_zones import ZONES


def an_ics(*events: str) -> str:
    inside = "".join(f"BEGIN:VEVENT\r\n{event}\r\nEND:VEVENT\r\n" for event in events)
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{inside}END:VCALENDAR\r\n"


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
    text = an_ics("DTSTART:20260101", "DTSTART:20260102\nSTATUS:CANCELLED", "RRULE:FREQ=HOURLY\nSTATUS:cancelled")
    assert calendar_from_ics("mine", text).dates == {date(2026, 1, 1)}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hello", "BEGIN:VCALENDAR is missing"),
        ("BEGIN:VCALENDAR" + "x" * MAX_BYTES, "larger than"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101\n", "line 2: the file ends in the middle of the event"),
        (an_ics("SUMMARY:when?"), "line 3: DTSTART is missing"),
        (an_ics("DTSTART:20260101\nDTSTART:20260102"), "line 5: DTSTART is there twice"),
        (an_ics("DTSTART:20260101T100000"), "names no zone"),
        (an_ics("DTSTART:20260101T100000Z"), "line 4: DTEND is missing, so that it ends when it begins"),
        (
            an_ics("DTSTART;TZID=Mars/Base:20260101T100000"),
            "line 4: TZID 'Mars/Base' is neither an IANA time zone nor one of Windows",
        ),
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


def days_of(*events: str) -> list[str]:
    return [f"{day:%y%m%d}" for day in sorted(calendar_from_ics("mine", an_ics(*events)).dates)]


def begins_of(*events: str) -> list[str]:
    return [f"{one.begin:%y%m%dT%H%M}" for one in calendar_from_ics("mine", an_ics(*events)).periods]


@pytest.mark.parametrize(
    ("event", "days"),
    [
        ("DTSTART:20261225\nRRULE:FREQ=YEARLY;COUNT=2", ["261225", "271225"]),
        (
            "DTSTART:20261225\nDTEND:20261227\nRRULE:FREQ=YEARLY;UNTIL=20271225",
            ["261225", "261226", "271225", "271226"],
        ),
        ("DTSTART:20261225\nDURATION:P2D", ["261225", "261226"]),
        ("DTSTART:20260105\nRRULE:FREQ=WEEKLY;UNTIL=20260119;BYDAY=MO;WKST=SU", ["260105", "260112", "260119"]),
        ("DTSTART:20261126\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH;COUNT=2", ["261126", "271125"]),
        ("DTSTART:20260130\nRRULE:FREQ=MONTHLY;BYMONTHDAY=-2;INTERVAL=2;COUNT=2", ["260130", "260330"]),
        ("DTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE:20260102\nEXDATE:20260103", ["260101", "260104"]),
        ("DTSTART:20260101\nRDATE;VALUE=DATE:20260105,20260103,20260101", ["260101", "260103", "260105"]),
    ],
)
def test_an_event_that_repeats_counts_each_time(event: str, days: list[str]) -> None:
    assert days_of(event) == days


def test_a_day_of_every_year_is_known_for_as_long_as_any_calendar() -> None:
    every = calendar_from_ics("mine", an_ics("DTSTART:20260101\nRRULE:FREQ=YEARLY")).dates
    assert {day.year for day in every} >= set(range(2026, 2100))


def test_a_period_that_repeats_keeps_to_the_clocks_of_its_zone() -> None:
    zone = "TZID=Europe/Berlin"
    event = f"DTSTART;{zone}:20260322T020000\nDTEND;{zone}:20260322T040000\nRRULE:FREQ=WEEKLY;UNTIL=20260405T000000Z"
    assert begins_of(event) == [
        "260322T0100",
        "260329T0100",
        "260405T0000",
    ]  # on the 29th the clocks skip the hour at two
    later = f"DTSTART;{zone}:20260327T100000\nDURATION:P1DT1H\nRRULE:FREQ=DAILY;COUNT=2"
    assert begins_of(later) == ["260327T0900", "260328T0900"]
    periods = calendar_from_ics("mine", an_ics(later)).periods
    assert [one.end - one.begin for one in periods] == [timedelta(hours=25), timedelta(hours=24)]


def test_an_event_that_stands_in_for_one_of_a_series_takes_its_place() -> None:
    series = "UID:a\nDTSTART:20260101T100000Z\nDTEND:20260101T110000Z\nRRULE:FREQ=DAILY;COUNT=3"
    moved = "UID:a\nRECURRENCE-ID;TZID=Asia/Shanghai:20260102T180000\nDTSTART:20260102T150000Z\nDTEND:20260102T160000Z"
    gone = "UID:a\nRECURRENCE-ID:20260103T100000Z\nSTATUS:CANCELLED\nDTSTART:20260103T100000Z"
    assert begins_of(series, moved, gone) == ["260101T1000", "260102T1500"]


def test_the_zones_of_windows_are_known() -> None:
    event = "DTSTART;TZID={0}:20260701T100000\nDTEND;TZID={0}:20260701T110000"
    names = (
        "China Standard Time",
        '"W. Europe Standard Time"',
        "Russia Time Zone 3",
        "UTC-11",
        "US Eastern Standard Time",
    )
    assert begins_of(*(event.format(name) for name in names)) == [
        *("260701T0200", "260701T0800", "260701T0600", "260701T2100", "260701T1400")
    ]
    assert len({ZoneInfo(zone) for zone in ZONES.values()}) == len(ZONES)


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ("DTSTART:20260101\nRRULE:FREQ=HOURLY", "line 5: RRULE needs a FREQ of DAILY, WEEKLY, MONTHLY, YEARLY"),
        ("DTSTART:20260101\nRRULE:FREQ=DAILY;BYHOUR=1", "line 5: RRULE with BYHOUR is not supported"),
        ("DTSTART:20260101\nRRULE:FREQ=DAILY;INTERVAL=0", "line 5: RRULE: '0' is not a number from 1"),
        ("DTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=x", "line 5: RRULE: 'X' is not a number"),
        ("DTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=2;COUNT=3", "line 5: RRULE says something twice"),
        ("DTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=2;UNTIL=20270101", "line 5: RRULE has both COUNT and UNTIL"),
        ("DTSTART:20260101\nRRULE:FREQ=DAILY;UNTIL=soon", "line 5: 'SOON' is not a date or time"),
        ("DTSTART:20260101\nRRULE:FREQ=WEEKLY;BYDAY=XX", "line 5: RRULE 'FREQ=WEEKLY;BYDAY=XX' cannot be read"),
        ("DTSTART:20260101\nRRULE:FREQ=WEEKLY;BYDAY=MO", "line 5: DTSTART is not the first time of its RRULE"),
        ("DTSTART:20260101\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "line 5: DTSTART is not the first time"),
        ("DTSTART:20260101\nRRULE:FREQ=DAILY", "line 5: RRULE makes more than 10000 days"),
        ("DTSTART:20260101T100000Z\nDURATION:PT1H\nRRULE:FREQ=WEEKLY", "line 6: RRULE makes more than 100 periods"),
        ("DTSTART:20260101T100000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20260103", "is a day, and DTSTART a time"),
        (
            "DTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=2\nRRULE:FREQ=WEEKLY;COUNT=2",
            "line 6: an event may have one RRULE",
        ),
        ("DTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=2\nEXRULE:FREQ=WEEKLY", "line 6: EXRULE is not supported"),
        ("DTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=2\nEXDATE:20260101T000000Z", "line 6: EXDATE does not fit DTSTART"),
        ("DTSTART:20260101\nRDATE;VALUE=PERIOD:20260101T000000Z/PT1H", "line 5: VALUE=PERIOD is not supported"),
        ("DTSTART:20260101\nDTEND:20260102\nDURATION:P1D", "line 6: an event has DTEND or DURATION, not both"),
        ("DTSTART:20260101\nDURATION:PT36H", "line 5: DURATION PT36H is no number of days"),
        ("DTSTART:20260101\nDURATION:-P1D", "line 5: DURATION '-P1D' is not a length of time"),
        ("DTSTART:20260101\nDURATION:P400D", "line 5: has 400 days"),
        ("DTSTART:16010101", "line 4: '16010101' is in no year from 1900 to 2999"),
        ("DTSTART:20260101\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260101", "line 5: RECURRENCE-ID with RANGE is not"),
    ],
)
def test_a_rule_or_length_that_would_be_misread_is_refused_with_its_line(event: str, problem: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        calendar_from_ics("mine", an_ics(event))

    assert problem in refusal.value.problem


def test_a_time_that_replaces_a_day_of_a_series_is_refused() -> None:
    series, other = (
        "UID:a\nDTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=2",
        "UID:a\nRECURRENCE-ID:20260101T000000Z\nDTSTART:20260105",
    )
    with pytest.raises(InvalidError, match="line 3: one of its RECURRENCE-IDs does not fit DTSTART"):
        calendar_from_ics("mine", an_ics(series, other))


def test_more_periods_than_a_calendar_holds_are_refused_with_the_line_of_the_event() -> None:
    event = "DTSTART:20260101T100000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=60"
    with pytest.raises(InvalidError, match="line 8: up to here are more than 10000 days, or than 100 periods"):
        calendar_from_ics("mine", an_ics(event, event.replace("2026", "2027")))


async def test_without_the_package_for_rules_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dateutil.rrule", None)
    assert (await KnownDays().of_ics("mine", an_ics("DTSTART:20260101"))).dates == {date(2026, 1, 1)}

    with pytest.raises(InvalidError, match=r"rota\[calendars\]"):
        await KnownDays().of_ics("mine", an_ics("DTSTART:20260101\nRRULE:FREQ=YEARLY"))
