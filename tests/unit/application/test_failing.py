"""Schedules that pause themselves after failed runs, and runs that are ended hard."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta

import pytest

from rota.application import metrics
from rota.application.failing import JUDGED_AT_ONCE
from rota.application.manage_configs import ManageConfigs
from rota.application.submit import SubmitTasks
from rota.domain.attempt import TaskError
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.errors import NotFoundError
from rota.domain.events import EventKind
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.schedule import Occurrence, Overlap, Schedule
from rota.domain.task_config import ConfigKey, TaskConfig
from rota.domain.worker import kill_mark
from rota.testing.faults import Fault
from rota.testing.values import replace
from tests.support.builders import EMAIL, MINUTE, a_config
from tests.support.virtual import pass_time, virtually
from tests.unit.application.test_fire import Leader, a_leader

KEY = (DEFAULT_TENANT, EMAIL)
PAUSES = Schedule(every=MINUTE, pause_after_failures=2, overlap=Overlap.ALLOW)


async def fire_next(leader: Leader) -> TaskId | None:
    """The run of the next target, or None when it was skipped."""
    await pass_time(60)
    await leader.fire()
    return (await leader.occurrences())[-1].task_id


async def fail(leader: Leader, task_id: TaskId | None) -> None:
    assert task_id is not None
    await leader.run(task_id)
    state = (await leader.truth.tasks.load([task_id]))[task_id].state
    error = TaskError("broken", "it does not work", retryable=False)
    await leader.truth.tasks.advance([state.failed(error, at=leader.node.time.now())])


async def config_of(leader: Leader) -> TaskConfig:
    found = await leader.truth.configs.find(*KEY)
    assert found is not None
    return found


async def is_paused(leader: Leader) -> bool:
    schedule = (await config_of(leader)).schedule
    return schedule is not None and schedule.is_paused


@virtually
async def test_a_schedule_pauses_itself_after_so_many_failures_in_a_row() -> None:
    leader = await a_leader()
    await leader.put(PAUSES)
    await leader.truth.configs.put(replace(await config_of(leader), name="Ada's", updated_by="Ada"))
    await fail(leader, await fire_next(leader))
    last = await fire_next(leader)
    await fail(leader, last)
    assert not await is_paused(leader)
    async with leader.node.coordinator.signals.subscribe() as events:
        assert await fire_next(leader) is None
        told = await anext(events)
    assert told.event is not None
    assert (told.event.kind, told.event.task_type) == (EventKind.SCHEDULE_PAUSED, EMAIL)
    paused = await config_of(leader)
    schedule = paused.schedule
    assert schedule is not None
    assert paused.updated_by == "", "it was not Ada who paused it"
    assert schedule.pause_note == f"paused after 2 failed runs in a row; the last one was task {last}"
    assert await leader.outcomes() == ["fired", "fired", "paused"]
    assert leader.figures.counted[metrics.SCHEDULES_PAUSED.name,] == 1


@virtually
async def test_a_success_and_a_run_that_goes_on_do_not_count() -> None:
    leader = await a_leader()
    await leader.put(PAUSES)
    await fail(leader, await fire_next(leader))
    good = await fire_next(leader)
    await leader.run(good)
    await leader.end(good)
    await fail(leader, await fire_next(leader))
    goes_on = await fire_next(leader)
    assert goes_on is not None
    assert await fire_next(leader) is not None
    await fail(leader, goes_on)
    assert await fire_next(leader) is None


@virtually
async def test_a_schedule_that_was_resumed_counts_anew() -> None:
    leader = await a_leader()
    configs = ManageConfigs(leader.node, SubmitTasks(leader.node))
    await leader.put(PAUSES)
    for _ in range(2):
        await fail(leader, await fire_next(leader))
    assert await fire_next(leader) is None
    resumed = await configs.resume_schedule(*KEY)
    assert resumed.schedule is not None
    assert (resumed.schedule.is_paused, resumed.schedule.pause_note) == (False, "")
    await fail(leader, await fire_next(leader))
    await fail(leader, await fire_next(leader))
    assert await fire_next(leader) is None


@virtually
async def test_a_config_that_changes_meanwhile_is_judged_again_with_the_next_target() -> None:
    leader = await a_leader()
    await leader.put(PAUSES)
    for _ in range(2):
        await fail(leader, await fire_next(leader))
    changed = a_config(EMAIL, schedule=PAUSES, name="fixed")
    leader.faults.before("configs.put", lambda: leader.truth.configs.put(changed))
    assert await fire_next(leader) is not None
    assert not await is_paused(leader)


@virtually
async def test_a_pause_holds_although_nobody_can_be_told() -> None:
    leader = await a_leader()
    await leader.put(PAUSES)
    for _ in range(2):
        await fail(leader, await fire_next(leader))
    leader.faults.inject("signals.publish", Fault.GONE, times=None)
    assert await fire_next(leader) is None
    assert await is_paused(leader)


@virtually
async def test_a_failing_schedule_that_cannot_be_paused_holds_up_nobody_else() -> None:
    leader = await a_leader()
    await leader.truth.calendars.put(StoredCalendar(calendar=Calendar(name="closed")))
    await leader.put(replace(PAUSES, exclude=("closed",)))
    await leader.put(Schedule(every=MINUTE, overlap=Overlap.ALLOW), type="other")
    for _ in range(2):
        await fail(leader, await fire_next(leader))
    vars(leader.truth.calendars)["_state"].calendars.clear()  # as a store is left by a restore that missed a table
    assert await fire_next(leader) is None
    assert not await is_paused(leader)
    assert await leader.outcomes("other") == ["fired"] * 3


@virtually
async def test_a_last_run_that_is_gone_pauses_nothing() -> None:
    leader = await a_leader()
    await leader.put(PAUSES)
    for _ in range(2):
        await fail(leader, await fire_next(leader))
    await pass_time(10)
    await leader.truth.tasks.purge(completed_before=leader.node.time.now(), limit=10)
    assert await fire_next(leader) is not None


@virtually
async def test_a_schedule_is_paused_by_hand_with_a_note() -> None:
    leader = await a_leader()
    configs = ManageConfigs(leader.node, SubmitTasks(leader.node))
    await leader.put(Schedule(every=MINUTE))
    paused = await configs.pause_schedule(*KEY, note="the disk is full")
    assert paused.schedule is not None
    assert (paused.schedule.pause_note, paused.is_enabled, paused.can_fire) == ("the disk is full", True, False)
    await pass_time(60)
    await leader.fire()
    assert await leader.occurrences() == []
    await configs.put(a_config("plain"))
    with pytest.raises(NotFoundError) as caught:
        await configs.pause_schedule(DEFAULT_TENANT, "plain")
    assert caught.value.code == "schedule_not_found"


@pytest.mark.parametrize(("overlap", "is_hard"), [(Overlap.KILL_RUNNING, True), (Overlap.CANCEL_RUNNING, False)])
def test_a_run_that_goes_on_is_ended_hard_only_where_the_schedule_says_so(overlap: Overlap, is_hard: bool) -> None:
    @virtually
    async def scene() -> None:
        leader = await a_leader()
        await leader.put(Schedule(every=MINUTE, overlap=overlap))
        first = await fire_next(leader)
        assert first is not None
        await leader.run(first)
        assert await fire_next(leader) is not None
        signals = leader.node.coordinator.signals
        asked = await signals.find_cancelled([first, kill_mark(first)])
        assert asked == ({first, kill_mark(first)} if is_hard else {first})

    scene()


@virtually
async def test_a_target_that_a_calendar_excludes_is_skipped_and_the_calendar_named() -> None:
    leader = await a_leader()
    today = leader.node.time.now().date()
    days = frozenset(today + timedelta(days=day) for day in range(2))
    await leader.truth.calendars.put(StoredCalendar(calendar=Calendar(name="closed", dates=days)))
    await leader.put(Schedule(every=MINUTE, exclude=("closed",)))
    assert await fire_next(leader) is None
    opened = frozenset({date(2000, 1, 1)})
    await leader.truth.calendars.put(StoredCalendar(calendar=Calendar(name="closed", dates=opened)))
    assert await fire_next(leader) is not None
    assert await leader.outcomes() == ["calendar: in closed", "fired"]
    assert leader.counted("calendar") == 1


@virtually
async def test_the_runs_of_all_schedules_that_may_be_paused_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await a_leader()
    types = [f"type-{number}" for number in range(JUDGED_AT_ONCE + 1)]
    for task_type in types:
        await leader.put(replace(PAUSES, pause_after_failures=1), type=task_type)
    await pass_time(60)
    await leader.fire()
    for task_type in types[1:]:
        await fail(leader, (await leader.occurrences(task_type))[-1].task_id)
    asked, list_runs = list[int](), leader.node.store.schedules.list_runs

    async def list_and_note(since: Mapping[ConfigKey, datetime], **most: int) -> dict[ConfigKey, list[Occurrence]]:
        asked.append(len(since))
        return await list_runs(since, **most)

    monkeypatch.setattr(leader.node.store.schedules, "list_runs", list_and_note)
    await pass_time(60)
    await leader.fire()
    assert asked == [JUDGED_AT_ONCE, 1]
    assert [await leader.outcomes(one) for one in types] == [
        ["fired", "fired"],
        *[["fired", "paused"]] * JUDGED_AT_ONCE,
    ]
