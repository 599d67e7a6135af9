"""Making up for past targets."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from rota.application import backfill as module
from rota.application.backfill import TOO_OLD, Action, Backfill, Order, Place, Range
from rota.application.retain import Retention
from rota.application.submit import SubmitTasks
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.errors import IdempotencyMismatchError, InvalidError, NotFoundError
from rota.domain.firing import FullFiring
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import Occurrence, Schedule
from rota.domain.task import Task
from rota.domain.timetable import Timetable
from rota.testing.values import replace
from tests.support.builders import EMAIL, HOUR, MINUTE, a_config, a_task
from tests.support.virtual import Bench, a_bench, virtually

KEY = (DEFAULT_TENANT, EMAIL)
DAY = timedelta(days=1)


async def a_backfill(schedule: Schedule | None = None) -> tuple[Bench, Backfill]:
    bench = await a_bench()
    wanted = schedule or Schedule(every=HOUR, payload='{"from":"schedule"}', priority=7)
    await bench.node.store.configs.put(a_config(EMAIL, schedule=wanted))
    return bench, Backfill(bench.node, SubmitTasks(bench.node))


def a_range(bench: Bench, hours: int = 3, **facts: Any) -> Range:
    end = bench.node.time.now().replace(minute=0, second=0, microsecond=0)
    return Range(begin=end - hours * HOUR, end=end, **facts)


@virtually
async def test_every_target_makes_one_task_however_often_it_is_asked_for() -> None:
    bench, backfill = await a_backfill()
    wanted = a_range(bench)
    page = await backfill(KEY, wanted, place=None, limit=10)
    assert [(one.fire_at, one.action) for one in page.made] == [
        (wanted.begin + number * HOUR, Action.RUN) for number in range(3)
    ]
    assert (page.total, page.next_place) == (3, None)
    ids = [one.task_id for one in page.made if one.task_id is not None]
    tasks = await bench.node.store.tasks.load(ids)
    assert [tasks[one].spec.scheduled_at for one in ids] == [one.fire_at for one in page.made]
    first = tasks[ids[0]]
    assert (json.loads(first.spec.payload), first.state.priority) == ({"from": "schedule"}, 7)
    assert first.spec.metadata == {"backfill": "backfill"}
    again = await backfill(KEY, wanted, place=None, limit=10)
    assert [(one.action, one.task_id) for one in again.made] == [(Action.REPEAT, one) for one in ids]
    other = await backfill(KEY, a_range(bench, name="other"), place=None, limit=10)
    assert {one.action for one in other.made} == {Action.RUN}
    with pytest.raises(IdempotencyMismatchError):
        await backfill(KEY, a_range(bench, payload={"n": 1}), place=None, limit=10)


@virtually
async def test_a_dry_run_makes_nothing() -> None:
    bench, backfill = await a_backfill()
    page = await backfill(KEY, a_range(bench, is_dry=True), place=None, limit=10)
    assert [(one.action, one.task_id) for one in page.made] == [(Action.RUN, None)] * 3
    assert await bench.node.store.tasks.count_by_status(DEFAULT_TENANT) == {}


@virtually
async def test_a_dry_run_sees_what_ran_before_under_the_name() -> None:
    bench, backfill = await a_backfill()
    wanted = a_range(bench, 2)
    made = await backfill(KEY, wanted, place=None, limit=10)
    dry = await backfill(KEY, a_range(bench, 3, is_dry=True), place=None, limit=10)
    expected = [(Action.RUN, None), *((Action.REPEAT, one.task_id) for one in made.made)]
    assert [(one.action, one.task_id) for one in dry.made] == expected
    other = await backfill(KEY, a_range(bench, 3, name="other", is_dry=True), place=None, limit=10)
    assert {one.action for one in other.made} == {Action.RUN}


@virtually
async def test_it_goes_page_by_page_in_either_order() -> None:
    bench, backfill = await a_backfill()
    wanted = a_range(bench, order=Order.NEWEST)
    first = await backfill(KEY, wanted, place=None, limit=2)
    assert (first.total, first.next_place) == (3, Place(wanted.begin + HOUR, 3))
    last = await backfill(KEY, wanted, place=first.next_place, limit=2)
    assert (last.total, last.next_place) == (3, None)
    targets = [one.fire_at for one in (*first.made, *last.made)]
    assert targets == [wanted.begin + number * HOUR for number in (2, 1, 0)]
    assert (await backfill(KEY, wanted, place=Place(wanted.begin, 3), limit=2)).made == []


@pytest.mark.parametrize("order", Order)
@virtually
async def test_a_schedule_that_changes_between_two_pages_shifts_no_target(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, backfill = await a_backfill()
    wanted = a_range(bench, 4, order=order)
    first = await backfill(KEY, wanted, place=None, limit=2)
    await bench.node.store.configs.put(a_config(EMAIL, schedule=Schedule(every=HOUR / 4)))
    monkeypatch.setattr(module, "MOST_TARGETS", 4)  # which are counted once
    last = await backfill(KEY, wanted, place=first.next_place, limit=100)
    assert first.total == last.total == 4
    begin = wanted.begin + HOUR + HOUR / 4 if order is Order.OLDEST else wanted.begin
    left = [begin + number * HOUR / 4 for number in range(11 if order is Order.OLDEST else 8)]
    assert sorted(one.fire_at for one in last.made) == left


@virtually
async def test_what_fired_in_its_time_or_a_calendar_excludes_is_left_out() -> None:
    bench, backfill = await a_backfill()
    store, wanted = bench.node.store, a_range(bench)
    fired, skipped = wanted.begin, wanted.begin + HOUR
    await store.configs.put(a_config("report", schedule=Schedule(every=HOUR), next_fire_at=fired))
    task = a_task(5, type="report")
    occurrences = (
        Occurrence(task_type="report", fire_at=fired, task_id=task.id),
        Occurrence(task_type="report", fire_at=skipped, reason="overlap"),
    )
    firing = FullFiring(
        tenant_id=DEFAULT_TENANT,
        task_type="report",
        revision=1,
        seen_at=fired,
        next_fire_at=None,
        occurrences=occurrences,
        tasks=(task,),
    )
    await store.schedules.fire([firing])
    key = (DEFAULT_TENANT, "report")
    page = await backfill(key, a_range(bench, is_dry=True), place=None, limit=10)
    assert [(one.action, one.reason) for one in page.made] == [
        (Action.SKIP, "fired in its time"),
        (Action.RUN, ""),
        (Action.RUN, ""),
    ]
    everything = await backfill(key, a_range(bench, is_dry=True, only_missing=False), place=None, limit=10)
    assert {one.action for one in everything.made} == {Action.RUN}
    days = frozenset({wanted.begin.date(), wanted.end.date()})
    await store.calendars.put(StoredCalendar(calendar=Calendar(name="closed", dates=days)))
    await store.configs.put(a_config("report", schedule=Schedule(every=HOUR, exclude=("closed",))))
    page = await backfill(key, a_range(bench), place=None, limit=10)
    assert {(one.action, one.reason) for one in page.made} == {(Action.SKIP, "in closed")}


@virtually
async def test_what_the_schedule_is_still_to_fire_is_left_out() -> None:
    bench, backfill = await a_backfill()
    wanted, configs = a_range(bench), bench.node.store.configs
    jittery = Schedule(every=HOUR, jitter=HOUR)
    last = wanted.end - HOUR
    late = a_config(EMAIL, schedule=jittery, next_fire_at=Timetable(jittery, seed=EMAIL).due_at(last))
    await configs.put(late)
    page = await backfill(KEY, wanted, place=None, limit=10)
    assert [(one.action, one.reason) for one in page.made] == [
        (Action.RUN, ""),
        (Action.RUN, ""),
        (Action.SKIP, "the schedule is still to fire it"),
    ]
    everything = await backfill(KEY, a_range(bench, is_dry=True, name="anew", only_missing=False), place=None, limit=10)
    assert {one.action for one in everything.made} == {Action.RUN}
    await configs.put(replace(late, schedule=replace(jittery, is_paused=True)))
    paused = await backfill(KEY, a_range(bench, is_dry=True, name="anew"), place=None, limit=10)
    assert {one.action for one in paused.made} == {Action.RUN}


@virtually
async def test_what_fired_in_its_time_is_left_out_however_often_the_schedule_fired_between() -> None:
    bench, backfill = await a_backfill()
    store, wanted = bench.node.store, a_range(bench, 20, is_dry=True)
    await store.configs.put(a_config("report", schedule=Schedule(every=MINUTE), next_fire_at=wanted.begin))
    tasks = [a_task(number, type="report") for number in range(1, 20 * 60 + 1)]
    firing = FullFiring(
        tenant_id=DEFAULT_TENANT,
        task_type="report",
        revision=1,
        seen_at=wanted.begin,
        next_fire_at=None,
        occurrences=tuple(
            Occurrence(task_type="report", fire_at=wanted.begin + number * MINUTE, task_id=task.id)
            for number, task in enumerate(tasks)
        ),
        tasks=tuple(tasks),
    )
    await store.schedules.fire([firing])
    await store.configs.put(a_config("report", schedule=Schedule(every=HOUR)))
    page = await backfill((DEFAULT_TENANT, "report"), wanted, place=None, limit=100)
    assert [one.action for one in page.made] == [Action.SKIP] * 20


async def a_record(bench: Bench, *occurrences: Occurrence, tasks: Sequence[Task] = ()) -> None:
    """What became of targets of an hourly report."""
    first = occurrences[0].fire_at
    await bench.node.store.configs.put(a_config("report", schedule=Schedule(every=HOUR), next_fire_at=first))
    firing = FullFiring(
        tenant_id=DEFAULT_TENANT,
        task_type="report",
        revision=1,
        seen_at=first,
        next_fire_at=None,
        occurrences=occurrences,
        tasks=tuple(tasks),
    )
    await bench.node.store.schedules.fire([firing])


@virtually
async def test_what_may_have_fired_so_long_ago_that_it_is_not_on_record_is_left_out() -> None:
    bench, backfill = await a_backfill()
    key, begin = (DEFAULT_TENANT, "report"), a_range(bench, 31 * 24).begin
    task = a_task(5, type="report")
    fired = Occurrence(task_type="report", fire_at=begin, task_id=task.id)
    await a_record(bench, fired, Occurrence(task_type="report", fire_at=begin + HOUR, reason="overlap"), tasks=[task])

    async def look(**facts: Any) -> list[str]:
        wanted = Range(begin=begin, end=begin + 3 * HOUR, is_dry=True, **facts)
        return [one.reason for one in (await backfill(key, wanted, place=None, limit=10)).made]

    assert await look() == ["fired in its time", "", TOO_OLD]
    assert await look(only_missing=False) == ["", "", ""]
    backfill.tune(Retention(tasks=32 * DAY))
    assert await look() == ["fired in its time", "", ""]
    backfill.tune(Retention(tasks=HOUR))
    assert await bench.node.store.schedules.purge(fired_before=bench.node.time.now(), limit=10) == 2
    assert await look() == [TOO_OLD] * 3
    page = await backfill(key, a_range(bench, 12, is_dry=True), place=None, limit=20)
    assert {one.action for one in page.made} == {Action.RUN}, "a day is on record whatever the retention"


@virtually
async def test_what_cannot_be_made_up_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, backfill = await a_backfill()
    now = bench.node.time.now()
    with pytest.raises(InvalidError, match="end: must not lie in the future"):
        await backfill(KEY, Range(begin=now - HOUR, end=now + HOUR), place=None, limit=10)
    with pytest.raises(InvalidError, match="end: must be later than begin"):
        Range(begin=now, end=now)
    for limit in (0, 1001):
        with pytest.raises(InvalidError):
            await backfill(KEY, a_range(bench), place=None, limit=limit)
    for last, total in ((now, -1), (now.replace(tzinfo=None), 1)):
        with pytest.raises(InvalidError, match="cursor"):
            Place(last, total)
    monkeypatch.setattr(module, "MOST_TARGETS", 400)
    assert (await backfill(KEY, a_range(bench, 400, is_dry=True), place=None, limit=1)).total == 400
    with pytest.raises(InvalidError, match="more than 400 targets"):
        await backfill(KEY, a_range(bench, 401), place=None, limit=10)
    with pytest.raises(NotFoundError) as caught:
        await backfill((DEFAULT_TENANT, "moon"), a_range(bench), place=None, limit=10)
    assert caught.value.code == "task_config_not_found"
    await bench.node.store.configs.put(a_config("plain"))
    with pytest.raises(NotFoundError) as caught:
        await backfill((DEFAULT_TENANT, "plain"), a_range(bench), place=None, limit=10)
    assert caught.value.code == "schedule_not_found"
    await bench.node.store.configs.put(a_config("waits", schedule=Schedule(after_end=HOUR)))
    with pytest.raises(InvalidError, match="no target was missed"):
        await backfill((DEFAULT_TENANT, "waits"), a_range(bench), place=None, limit=10)


@pytest.mark.parametrize("is_dry", [True, False])
@virtually
async def test_a_dry_run_promises_nothing_of_a_type_that_is_disabled(is_dry: bool) -> None:
    bench, backfill = await a_backfill()
    await bench.node.store.configs.put(a_config("off", schedule=Schedule(every=HOUR), is_enabled=False))
    with pytest.raises(InvalidError, match="'off' is disabled; resume it first"):
        await backfill((DEFAULT_TENANT, "off"), a_range(bench, is_dry=is_dry), place=None, limit=10)
