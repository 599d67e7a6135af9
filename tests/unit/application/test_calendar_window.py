"""A calendar that changes at the very moment at which a schedule is due: between its change and the new aim of the
schedules that name it, the leader fires."""

from datetime import UTC, datetime, timedelta

from rota.application.fire import FireSchedules
from rota.application.manage_calendars import ManageCalendars
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.schedule import OnExcluded, Schedule
from tests.support.virtual import pass_time, virtually
from tests.unit.application.test_fire import Leader, a_leader

DAY = timedelta(days=1)
LATE = timedelta(seconds=1)


async def put_calendar(leader: Leader, *closed: datetime) -> None:
    calendar = Calendar(name="closed", dates=frozenset(at.date() for at in closed))
    await ManageCalendars(leader.node).put(StoredCalendar(calendar=calendar))


async def wait_until(leader: Leader, moment: datetime) -> None:
    await pass_time((moment - leader.node.time.now()).total_seconds())


async def change_and_fire(leader: Leader, due_at: datetime, *closed: datetime) -> None:
    """Right after the calendar is stored, the schedule is due and fired; only then is it aimed anew."""
    duty = FireSchedules(leader.node)
    await wait_until(leader, due_at - LATE)
    await leader.fire(duty)

    async def fire() -> None:
        await wait_until(leader, due_at + LATE)
        await leader.fire(duty)

    leader.faults.after("calendars.put", fire)
    await put_calendar(leader, *closed)
    await leader.fire(duty)


def tomorrow(leader: Leader) -> datetime:
    return datetime.combine(leader.node.time.now().date(), datetime.min.time(), UTC) + DAY + timedelta(hours=9)


@virtually
async def test_a_day_that_is_closed_at_its_last_moment_runs_on_the_next() -> None:
    leader = await a_leader()
    due_at = tomorrow(leader)
    await put_calendar(leader)
    await leader.put(Schedule(at=(due_at,), exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER))
    await change_and_fire(leader, due_at, due_at)
    assert await leader.outcomes() == []
    await wait_until(leader, due_at + DAY + LATE)
    await leader.fire()
    assert [(one.fire_at, one.reason) for one in await leader.occurrences()] == [(due_at + DAY, "")]


@virtually
async def test_a_day_that_is_open_again_when_its_run_was_moved_runs_once() -> None:
    leader = await a_leader()
    due_at = tomorrow(leader)
    await put_calendar(leader, due_at)
    await leader.put(Schedule(at=(due_at,), exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER))
    await change_and_fire(leader, due_at + DAY)
    await wait_until(leader, due_at + 3 * DAY)
    await leader.fire()
    assert await leader.outcomes() == ["fired"]


@virtually
async def test_a_target_from_before_the_schedule_does_not_come_back() -> None:
    leader = await a_leader()
    due_at = tomorrow(leader)
    await put_calendar(leader)
    daily = Schedule(cron="0 9 * * *", exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER)
    await leader.put(daily)
    await change_and_fire(leader, due_at, due_at)
    assert await leader.outcomes() == []
    await wait_until(leader, due_at + DAY + LATE)
    await leader.fire()
    assert [one.fire_at for one in await leader.occurrences()] == [due_at + DAY], "both run at this moment, once"


@virtually
async def test_a_target_that_has_fired_does_not_fire_again() -> None:
    leader = await a_leader()
    due_at = tomorrow(leader)
    await put_calendar(leader)
    schedule = Schedule(cron="0 9 * * *", exclude=("closed",), on_excluded=OnExcluded.RUN_AFTER)
    await leader.put(schedule)
    await wait_until(leader, due_at + LATE)
    await leader.fire()
    [first] = await leader.occurrences()
    await leader.run(first.task_id)
    await leader.end(first.task_id)
    await change_and_fire(leader, due_at + DAY, due_at + DAY)
    assert [one.fire_at for one in await leader.occurrences()] == [due_at]
    await wait_until(leader, due_at + 2 * DAY + LATE)
    await leader.fire()
    assert [one.fire_at for one in await leader.occurrences()] == [due_at, due_at + 2 * DAY]
