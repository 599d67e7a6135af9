from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.calendar import BusinessDays, Calendar, Period, Window
from rota.domain.errors import InvalidError
from rota.domain.schedule import OnExcluded, OnMissed, Schedule
from rota.domain.timetable import MOST_PREVIEWED, Planned, SkipReason, Timetable
from tests.support.builders import HOUR, MINUTE, NOW, SECOND
from tests.support.properties import BROAD_PROPERTY

DAY = timedelta(days=1)
HOURLY: dict[str, Any] = {"cron": "0 * * * *"}
COMPANY = Calendar(
    name="company",
    business_days=BusinessDays(holidays=frozenset({date(2026, 1, 5)}), workdays=frozenset({date(2026, 1, 10)})),
)


def a_timetable(*calendars: Calendar, seed: str = "report", **facts: Any) -> Timetable:
    return Timetable(Schedule(**facts), seed=seed, calendars={one.name: one for one in calendars})


def told(plans: list[Planned]) -> list[tuple[str, str]]:
    """Targets as hours of their day, with what becomes of them."""
    return [(plan.target.strftime("%H:%M"), plan.reason or "fires") for plan in plans]


def test_a_cron_schedule_has_its_targets_in_its_zone() -> None:
    table = a_timetable(cron="0 9 * * *", zone="Asia/Shanghai")

    assert table.upcoming(NOW, count=2) == [datetime(2026, 1, 2, 1, tzinfo=UTC), datetime(2026, 1, 3, 1, tzinfo=UTC)]
    assert table.recent(NOW, count=2) == [datetime(2026, 1, 1, 1, tzinfo=UTC), datetime(2025, 12, 31, 1, tzinfo=UTC)]


def test_an_interval_counts_from_its_start_or_from_1970() -> None:
    assert a_timetable(every=90 * MINUTE).next(NOW) == datetime(2026, 1, 1, 13, 30, tzinfo=UTC)
    started = a_timetable(every=90 * MINUTE, start_at=NOW + MINUTE)
    assert started.upcoming(NOW - DAY, count=2) == [NOW + MINUTE, NOW + 91 * MINUTE]
    assert started.previous(NOW + 91 * MINUTE) == NOW + MINUTE
    assert started.previous(NOW + MINUTE) is None


def test_a_list_of_instants_is_used_up() -> None:
    table = a_timetable(at=(NOW, NOW + DAY))

    assert table.upcoming(NOW - DAY, count=5) == [NOW, NOW + DAY]
    assert table.recent(NOW + DAY, count=5) == [NOW]
    assert table.next(NOW + DAY) is None
    assert told(table.plan_fires(NOW - DAY, NOW)) == [("12:00", "fires")]
    assert table.plan_fires(NOW + DAY, NOW + 2 * DAY) == []


def test_a_fixed_delay_runs_from_the_end_of_the_run_before() -> None:
    table = a_timetable(after_end=10 * MINUTE, start_at=NOW)

    assert table.next(NOW - DAY) == NOW
    assert table.next(NOW + HOUR) == NOW + HOUR + 10 * MINUTE
    assert table.upcoming(NOW + HOUR, count=9) == [NOW + HOUR + 10 * MINUTE]
    assert table.recent(NOW, count=9) == []
    assert table.plan_fires(NOW, NOW + 9 * MINUTE) == []
    assert told(table.plan_fires(NOW, NOW + 10 * MINUTE)) == [("12:10", "fires")]
    assert a_timetable(after_end=timedelta(0)).next(NOW) == NOW + timedelta(microseconds=1)
    assert a_timetable(after_end=MINUTE, end_at=NOW).plan_fires(NOW, NOW + DAY) == []


def test_targets_keep_within_start_and_end() -> None:
    table = a_timetable(**HOURLY, start_at=NOW, end_at=NOW + 2 * HOUR)

    assert table.upcoming(NOW - DAY, count=9) == [NOW, NOW + HOUR]
    assert table.recent(NOW + DAY, count=9) == [NOW + HOUR, NOW]
    assert table.recent(NOW + HOUR, count=9) == [NOW]


def test_a_preview_is_bounded() -> None:
    assert len(a_timetable(every=SECOND).upcoming(NOW, count=10**9)) == MOST_PREVIEWED


def test_jitter_is_the_same_everywhere_differs_by_config_and_keeps_the_order() -> None:
    table = a_timetable(**HOURLY, jitter=3 * HOUR)
    targets = table.upcoming(NOW, count=50)
    due = [table.due_at(target) for target in targets]

    assert due == [a_timetable(**HOURLY, jitter=3 * HOUR).due_at(target) for target in targets]
    assert due != [a_timetable(**HOURLY, jitter=3 * HOUR, seed="other").due_at(target) for target in targets]
    assert all(target <= at < target + HOUR for target, at in zip(targets, due, strict=True))
    assert len({at - target for target, at in zip(targets, due, strict=True)}) > 40
    once = a_timetable(at=(NOW,), jitter=MINUTE).due_at(NOW)
    assert NOW <= once < NOW + MINUTE


def test_a_target_with_jitter_waits_until_it_is_due() -> None:
    table = a_timetable(**HOURLY, jitter=HOUR)
    due = table.due_at(NOW)

    assert table.plan_fires(NOW - MINUTE, due - timedelta(microseconds=1)) == []
    assert [plan.target for plan in table.plan_fires(NOW - MINUTE, due)] == [NOW]


def test_what_is_due_in_time_fires() -> None:
    table = a_timetable(**HOURLY)

    assert told(table.plan_fires(NOW, NOW + HOUR + 59 * SECOND)) == [("13:00", "fires")]
    assert table.plan_fires(NOW, NOW + HOUR - SECOND) == []
    assert table.plan_fires(NOW + HOUR, NOW + HOUR) == []


@pytest.mark.parametrize(
    ("on_missed", "late_by", "expected"),
    [
        ("run_once", 30 * MINUTE, ["coalesced", "coalesced", "fires"]),
        ("run_once", timedelta(0), ["coalesced", "coalesced", "fires"]),
        ("run_all", 30 * MINUTE, ["fires", "fires", "fires"]),
        ("skip", 30 * MINUTE, ["missed", "missed", "missed"]),
        ("skip", timedelta(0), ["missed", "missed", "fires"]),
    ],
)
def test_missed_targets_are_dealt_with_as_the_schedule_says(
    on_missed: str, late_by: timedelta, expected: list[str]
) -> None:
    table = a_timetable(**HOURLY, on_missed=OnMissed(on_missed))

    plans = table.plan_fires(NOW, NOW + 3 * HOUR + late_by)

    assert told(plans) == list(zip(["13:00", "14:00", "15:00"], expected, strict=True))


def test_a_longer_grace_makes_less_of_it_missed() -> None:
    table = a_timetable(**HOURLY, on_missed=OnMissed.SKIP, missed_grace=2 * HOUR)

    assert [reason for _, reason in told(table.plan_fires(NOW, NOW + 4 * HOUR + MINUTE))] == [
        "missed",
        "missed",
        "fires",
        "fires",
    ]


def test_of_too_many_the_oldest_are_skipped_as_one_range() -> None:
    table = a_timetable(every=SECOND, on_missed=OnMissed.RUN_ALL, missed_limit=3)

    plans = table.plan_fires(NOW, NOW + 70 * 365 * DAY)

    assert [plan.fires for plan in plans] == [False, True, True, True]
    assert plans[0] == Planned(
        target=plans[1].target - SECOND,
        due_at=plans[1].target - SECOND,
        reason=SkipReason.MISSED_LIMIT,
        since=NOW + SECOND,
    )


def test_a_paused_schedule_skips_what_is_due_as_one_range() -> None:
    [plan] = a_timetable(**HOURLY, is_paused=True).plan_fires(NOW, NOW + DAY)

    assert (plan.reason, plan.since, plan.target) == (SkipReason.PAUSED, NOW + HOUR, NOW + DAY)


def test_a_schedule_ends_after_its_last_run() -> None:
    table = a_timetable(**HOURLY, on_missed=OnMissed.RUN_ALL, max_runs=3)

    assert told(table.plan_fires(NOW, NOW + 4 * HOUR, runs=1)) == [("13:00", "fires"), ("14:00", "fires")]
    assert table.plan_fires(NOW, NOW + 4 * HOUR, runs=3) == []
    skipping = a_timetable(**HOURLY, on_missed=OnMissed.SKIP, max_runs=1)
    assert told(skipping.plan_fires(NOW, NOW + 2 * HOUR)) == [("13:00", "missed"), ("14:00", "fires")]


@BROAD_PROPERTY
@given(
    cron=st.sampled_from(["*/7 * * * *", "0 */3 * * *", "30 2 * * *", "0 0 * * 1"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
    pauses=st.lists(st.integers(1, 200_000), min_size=1, max_size=8),
    on_missed=st.sampled_from(list(OnMissed)),
)
def test_however_the_clock_is_asked_each_target_has_one_decision(
    cron: str, zone: str, pauses: list[int], on_missed: OnMissed
) -> None:
    table = a_timetable(cron=cron, zone=zone, on_missed=on_missed, missed_limit=1000, jitter=HOUR)
    begin = datetime(2026, 3, 27, tzinfo=UTC)
    after = now = begin
    decided: list[datetime] = []
    for pause in pauses:
        now += pause * SECOND
        plans = table.plan_fires(after, now)
        decided += [plan.target for plan in plans]
        after = max([after, *decided])

    due = [target for target in table.upcoming(begin, count=1000) if table.due_at(target) <= now]
    assert decided == due or len(due) == 1000


@pytest.mark.parametrize(
    ("on_excluded", "expected"),
    [
        (OnExcluded.SKIP, ["01-02", "01-06", "01-07", "01-08", "01-09", "01-10", "01-12"]),
        (OnExcluded.RUN_AFTER, ["01-02", "01-06", "01-07", "01-08", "01-09", "01-10", "01-12"]),
    ],
)
def test_only_business_days_have_runs(on_excluded: OnExcluded, expected: list[str]) -> None:
    table = a_timetable(
        COMPANY, cron="0 9 * * *", only=("company",), on_excluded=on_excluded, on_missed=OnMissed.RUN_ALL
    )

    plans = table.plan_fires(NOW, datetime(2026, 1, 13, tzinfo=UTC))

    assert [plan.target.strftime("%m-%d") for plan in plans if plan.fires] == expected
    skipped = {plan.reason for plan in plans if not plan.fires}
    assert skipped == ({SkipReason.CALENDAR} if on_excluded is OnExcluded.SKIP else set())


@pytest.mark.parametrize(
    ("on_excluded", "expected"),
    [
        (OnExcluded.RUN_BEFORE, ["01-02 09:00", "01-10 09:00", "01-16 09:00", "01-23 09:00"]),
        (OnExcluded.RUN_AFTER, ["01-06 09:00", "01-10 09:00", "01-12 09:00", "01-19 09:00"]),
    ],
)
def test_a_run_moves_to_the_same_time_of_a_day_that_is_allowed(on_excluded: OnExcluded, expected: list[str]) -> None:
    table = a_timetable(COMPANY, cron="0 9 * * 6,7", only=("company",), on_excluded=on_excluded, zone="Europe/Berlin")
    begin = datetime(2026, 1, 2, tzinfo=UTC)

    shown = [at.astimezone(ZoneInfo("Europe/Berlin")) for at in table.upcoming(begin, count=4)]

    assert [at.strftime("%m-%d %H:%M") for at in shown] == expected
    targets = table.upcoming(NOW, count=12)
    assert targets == sorted(set(targets))
    assert [table.previous(target) for target in targets[1:]] == targets[:-1]


def test_a_target_that_can_move_nowhere_is_skipped() -> None:
    never = Calendar(name="never")
    table = a_timetable(never, cron="0 9 * * *", only=("never",), on_excluded=OnExcluded.RUN_AFTER)

    [plan] = table.plan_fires(NOW, NOW + DAY)

    assert plan.reason is SkipReason.CALENDAR


def test_moved_targets_end_with_the_schedule() -> None:
    table = a_timetable(COMPANY, at=(NOW,), only=("company",), on_excluded=OnExcluded.RUN_BEFORE)

    assert table.upcoming(NOW - DAY, count=3) == [NOW]
    assert table.recent(NOW + DAY, count=3) == [NOW]
    assert table.next(NOW) is None
    assert table.previous(NOW) is None


def test_excluded_times_have_no_run() -> None:
    night = Calendar(name="night", windows=(Window(begin=time(22), end=time(6)),))
    table = a_timetable(night, cron="0 */4 * * *", exclude=("night",), on_missed=OnMissed.RUN_ALL)

    assert told(table.plan_fires(NOW, NOW + DAY)) == [
        ("16:00", "fires"),
        ("20:00", "fires"),
        ("00:00", "calendar"),
        ("04:00", "calendar"),
        ("08:00", "fires"),
        ("12:00", "fires"),
    ]


def test_a_period_is_the_same_in_every_zone() -> None:
    freeze = Calendar(name="freeze", periods=(Period(begin=NOW, end=NOW + HOUR),))
    table = a_timetable(freeze, every=30 * MINUTE, exclude=("freeze",), zone="Asia/Tokyo")

    assert [table.objection(NOW + number * 30 * MINUTE) for number in range(-1, 3)] == ["", *2 * ["in freeze"], ""]


@pytest.mark.parametrize(
    ("field", "schedule"),
    [("only", Schedule(cron="0 9 * * *", only=("moon",))), ("exclude", Schedule(cron="0 9 * * *", exclude=("moon",)))],
)
def test_an_unknown_calendar_is_refused(field: str, schedule: Schedule) -> None:
    with pytest.raises(InvalidError, match=f"schedule.{field}: there is no calendar 'moon'"):
        Timetable(schedule, seed="report")


def test_what_the_calendars_do_to_a_target_is_said() -> None:
    table = a_timetable(COMPANY, cron="0 9 * * *", only=("company",))

    [saturday] = table.plan_fires(datetime(2026, 1, 3, tzinfo=UTC), datetime(2026, 1, 4, tzinfo=UTC))

    assert (saturday.reason, saturday.detail) == (SkipReason.CALENDAR, "not in company")
    assert table.moved_from(saturday.target) is None


def test_a_moved_target_knows_where_it_comes_from() -> None:
    after = a_timetable(COMPANY, cron="0 9 * * 6", only=("company",), on_excluded=OnExcluded.RUN_AFTER)
    before = a_timetable(COMPANY, cron="0 9 * * 6", only=("company",), on_excluded=OnExcluded.RUN_BEFORE)
    nine = datetime(2026, 1, 17, 9, tzinfo=UTC)

    assert after.moved_from(nine + 2 * DAY) == nine
    assert before.moved_from(nine - DAY) == nine
    assert after.moved_from(nine - 7 * DAY) is None  # a Saturday that is worked
    assert after.moved_from(nine + 3 * DAY) is None


def test_a_year_that_no_calendar_knows_is_skipped_as_an_error_and_nothing_moves_there() -> None:
    known = Calendar(name="known", windows=(Window(weekdays=frozenset(range(1, 6))),), years=(2026, 2026))
    new_year = datetime(2027, 1, 1, 9, tzinfo=UTC)
    skips = a_timetable(known, cron="0 9 * * *", only=("known",))
    moves = a_timetable(known, cron="0 9 * * 6", only=("known",), on_excluded=OnExcluded.RUN_BEFORE)

    [plan] = skips.plan_fires(new_year - HOUR, new_year + HOUR)

    assert (plan.reason, plan.detail) == (SkipReason.ERROR, "known knows the years 2026 to 2026, not 2027; put it anew")
    assert moves.next(new_year - DAY) == new_year + DAY  # Saturday, 2 January: it stays, and is judged there


def test_a_pace_is_fixed_unless_the_wall_clock_or_a_calendar_has_a_say() -> None:
    closed = Calendar(name="closed")
    assert Timetable(Schedule(every=timedelta(minutes=5)), seed="").pace == timedelta(minutes=5)
    assert Timetable(Schedule(cron="@every 90s"), seed="").pace == timedelta(seconds=90)
    assert Timetable(Schedule(cron="*/5 * * * *"), seed="").pace is None
    guarded = Schedule(every=timedelta(minutes=5), exclude=("closed",))
    assert Timetable(guarded, seed="", calendars={"closed": closed}).pace is None
