"""Deciding before the time: only what cannot change, and never instead of looking."""

from datetime import timedelta

import pytest

from rota.application import fire, look_ahead
from rota.application.fire import FireSchedules
from rota.application.look_ahead import AHEAD, USED_WITHIN
from rota.application.manage_calendars import ManageCalendars
from rota.application.reign import Reign
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import OnMissed, Overlap, Schedule
from rota.domain.task import Task
from rota.domain.term import Term
from rota.testing.faults import Fault
from rota.testing.values import replace
from tests.support.builders import EMAIL, MINUTE
from tests.support.virtual import pass_time, virtually
from tests.unit.application.test_fire import Leader, a_leader

SECOND = timedelta(seconds=1)
LIST_DUE = "schedules.list_due"


async def a_decided_leader(schedule: Schedule, *types: str) -> tuple[Leader, FireSchedules]:
    """One that has looked ahead at these configs, two seconds before they are due."""
    leader = await a_leader()
    for task_type in types or (EMAIL,):
        await leader.put(schedule, type=task_type, payload='{"a":1}')
    duty = FireSchedules(leader.node)
    due_at = await leader.truth.schedules.find_next()
    assert due_at is not None
    await pass_time((due_at - leader.node.time.now() - 2 * SECOND).total_seconds())
    await leader.fire(duty)
    assert await leader.outcomes() == []
    return leader, duty


async def the_task(leader: Leader) -> Task:
    [fired] = await leader.occurrences()
    assert fired.task_id is not None
    return (await leader.truth.tasks.load([fired.task_id]))[fired.task_id]


@virtually
async def test_what_was_decided_ahead_fires_at_its_time_without_being_read_again() -> None:
    leader, duty = await a_decided_leader(Schedule(every=MINUTE), EMAIL, "other")
    await pass_time(1.9)
    await leader.fire(duty)
    assert await leader.outcomes() == [], "not before its time"
    await pass_time(0.2)
    leader.faults.inject(LIST_DUE, Fault.TIMEOUT)
    with pytest.raises(StoreUnavailableError):
        await leader.fire(duty)
    assert await leader.outcomes() == await leader.outcomes("other") == ["fired"]
    task = await the_task(leader)
    assert task.spec.scheduled_at is not None
    assert task.spec.created_at >= task.spec.scheduled_at, "it was made at its time"


@virtually
async def test_a_config_that_changed_meanwhile_fires_as_it_is_now() -> None:
    leader, duty = await a_decided_leader(Schedule(every=MINUTE))
    await leader.put(Schedule(every=MINUTE), payload='{"a":2}')
    await pass_time(2.1)
    await leader.fire(duty)
    assert (await the_task(leader)).spec.payload == '{"a":2}'


@virtually
async def test_a_config_that_was_disabled_meanwhile_does_not_fire() -> None:
    leader, duty = await a_decided_leader(Schedule(every=MINUTE))
    await leader.put(Schedule(every=MINUTE), is_enabled=False)
    await pass_time(2.1)
    await leader.fire(duty)
    assert await leader.outcomes() == []


@virtually
async def test_a_run_that_ends_before_the_next_one_is_due_does_not_skip_it() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=MINUTE, overlap=Overlap.SKIP))
    async with leader.firing():
        await pass_time(60.5)
        [first] = await leader.occurrences()
        await leader.run(first.task_id)
        await pass_time(59)  # it goes on, and ends in the last second
        await leader.end(first.task_id)
        await pass_time(1)
    assert await leader.outcomes() == ["fired", "fired"]


@virtually
async def test_a_calendar_that_changes_in_the_last_second_counts() -> None:
    leader = await a_leader()
    calendars = ManageCalendars(leader.node)
    never = StoredCalendar(calendar=Calendar(name="closed"), tenant_id=DEFAULT_TENANT)
    await calendars.put(never)
    await leader.put(Schedule(every=MINUTE, exclude=("closed",)))
    duty = FireSchedules(leader.node)
    await pass_time(58)
    await leader.fire(duty)
    today = frozenset({leader.node.time.now().date()})
    await calendars.put(replace(never, calendar=Calendar(name="closed", dates=today)))
    await pass_time(2.5)
    await leader.fire(duty)
    assert await leader.outcomes() == ["calendar: in closed"]


@virtually
async def test_what_was_decided_in_another_reign_or_too_long_ago_is_decided_anew() -> None:
    schedule = Schedule(every=MINUTE, on_missed=OnMissed.SKIP, missed_grace=USED_WITHIN)
    for pause, new_reign, outcome in [(2.1, True, "fired"), (10.0, False, "missed")]:
        leader, duty = await a_decided_leader(schedule)
        if new_reign:
            leader.reign = Reign(Term(2, trusted_until=float("inf")), leader.node.clock)
        await pass_time(pause)
        leader.faults.inject(LIST_DUE, Fault.TIMEOUT)
        with pytest.raises(StoreUnavailableError):
            await leader.fire(duty)
        assert await leader.outcomes() == [], "what is due is asked for"
        await leader.fire(duty)
        assert await leader.outcomes() == [outcome]


@virtually
async def test_many_are_looked_at_page_by_page_and_no_more_are_kept_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(look_ahead, "PAGE", 2)
    monkeypatch.setattr(look_ahead, "MOST_AHEAD", 4)
    types = [f"type-{number}" for number in range(7)]
    leader, duty = await a_decided_leader(Schedule(every=MINUTE), *types)
    await pass_time(2.1)
    leader.faults.inject(LIST_DUE, Fault.TIMEOUT)
    with pytest.raises(StoreUnavailableError):
        await leader.fire(duty)
    assert [len(await leader.occurrences(one)) for one in types] == [1, 1, 1, 1, 0, 0, 0]
    await leader.fire(duty)
    assert [await leader.outcomes(one) for one in types] == [["fired"]] * 7


@virtually
async def test_what_comes_later_than_it_looks_is_left_alone() -> None:
    leader = await a_leader()
    await leader.put(Schedule(at=(leader.node.time.now() + 2 * AHEAD,)))
    duty = FireSchedules(leader.node)
    await leader.fire(duty)
    leader.faults.inject(LIST_DUE, Fault.TIMEOUT)
    await pass_time(2 * AHEAD.total_seconds() + 0.1)
    with pytest.raises(StoreUnavailableError):
        await leader.fire(duty)
    assert await leader.outcomes() == []


@virtually
async def test_what_is_due_the_moment_it_is_listed_is_not_decided_upon_again() -> None:
    leader, duty = await a_decided_leader(Schedule(every=MINUTE))
    leader.faults.before(LIST_DUE, lambda: pass_time(2.1))
    asked = leader.faults.calls["tasks.find_live"]
    await leader.fire(duty)
    assert await leader.outcomes() == ["fired"]
    assert leader.faults.calls["tasks.find_live"] == asked


@virtually
async def test_a_page_of_what_is_late_is_read_while_the_one_before_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fire, "READ_AT_ONCE", 2)
    leader = await a_leader()
    types = [f"type-{number}" for number in range(5)]
    for task_type in types:
        await leader.put(Schedule(every=MINUTE), type=task_type)
    await pass_time(61)
    await leader.fire()
    assert [await leader.outcomes(one) for one in types] == [["fired"]] * 5
    assert leader.faults.calls[LIST_DUE] == 3 + 1, "three pages, and then nothing is left"


@virtually
async def test_what_waits_for_its_turn_stays_decided_when_a_write_before_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fire, "IN_FLIGHT", 1)
    types = [f"type-{number}" for number in range(5)]
    leader, duty = await a_decided_leader(Schedule(every=MINUTE), *types)
    duty.most = 1
    await pass_time(2.1)
    leader.faults.inject("schedules.fire", Fault.TIMEOUT)
    leader.faults.inject(LIST_DUE, Fault.TIMEOUT)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            await leader.fire(duty)
    assert await leader.outcomes(types[-1]) == ["fired"], "before anything was read again"
    await leader.fire(duty)
    assert [await leader.outcomes(one) for one in types] == [["fired"]] * 5
