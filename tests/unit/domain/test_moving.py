from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.calendar import BusinessDays, Calendar, Period, Window
from rota.domain.cron.recurrence import DstGap, DstOverlap
from rota.domain.schedule import OnExcluded, Schedule
from rota.domain.timetable import Timetable
from tests.support.properties import BROAD_PROPERTY

DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)
BERLIN = "Europe/Berlin"
BACK = datetime(2026, 10, 25, tzinfo=UTC)  # the clocks of Berlin are put back at 01:00Z
FORTH = datetime(2026, 3, 29, tzinfo=UTC)  # and put forward
CHRISTMAS = Calendar(name="christmas", dates=frozenset({date(2026, 12, 25)}))
MOVES: dict[str, Any] = {"zone": BERLIN, "on_excluded": OnExcluded.RUN_AFTER}


class Asked(Calendar):
    """A calendar that counts how often it is asked."""

    times = 0

    def covers(self, wall: datetime) -> bool:
        type(self).times += 1
        return Calendar.covers(self, wall)


def a_table(*calendars: Calendar, **facts: Any) -> Timetable:
    return Timetable(Schedule(**facts), seed="report", calendars={one.name: one for one in calendars})


def days_off(*days: date) -> Calendar:
    return Calendar(name="off", dates=frozenset(days))


@pytest.mark.parametrize("overlap", list(DstOverlap))
@pytest.mark.parametrize("cron", ["30 2 * * *", "*/15 * * * *"])
def test_where_a_calendar_moves_nothing_a_repeated_hour_is_as_without_it(cron: str, overlap: DstOverlap) -> None:
    plain = a_table(cron=cron, zone=BERLIN, dst_overlap=overlap)
    table = a_table(CHRISTMAS, cron=cron, dst_overlap=overlap, exclude=("christmas",), **MOVES)

    assert table.upcoming(BACK - DAY, count=50) == plain.upcoming(BACK - DAY, count=50)
    assert table.recent(BACK + DAY, count=50) == plain.recent(BACK + DAY, count=50)


@pytest.mark.parametrize(("overlap", "hour"), [("first", 0), ("second", 1), ("both", 0)])
def test_a_run_that_is_moved_to_a_time_that_is_shown_twice_stays_one(overlap: str, hour: int) -> None:
    off = days_off(date(2026, 10, 24))
    table = a_table(off, cron="30 2 24 10 *", dst_overlap=DstOverlap(overlap), exclude=("off",), **MOVES)

    assert table.upcoming(BACK - 2 * DAY, count=1) == [BACK + timedelta(hours=hour, minutes=30)]


def test_a_run_that_is_moved_to_a_time_that_is_skipped_fires_when_the_gap_ends() -> None:
    off = days_off(date(2026, 3, 28))
    table = a_table(off, cron="30 2 28 3 *", exclude=("off",), **MOVES)

    assert table.next(FORTH - 2 * DAY) == FORTH + timedelta(hours=1)
    assert table.moved_from(FORTH + timedelta(hours=1)) == datetime(2026, 3, 28, 1, 30, tzinfo=UTC)


def test_a_run_that_is_moved_to_a_time_that_is_skipped_does_not_fire_if_the_schedule_says_so() -> None:
    off = days_off(date(2026, 3, 28))
    table = a_table(off, cron="30 2 28 3 *", dst_gap=DstGap.SKIP, exclude=("off",), **MOVES)
    excluded = datetime(2026, 3, 28, 1, 30, tzinfo=UTC)

    assert table.next(FORTH - 2 * DAY) == excluded
    assert table.objection(excluded) == "in off"


def test_nothing_moves_into_a_year_that_a_calendar_does_not_know() -> None:
    known = Calendar(name="off", dates=frozenset({date(2026, 12, 31)}), years=(2026, 2026))
    table = a_table(known, cron="0 9 31 12 *", exclude=("off",), **MOVES)

    assert table.next(BACK) == datetime(2026, 12, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize("on_excluded", [OnExcluded.RUN_AFTER, OnExcluded.RUN_BEFORE])
@pytest.mark.parametrize("windows", [(), (Window(begin=time(22), end=time(6)),)])
def test_a_long_list_moves_each_time_but_once(windows: tuple[Window, ...], on_excluded: OnExcluded) -> None:
    Asked.times = 0
    weekend = Asked(name="off", windows=(*windows, Window(weekdays=frozenset({6, 7}))))
    table = a_table(weekend, cron="*/15 * * * *", exclude=("off",), zone=BERLIN, on_excluded=on_excluded)

    table.upcoming(BACK, count=1000)
    table.recent(BACK, count=1000)

    assert Asked.times < 60_000  # 2,000 targets are six weeks of times; those of 32 days on each side may move there


def test_one_target_is_found_without_looking_at_a_month() -> None:
    Asked.times = 0
    weekend = Asked(name="off", windows=(Window(weekdays=frozenset({6, 7})),))
    table = a_table(weekend, cron="*/15 * * * *", exclude=("off",), **MOVES)

    table.next(datetime(2026, 5, 6, 6, 50, tzinfo=UTC))

    assert Asked.times < 400  # the day before, this one, and one ahead


CALENDARS = st.one_of(
    st.builds(
        lambda days, weekdays: Calendar(
            name="some",
            business_days=BusinessDays(
                holidays=frozenset(date(2026, 1, 1) + day * DAY for day in days), weekdays=frozenset(weekdays)
            ),
        ),
        st.sets(st.integers(0, 364), max_size=60),
        st.sets(st.integers(1, 7), min_size=1),
    ),
    st.builds(
        lambda weekdays, begin, end: Calendar(
            name="some", windows=(Window(weekdays=frozenset(weekdays), begin=time(begin), end=time(end)),)
        ),
        st.sets(st.integers(1, 7), min_size=1),
        st.integers(0, 23),
        st.integers(0, 23),
    ),
    st.builds(
        lambda begin, days: Calendar(
            name="some", periods=(Period(begin=FORTH + begin * DAY / 4, end=FORTH + (begin / 4 + days) * DAY),)
        ),
        st.integers(-40, 40),
        st.integers(1, 40),
    ),
)


@BROAD_PROPERTY
@given(
    calendar=CALENDARS,
    cron=st.sampled_from(["0 9 * * *", "30 2,18 * * *", "0 9 * * 6", "0 9 1 * *", "30 */6 * * *", "0 0 29 2 *"]),
    zone=st.sampled_from([BERLIN, "America/Nuuk", "Asia/Shanghai", "Australia/Lord_Howe"]),
    is_only=st.booleans(),
    on_excluded=st.sampled_from([OnExcluded.RUN_AFTER, OnExcluded.RUN_BEFORE]),
)
def test_targets_are_those_of_all_named_times_moved_one_by_one(
    calendar: Calendar, cron: str, zone: str, is_only: bool, on_excluded: OnExcluded
) -> None:
    named = {"only": ("some",)} if is_only else {"exclude": ("some",)}
    table = a_table(calendar, cron=cron, zone=zone, on_excluded=on_excluded, **named)
    begin, end = FORTH - 20 * DAY, FORTH + 20 * DAY

    expected = sorted({moved for moved in _moved_one_by_one(calendar, table.schedule) if begin < moved < end})

    assert list(_walk(table.next, begin, end=end)) == expected
    assert list(_walk(table.previous, end, end=begin))[::-1] == expected


def _walk(step: Any, at: datetime, *, end: datetime) -> Iterator[datetime]:
    """Until it passes the end."""
    is_on = end > at
    while (found := step(at)) is not None and (found < end if is_on else found > end):
        yield found
        at = found


def _moved_one_by_one(calendar: Calendar, schedule: Schedule) -> Iterator[datetime]:
    """The oracle: every time for months around, each moved day by day."""
    zone, step = ZoneInfo(schedule.zone), 1 if schedule.on_excluded is OnExcluded.RUN_AFTER else -1
    for named in _walk(schedule.recurrence().next, FORTH - 53 * DAY, end=FORTH + 53 * DAY):
        wall = named.astimezone(zone).replace(tzinfo=None)
        ways = chain([named], (_instant(wall + step * days * DAY, zone) for days in range(1, 32)))
        yield next((one for one in ways if calendar.covers(one.astimezone(zone)) == bool(schedule.only)), named)


def _instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first minute at which the clock shows this time or, where it skips it, a later one."""
    at = wall.replace(tzinfo=UTC) - timedelta(hours=15)
    while at.astimezone(zone).replace(tzinfo=None) < wall:
        at += timedelta(minutes=30)
    return at
