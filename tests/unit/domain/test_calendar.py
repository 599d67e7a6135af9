from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from rota.domain.calendar import MAX_DATES, BusinessDays, Calendar, Period, StoredCalendar, Window
from rota.domain.errors import InvalidError
from rota.testing.values import replace
from tests.support.builders import NOW

MONDAY = datetime(2026, 1, 5, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def test_a_calendar_covers_what_any_of_its_parts_covers() -> None:
    calendar = Calendar(
        name="mixed",
        dates=frozenset({date(2026, 1, 6)}),
        windows=(Window(weekdays=frozenset({1}), begin=time(9), end=time(17)),),
        periods=(Period(begin=MONDAY + 3 * DAY, end=MONDAY + 4 * DAY),),
    )

    assert calendar.covers(MONDAY)
    assert not calendar.covers(MONDAY.replace(hour=17))
    assert calendar.covers(MONDAY + DAY)
    assert not calendar.covers(MONDAY + 2 * DAY)
    assert calendar.covers(MONDAY + 3 * DAY)
    assert not calendar.covers(MONDAY + 4 * DAY)


@pytest.mark.parametrize(
    ("hour", "day", "expected"),
    [(21, 5, False), (22, 5, True), (3, 6, True), (6, 6, False), (22, 6, False), (3, 5, False)],
)
def test_a_window_over_midnight_belongs_to_the_day_it_begins(hour: int, day: int, expected: bool) -> None:
    window = Window(weekdays=frozenset({1}), begin=time(22), end=time(6))

    assert window.covers(datetime(2026, 1, day, hour, tzinfo=UTC)) is expected


def test_a_window_on_sunday_night_reaches_into_monday() -> None:
    assert Window(weekdays=frozenset({7}), begin=time(22), end=time(6)).covers(datetime(2026, 1, 5, 3, tzinfo=UTC))


def test_a_window_without_times_is_whole_days() -> None:
    sundays = Window(weekdays=frozenset({7}))

    assert [sundays.covers(MONDAY.replace(day=day, hour=hour)) for day, hour in ((3, 23), (4, 0), (4, 23), (5, 0))] == [
        False,
        True,
        True,
        False,
    ]


def test_business_days_know_holidays_and_days_that_make_up_for_them() -> None:
    china = BusinessDays(holidays=frozenset({date(2026, 2, 17)}), workdays=frozenset({date(2026, 2, 14)}))

    assert [china.covers(date(2026, 2, day)) for day in (13, 14, 15, 16, 17)] == [True, True, False, True, False]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("calendar.name", {"name": "no spaces"}),
        ("calendar.dates", {"dates": frozenset(date(2000, 1, 1) + number * DAY for number in range(MAX_DATES + 1))}),
        ("calendar.windows", {"windows": (Window(),) * 101}),
        ("calendar.periods", {"periods": (Period(begin=NOW, end=NOW + DAY),) * 101}),
    ],
)
def test_an_unsound_calendar_is_refused_by_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as refusal:
        Calendar(**{"name": "mine"} | wrong)

    assert refusal.value.field == field


@pytest.mark.parametrize("weekdays", [frozenset(), frozenset({0}), frozenset({8})])
def test_a_window_needs_weekdays(weekdays: frozenset[int]) -> None:
    with pytest.raises(InvalidError, match=r"calendar\.windows"):
        Window(weekdays=weekdays)


def test_a_period_ends_after_it_begins() -> None:
    with pytest.raises(InvalidError, match=r"calendar\.periods"):
        Period(begin=NOW, end=NOW)
    with pytest.raises(InvalidError, match="time zone"):
        Period(begin=NOW.replace(tzinfo=None), end=NOW)


def test_a_year_that_a_calendar_does_not_know_is_no_answer() -> None:
    calendar = Calendar(name="cn", business_days=BusinessDays(), years=(2025, 2026))

    assert calendar.covers(MONDAY)
    with pytest.raises(InvalidError, match="cn knows the years 2025 to 2026, not 2027; put it anew"):
        calendar.covers(MONDAY.replace(year=2027))


def test_a_stored_calendar_is_recognised_when_it_is_stored_again() -> None:
    wanted = StoredCalendar(calendar=Calendar(name="office"))
    current = replace(wanted, revision=2, created_at=NOW, updated_at=NOW)

    assert [wanted.is_repeat_of(current, expected_revision=one) for one in (None, 0, 1, 2)] == [True, False, True, True]
    assert not replace(wanted, description="new").is_repeat_of(current, expected_revision=None)
    assert wanted.name == "office"
