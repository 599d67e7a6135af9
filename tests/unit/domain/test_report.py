"""Laying out reports, and adding them up."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.domain.errors import InvalidError
from rota.domain.report import MOST_BUCKETS, MOST_ITEMS, By, Layout, Report, ReportWish, lay_out
from rota.domain.rollup import Figures, Grain, Reach, Spread, micros

NOW = datetime(2026, 11, 16, 13, 20, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def laid_out(now: datetime = NOW, **wish: Any) -> Layout:
    return lay_out(ReportWish(**wish), now=now, reach=Reach())


def edges(layout: Layout) -> list[str]:
    return [f"{edge:%m-%d %H:%M}" for edge in layout.edges]


def test_a_week_by_day_is_what_nobody_asked_otherwise() -> None:
    layout = laid_out()
    assert (len(layout.edges), layout.grain) == (9, Grain.DAY)
    assert (layout.edges[0], layout.edges[-1]) == (
        datetime(2026, 11, 9, tzinfo=UTC),
        datetime(2026, 11, 17, tzinfo=UTC),
    )


def test_by_hour_it_is_a_day() -> None:
    layout = laid_out(by=By.HOUR)
    assert (len(layout.edges), layout.grain) == (26, Grain.HOUR)
    assert layout.edges[0] == datetime(2026, 11, 15, 13, tzinfo=UTC)


def test_days_are_those_of_the_zone() -> None:
    layout = laid_out(zone="Asia/Shanghai", begin=NOW - DAY)
    assert edges(layout) == ["11-14 16:00", "11-15 16:00", "11-16 16:00"]
    assert layout.grain is Grain.HOUR


def test_hours_of_a_zone_that_is_half_an_hour_off_are_made_of_quarters() -> None:
    layout = laid_out(zone="Asia/Kolkata", by=By.HOUR, begin=NOW - HOUR)
    assert edges(layout) == ["11-16 11:30", "11-16 12:30", "11-16 13:30"]
    assert layout.grain is Grain.QUARTER
    assert laid_out(zone="Asia/Kathmandu").grain is Grain.QUARTER


def test_a_day_on_which_the_clocks_change_has_23_or_25_hours() -> None:
    spring = datetime(2026, 3, 30, 12, tzinfo=UTC)
    layout = laid_out(spring, zone="Europe/Berlin", begin=spring - 2 * DAY)
    assert [(end - start) / HOUR for start, end in zip(layout.edges, layout.edges[1:], strict=False)] == [24, 23, 24]
    autumn = datetime(2026, 10, 26, 12, tzinfo=UTC)
    layout = laid_out(autumn, zone="Europe/Berlin", begin=autumn - 2 * DAY)
    assert [(end - start) / HOUR for start, end in zip(layout.edges, layout.edges[1:], strict=False)] == [24, 25, 24]


def test_a_zone_whose_clocks_change_by_half_an_hour_leaves_no_time_out() -> None:
    change = datetime(2026, 10, 3, 12, tzinfo=UTC)
    layout = laid_out(change + DAY, zone="Australia/Lord_Howe", by=By.HOUR, begin=change)
    assert list(layout.edges) == sorted(set(layout.edges))
    assert layout.edges[0] <= change
    assert layout.edges[-1] >= change + DAY


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"zone": "Moon/Base"}, "zone"),
        ({"begin": NOW}, "from"),
        ({"begin": NOW - DAY, "end": NOW - 2 * DAY}, "from"),
        ({"begin": NOW + DAY, "end": NOW + 2 * DAY}, "from"),
        ({"begin": datetime(2026, 1, 1)}, "from"),  # noqa: DTZ001 what a client may send
        ({"end": datetime(1990, 1, 1, tzinfo=UTC)}, "to"),
        ({"begin": NOW - (MOST_BUCKETS + 1) * DAY}, "from"),
        ({"begin": NOW - (MOST_BUCKETS + 1) * HOUR, "by": By.HOUR}, "from"),
    ],
)
def test_what_no_report_can_be_made_of_is_refused(wish: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        laid_out(**wish)
    assert caught.value.field == field


def test_only_days_of_utc_reach_back_for_years() -> None:
    begin = NOW - 600 * DAY
    assert laid_out(begin=begin, end=begin + 30 * DAY).grain is Grain.DAY
    with pytest.raises(InvalidError, match="back to 2026-10-12, begin there or later; by=day with zone=UTC reaches"):
        laid_out(begin=begin, end=begin + 30 * DAY, zone="Asia/Shanghai")
    with pytest.raises(InvalidError, match=r"back to 2024-11-16, begin there or later$"):
        laid_out(begin=NOW - 800 * DAY, end=NOW - 780 * DAY)


def a_report() -> Report:
    return Report(laid_out(zone="Asia/Shanghai", begin=NOW - 2 * DAY), None)


def test_sums_are_added_to_the_bucket_that_holds_them() -> None:
    report = a_report()
    first, _, last, end = report.layout.edges
    sums = [(first, "b", 1), (first + 23 * HOUR, "b", 2), (last, "a", 4), (last, "b", 8), (end - HOUR, "b", 16)]
    for start, name, number in sums:
        report.add(micros(start), name, figures=Figures(succeeded=number))
    items = [(one.start, one.end - one.start, one.type, one.figures.succeeded) for one in report.items]
    assert items == [(first, DAY, "b", 3), (last, DAY, "a", 4), (last, DAY, "b", 24)]
    assert {name: one.succeeded for name, one in report.types.items()} == {"a": 4, "b": 27}
    assert report.totals.succeeded == 31


def test_the_slowest_and_those_that_fail_most_come_first() -> None:
    report = a_report()
    start = micros(report.layout.edges[0])
    for place in range(12):
        spread = Spread()
        spread.add(place * 10**6)
        report.add(start, f"t{place:02}", figures=Figures(failed=place % 3, timed_out=place % 2, run=spread))
    report.add(start, "unused", figures=Figures(submitted=5))
    assert report.slowest == [f"t{place:02}" for place in range(11, 1, -1)]
    assert report.most_failing == ["t05", "t11", "t01", "t02", "t07", "t08", "t03", "t04", "t09", "t10"]


def test_more_than_anybody_can_look_at_is_refused() -> None:
    report = a_report()
    start = micros(report.layout.edges[0])
    with pytest.raises(InvalidError, match="more than 10000 items: name types"):
        for place in range(MOST_ITEMS + 1):
            report.add(start, f"type{place}", figures=Figures())
