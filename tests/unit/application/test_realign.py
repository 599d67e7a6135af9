"""Calendars that change while runs that they moved are pending, or have run already, on virtual time."""

from datetime import UTC, date, datetime, time, timedelta

import pytest

from rota.application.manage_calendars import ManageCalendars
from rota.application.manage_configs import ManageConfigs
from rota.application.submit import SubmitTasks
from rota.domain.calendar import BusinessDays, Calendar, StoredCalendar, Window
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import OnExcluded, Overlap, Schedule
from tests.support.builders import EMAIL, HOUR, SECOND
from tests.support.virtual import pass_time, virtually
from tests.unit.application.test_fire import Leader, a_leader

THURSDAY, SATURDAY, MONDAY = date(2030, 6, 6), date(2030, 6, 8), date(2030, 6, 10)


RAN = "it ran before it was moved"


def nine(day: int) -> datetime:
    return datetime(2030, 6, day, 9, tzinfo=UTC)


def five(day: int) -> datetime:
    return datetime(2030, 6, day, 17, tzinfo=UTC)


async def open_on(leader: Leader, *workdays: date, holidays: tuple[date, ...] = ()) -> None:
    days = BusinessDays(workdays=frozenset(workdays), holidays=frozenset(holidays))
    await ManageCalendars(leader.node).put(StoredCalendar(calendar=Calendar(name="work", business_days=days)))


async def a_moving_leader(
    cron: str, on_excluded: OnExcluded, *, holidays: tuple[date, ...] = (), jitter: timedelta = timedelta(0)
) -> Leader:
    leader = await a_leader()
    await pass_time((datetime(2030, 6, 5, tzinfo=UTC) - leader.node.time.now()).total_seconds())  # a Wednesday
    await open_on(leader, holidays=holidays)
    await leader.put(Schedule(cron=cron, only=("work",), on_excluded=on_excluded, overlap=Overlap.ALLOW, jitter=jitter))
    return leader


async def fire_at(leader: Leader, moment: datetime) -> None:
    await pass_time((moment + SECOND - leader.node.time.now()).total_seconds())
    await leader.fire()


async def noted(leader: Leader) -> list[tuple[datetime, str]]:
    return [(one.fire_at, one.reason) for one in await leader.occurrences()]


@virtually
async def test_a_run_that_a_changed_calendar_moves_into_the_past_is_made_up_for() -> None:
    leader = await a_moving_leader("0 9 * * 6", OnExcluded.RUN_AFTER)
    await fire_at(leader, nine(9))  # Sunday: the run of Saturday is to come on Monday

    await open_on(leader, SATURDAY)
    await leader.fire()
    await fire_at(leader, nine(11))

    assert await noted(leader) == [(nine(8), "")]


@virtually
async def test_a_run_that_a_changed_calendar_moves_behind_another_one_is_skipped_on_record() -> None:
    leader = await a_leader()
    calendars, ten = ManageCalendars(leader.node), datetime(2030, 6, 9, 10, tzinfo=UTC)
    at_nine = Window(weekdays=frozenset({7}), begin=time(8), end=time(10))
    closed = Calendar(name="closed", dates=frozenset({SATURDAY}), windows=(at_nine,))
    await calendars.put(StoredCalendar(calendar=closed))
    await leader.put(Schedule(at=(nine(8), ten), exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER))
    await fire_at(leader, ten)

    await calendars.put(StoredCalendar(calendar=Calendar(name="closed", windows=(at_nine,))))
    await fire_at(leader, nine(11))

    assert await noted(leader) == [(nine(8), "calendar: moved into the past"), (ten, "")]


@virtually
async def test_a_run_that_was_moved_forward_and_ran_does_not_run_again_where_it_was() -> None:
    leader = await a_moving_leader("0 9 * * 1", OnExcluded.RUN_BEFORE, holidays=(MONDAY,))
    await fire_at(leader, nine(7))
    assert await noted(leader) == [(nine(7), "")]
    await fire_at(leader, nine(8))

    await open_on(leader)
    await fire_at(leader, nine(10))
    await fire_at(leader, nine(17))

    assert await noted(leader) == [
        (nine(7), ""),
        (nine(10), "calendar: it ran before it was moved"),
        (nine(17), ""),
    ]


@pytest.mark.parametrize("jitter", [HOUR, timedelta(0)], ids=["waits for its jitter", "the leader is late"])
@virtually
async def test_a_run_that_was_moved_forward_does_not_run_again_though_another_is_due(jitter: timedelta) -> None:
    leader = await a_moving_leader("0 9,17 * * 3,4", OnExcluded.RUN_BEFORE, holidays=(THURSDAY,), jitter=jitter)
    await fire_at(leader, nine(5) + HOUR)
    await pass_time((five(5) + SECOND - leader.node.time.now()).total_seconds())

    await open_on(leader)
    for moment in (five(5), nine(6), five(6)):
        await fire_at(leader, moment + HOUR)

    assert await noted(leader) == [
        (nine(5), ""),
        (five(5), ""),
        (nine(6), "calendar: it ran before it was moved"),
        (five(6), ""),
    ]


@virtually
async def test_a_run_that_was_moved_forward_does_not_run_late_in_place_of_the_one_that_is_due() -> None:
    leader = await a_moving_leader("0 9 * * 1,4", OnExcluded.RUN_BEFORE, holidays=(THURSDAY, MONDAY))
    await fire_at(leader, nine(5))
    await pass_time((nine(7) + SECOND - leader.node.time.now()).total_seconds())  # the run of Monday is due

    await open_on(leader)
    await fire_at(leader, nine(7) + HOUR)
    await fire_at(leader, nine(10))

    assert await noted(leader) == [
        (nine(5), ""),
        (nine(6), "calendar: it ran before it was moved"),
        (nine(10), ""),
    ]


@virtually
async def test_a_run_that_was_moved_forward_does_not_run_again_after_a_pause() -> None:
    leader = await a_moving_leader("0 9,17 * * 3,4", OnExcluded.RUN_BEFORE, holidays=(THURSDAY,))
    configs = ManageConfigs(leader.node, SubmitTasks(leader.node))
    await fire_at(leader, nine(5))
    await configs.pause_schedule(DEFAULT_TENANT, EMAIL)
    await pass_time((five(5) + HOUR - leader.node.time.now()).total_seconds())

    await open_on(leader)
    await configs.resume_schedule(DEFAULT_TENANT, EMAIL)
    await fire_at(leader, nine(6))
    await fire_at(leader, five(6))

    assert await noted(leader) == [
        (nine(5), ""),
        (five(5), "paused"),
        (nine(6), "calendar: it ran before it was moved"),
        (five(6), ""),
    ]


@virtually
async def test_a_day_that_ran_and_is_closed_afterwards_does_not_run_again_on_the_next() -> None:
    leader = await a_moving_leader("0 9 * * 5", OnExcluded.RUN_AFTER)
    await fire_at(leader, nine(7))
    await fire_at(leader, nine(8))

    await open_on(leader, holidays=(date(2030, 6, 7),))
    await fire_at(leader, nine(10))
    await fire_at(leader, nine(14))

    assert await noted(leader) == [
        (nine(7), ""),
        (nine(10), "calendar: it ran before it was moved"),
        (nine(14), ""),
    ]


@virtually
async def test_a_day_that_ran_and_is_moved_twice_afterwards_does_not_run_again() -> None:
    leader = await a_moving_leader("0 9 * * 5", OnExcluded.RUN_AFTER)
    await fire_at(leader, nine(7))

    await open_on(leader, holidays=(date(2030, 6, 7),))
    await open_on(leader, holidays=(date(2030, 6, 7), MONDAY))
    await fire_at(leader, nine(12))

    assert await noted(leader) == [(nine(7), ""), *((nine(day), f"calendar: {RAN}") for day in (10, 11))]


@virtually
async def test_a_target_that_another_run_has_of_its_own_fires() -> None:
    leader = await a_moving_leader("0 9 * * 5,1", OnExcluded.RUN_AFTER)
    await fire_at(leader, nine(7))

    await open_on(leader, holidays=(date(2030, 6, 7),))  # its run would move to Monday, which has one
    await fire_at(leader, nine(10))

    assert await noted(leader) == [(nine(7), ""), (nine(10), "")]


@virtually
async def test_a_run_that_is_due_already_stays() -> None:
    leader = await a_moving_leader("0 9 * * 6", OnExcluded.RUN_AFTER)
    await pass_time((nine(10) + SECOND - leader.node.time.now()).total_seconds())

    await open_on(leader, date(2030, 6, 15))
    await leader.fire()

    assert await noted(leader) == [(nine(10), "")]


@virtually
async def test_due_runs_that_met_and_that_a_changed_calendar_parts_are_all_dealt_with() -> None:
    leader = await a_moving_leader("0 9 * * 6,7", OnExcluded.RUN_AFTER)
    await pass_time((nine(10) + SECOND - leader.node.time.now()).total_seconds())  # both are due on Monday

    await open_on(leader, SATURDAY, date(2030, 6, 9))
    await leader.fire()

    assert await noted(leader) == [(nine(8), "coalesced"), (nine(9), "")]


@virtually
async def test_a_run_that_is_moved_to_before_the_schedule_was_put_is_skipped_on_record() -> None:
    leader = await a_moving_leader("0 9 * * *", OnExcluded.RUN_BEFORE)

    await open_on(leader, holidays=(date(2030, 6, 5),))  # it goes to Tuesday, whose run never was one
    await fire_at(leader, nine(6))

    assert await noted(leader) == [(nine(4), "calendar: moved into the past"), (nine(6), "")]


@virtually
async def test_a_late_run_that_is_moved_behind_what_was_dealt_with_is_skipped_on_record() -> None:
    leader = await a_moving_leader("0 9,17 * * *", OnExcluded.RUN_BEFORE)
    for moment in (nine(5), five(5)):
        await fire_at(leader, moment)
    await pass_time((nine(6) + SECOND - leader.node.time.now()).total_seconds())

    await open_on(leader, holidays=(date(2030, 6, 5), THURSDAY))
    await fire_at(leader, nine(7))

    assert await noted(leader) == [
        (nine(4), "calendar: moved into the past"),
        (five(4), "calendar: moved into the past"),
        (nine(5), ""),
        (five(5), ""),
        (nine(7), ""),
    ]


@virtually
async def test_a_run_that_was_moved_into_the_past_and_then_ahead_does_not_run_again() -> None:
    leader = await a_moving_leader("0 9 * * 1", OnExcluded.RUN_BEFORE, holidays=(MONDAY,))
    await fire_at(leader, nine(7))

    await open_on(leader, holidays=(date(2030, 6, 7), MONDAY))
    await open_on(leader)
    await fire_at(leader, nine(10))

    assert await noted(leader) == [(nine(6), f"calendar: {RAN}"), (nine(7), ""), (nine(10), f"calendar: {RAN}")]
