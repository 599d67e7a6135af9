"""What is told of clocks that are changed."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.domain.cron.clock_changes import ClockChange, ClockEffect, list_clock_changes
from rota.domain.cron.expression import parse_cron
from rota.domain.cron.recurrence import DstGap, DstOverlap, EveryRecurrence, between, recur

FORWARD = datetime(2027, 3, 28, 1, tzinfo=UTC)  # when the clocks of Berlin go from 02:00 to 03:00
BACK = datetime(2027, 10, 31, 1, tzinfo=UTC)  # and from 03:00 to 02:00
DAY, HALF = timedelta(days=1), timedelta(minutes=30)


def changes(expression: str, around: datetime, **how: object) -> list[ClockChange]:
    recurrence = recur(parse_cron(expression), zone="Europe/Berlin", **how)  # type: ignore[arg-type] # gap or overlap
    found = list_clock_changes(recurrence, around - DAY, end=around + DAY)
    targets = set(between(recurrence, around - DAY, end=around + DAY))
    assert {one.at for one in found if one.effect is not ClockEffect.SKIPPED} <= targets
    return found


@pytest.mark.parametrize(
    ("expression", "times"),
    [
        ("30 2 * * *", "02:30"),
        ("0,30 2 * * *", "02:00, 02:30"),
        ("15 30 2 * * *", "02:30:15"),
        ("0,10,20,30,40 2-3 * * *", "02:00, 02:10, 02:20, …"),
    ],
)
def test_times_that_the_clocks_skip_are_named(expression: str, times: str) -> None:
    assert changes(expression, FORWARD) == [ClockChange(FORWARD, ClockEffect.MOVED, times)]
    skipped = [ClockChange(FORWARD, ClockEffect.SKIPPED, times)]
    assert changes(expression, FORWARD, gap=DstGap.SKIP) == skipped


@pytest.mark.parametrize("expression", ["30 3 * * *", "*/20 2 * * *", "30 2 1 * *"])
def test_of_a_pace_and_of_times_that_are_shown_once_nothing_is_told(expression: str) -> None:
    assert changes(expression, FORWARD) == changes(expression, BACK, overlap=DstOverlap.BOTH) == []


def test_of_two_times_that_are_shown_the_same_it_is_told_which_one_fires() -> None:
    first = ClockChange(BACK - HALF, ClockEffect.FIRST)
    second = ClockChange(BACK + HALF, ClockEffect.SECOND)
    assert changes("30 2 * * *", BACK) == [first]
    assert changes("30 2 * * *", BACK, overlap=DstOverlap.SECOND) == [second]
    assert changes("30 2 * * *", BACK, overlap=DstOverlap.BOTH) == [first, second]


def test_a_fixed_pace_knows_no_clock_and_all_years_can_be_asked_for() -> None:
    assert list_clock_changes(EveryRecurrence(DAY), FORWARD, end=BACK) == []
    nightly = recur(parse_cron("30 2 * * *"), zone="Europe/Berlin")
    found = list_clock_changes(nightly, datetime(1970, 1, 1, tzinfo=UTC), end=datetime(2100, 1, 1, tzinfo=UTC))
    assert [one.effect for one in found][:2] == [ClockEffect.MOVED, ClockEffect.FIRST]
    assert found[-1].at.year == 2099
