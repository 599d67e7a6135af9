"""What would fire between two moments."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from rota.application import forecast as module
from rota.application.forecast import Forecast, ForecastSchedules, Span
from rota.domain.attempt import TaskResult
from rota.domain.calendar import BusinessDays, Calendar, StoredCalendar
from rota.domain.errors import InvalidError, NotFoundError
from rota.domain.firing import FullFiring, due_of
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.schedule import Occurrence, Schedule
from rota.domain.submission import NewTask
from rota.domain.timetable import Timetable
from rota.testing.faults import Fault
from rota.testing.values import replace
from tests.support.builders import EMAIL, HOUR, MINUTE, a_config, a_task
from tests.support.virtual import Bench, a_bench, pass_time, virtually

DAY = timedelta(days=1)
HOURLY = Schedule(every=HOUR)
EACH_MINUTE = Schedule(cron="* * * * *")


def a_span(bench: Bench, length: timedelta = DAY, **facts: object) -> Span:
    begin = bench.node.time.now().replace(minute=0, second=0, microsecond=0) + HOUR
    return Span(begin=begin, end=begin + length, **facts)  # type: ignore[arg-type] # any of its fields


async def put(bench: Bench, task_type: str, *, schedule: Schedule, **facts: object) -> None:
    config = a_config(task_type, schedule=schedule, next_fire_at=bench.node.time.now() + HOUR)
    await bench.node.store.configs.put(replace(config, **facts))


async def ask(bench: Bench, span: Span) -> Forecast:
    return await ForecastSchedules(bench.node)(DEFAULT_TENANT, span)


@virtually
async def test_every_schedule_is_counted_in_its_time() -> None:
    bench = await a_bench()
    await put(bench, "hourly", schedule=HOURLY)
    await put(bench, "half", schedule=Schedule(every=HOUR / 2))
    span = a_span(bench, 4 * HOUR, buckets=2)
    found = await ask(bench, span)
    assert [(bucket.runs, bucket.work) for bucket in found.buckets] == [(6, timedelta(0))] * 2
    assert [(one.type, one.runs, one.first, one.last) for one in found.types] == [
        ("half", 8, span.begin, span.begin + 3.5 * HOUR),
        ("hourly", 4, span.begin, span.begin + 3 * HOUR),
    ]
    assert (found.is_complete, found.unforeseen) == (True, {})
    only = await ask(bench, replace(span, types=frozenset({"hourly"})))
    assert [one.type for one in only.types] == ["hourly"]


@virtually
async def test_what_has_passed_is_not_foreseen() -> None:
    bench = await a_bench()
    span = a_span(bench, 6 * HOUR, buckets=6)
    following = span.begin + 2 * HOUR
    await put(bench, "hourly", schedule=HOURLY, next_fire_at=following)
    await put(bench, "late", schedule=HOURLY, next_fire_at=span.begin - HOUR)
    await put(bench, "limited", schedule=Schedule(every=HOUR, max_runs=3), next_fire_at=following)
    found = await ask(bench, span)
    assert [(one.type, one.runs, one.first) for one in found.types] == [
        ("hourly", 4, following),
        ("late", 6, span.begin),
        ("limited", 3, following),
    ]


@virtually
@pytest.mark.parametrize("when", [{"every": HOUR}, {"cron": "0 * * * *"}])
async def test_what_runs_until_then_is_no_run_that_is_left(when: dict[str, Any]) -> None:
    bench = await a_bench()
    span = a_span(bench, 6 * HOUR)
    facts = {"next_fire_at": span.begin, "runs": 1}
    await put(bench, "few", schedule=Schedule(**when, max_runs=6), **facts)
    await put(bench, "none", schedule=Schedule(**when, max_runs=3), **facts)
    found = await ask(bench, replace(span, begin=span.begin + 2 * HOUR, end=span.end))
    assert [(one.type, one.runs, one.first) for one in found.types] == [("few", 3, span.begin + 2 * HOUR)]
    assert sum(bucket.runs for bucket in found.buckets) == 3


@virtually
async def test_one_that_has_many_runs_left_until_then_ends_no_other_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PASSED", 100)
    bench = await a_bench()
    span = a_span(bench)
    await put(bench, "hourly", schedule=Schedule(cron="0 * * * *"), next_fire_at=span.begin)
    await put(bench, "many", schedule=Schedule(cron="* * * * *", max_runs=10_000), next_fire_at=span.begin)
    found = await ask(bench, replace(span, begin=span.begin + 2 * HOUR, end=span.end))
    assert [(one.type, one.runs) for one in found.types] == [("hourly", 22)]
    assert found.unforeseen == {"many": "has more runs until then than are looked at"}
    assert found.is_complete
    assert not found.is_known(0)


@virtually
async def test_what_fires_at_another_time_is_neither_told_nor_missing() -> None:
    bench = await a_bench()
    span = a_span(bench, HOUR)
    for name, schedule in (("cron", Schedule(cron="0 0 1 1 *")), ("pace", Schedule(every=DAY))):
        await put(bench, name, schedule=schedule, next_fire_at=span.end)
    found = await ask(bench, span)
    assert (found.types, found.unforeseen, found.is_complete) == ([], {}, True)


@virtually
async def test_with_jitter_a_target_that_is_still_to_come_is_foreseen() -> None:
    bench = await a_bench()
    span = a_span(bench, 6 * HOUR, buckets=6)
    schedule = Schedule(every=HOUR, jitter=30 * MINUTE)
    target = span.begin + 2 * HOUR
    due_at = Timetable(schedule, seed="jittered").due_at(target)
    assert due_at > target
    await put(bench, "jittered", schedule=schedule, next_fire_at=due_at)
    (found,) = (await ask(bench, span)).types
    assert (found.runs, found.first) == (4, target)


@virtually
async def test_what_does_not_fire_is_not_counted_and_what_nobody_knows_is_named() -> None:
    bench = await a_bench()
    span = a_span(bench)
    days = frozenset({span.begin.date(), span.end.date()})
    for name in ("closed", "gone"):
        await bench.node.store.calendars.put(StoredCalendar(calendar=Calendar(name=name, dates=days)))
    await put(bench, "closed", schedule=Schedule(every=HOUR, exclude=("closed",)))
    await put(bench, "unreadable", schedule=Schedule(every=HOUR, exclude=("gone",)))
    del vars(vars(bench.node.store.calendars)["_inner"])["_state"].calendars[DEFAULT_TENANT, "gone"]
    await put(bench, "waits", schedule=Schedule(after_end=HOUR))
    await put(bench, "paused", schedule=Schedule(every=HOUR, is_paused=True))
    await put(bench, "disabled", schedule=HOURLY, is_enabled=False)
    await put(bench, "over", schedule=HOURLY, next_fire_at=None)
    await put(bench, "limited", schedule=Schedule(every=HOUR, max_runs=2))
    await put(bench, "foreign", schedule=HOURLY, tenant_id=TenantId("other"))
    await bench.node.store.configs.put(a_config("plain"))
    found = await ask(bench, span)
    assert [(one.type, one.runs) for one in found.types] == [("limited", 2)]
    assert found.unforeseen == {
        "unreadable": "there is no calendar 'gone' that can be read",
        "waits": "waits for the end of each run",
    }


@virtually
async def test_the_work_is_guessed_from_the_last_run() -> None:
    bench = await a_bench()
    store, now = bench.node.store, bench.node.time.now()
    task = a_task(7)
    await store.tasks.add([NewTask(task)])
    begun = task.state.granted(WorkerId(1), term=1, at=now, timeout=HOUR)
    await store.tasks.advance([begun])
    await put(bench, EMAIL, schedule=HOURLY, last_run=TaskId(7))
    vars(vars(store.configs)["_inner"])["_state"].configs[DEFAULT_TENANT, EMAIL] = replace(
        a_config(EMAIL, schedule=HOURLY, next_fire_at=now + HOUR), last_run=TaskId(7)
    )
    span = a_span(bench, 2 * HOUR, buckets=1)
    assert (await ask(bench, span)).types[0].run_takes is None
    await store.tasks.advance([begun.after.succeeded(TaskResult(), at=now + 30 * MINUTE)])
    found = await ask(bench, span)
    assert (found.types[0].run_takes, found.buckets[0].work) == (30 * MINUTE, HOUR)


async def a_run(bench: Bench, number: int, *, target: datetime, took: timedelta | None) -> None:
    """One that the schedule made; it goes on where nothing is said of its end."""
    store = bench.node.store
    config = await store.configs.find(DEFAULT_TENANT, EMAIL)
    assert config is not None
    task = a_task(number)
    firing = FullFiring(
        tenant_id=DEFAULT_TENANT,
        task_type=EMAIL,
        revision=config.revision,
        seen_at=due_of(config),
        next_fire_at=due_of(config) + HOUR,
        occurrences=(Occurrence(task_type=EMAIL, fire_at=target, task_id=task.id),),
        tasks=(task,),
    )
    await store.schedules.fire([firing])
    begun = task.state.granted(WorkerId(1), term=1, at=target, timeout=HOUR)
    await store.tasks.advance([begun])
    if took is not None:
        await store.tasks.advance([begun.after.succeeded(TaskResult(), at=target + took)])


@virtually
async def test_while_a_run_goes_on_the_work_is_guessed_from_the_last_one_that_ended() -> None:
    bench = await a_bench()
    now = bench.node.time.now()
    await put(bench, EMAIL, schedule=HOURLY)
    for number, took in enumerate([10 * MINUTE, 20 * MINUTE, None, None], start=1):
        await a_run(bench, number, target=now + number * MINUTE, took=took)
    found = await ask(bench, a_span(bench, 8 * HOUR, buckets=1))
    (load,), (bucket,) = found.types, found.buckets
    assert (load.run_takes, bucket.work, bucket.unknown) == (20 * MINUTE, load.runs * 20 * MINUTE, 0)


@virtually
async def test_of_runs_that_never_ended_the_work_is_unknown() -> None:
    bench = await a_bench()
    await put(bench, EMAIL, schedule=HOURLY)
    await a_run(bench, 1, target=bench.node.time.now(), took=None)
    await put(bench, "new", schedule=HOURLY)
    (bucket,) = (await ask(bench, a_span(bench, 8 * HOUR, buckets=1))).buckets
    assert (bucket.work, bucket.unknown) == (timedelta(0), bucket.runs)


@virtually
async def test_a_forecast_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = await a_bench()
    monkeypatch.setattr(module, "MOST_LOOKED_AT", 305)
    await put(bench, "a", schedule=EACH_MINUTE)
    await put(bench, "b", schedule=Schedule(cron="0 * * * *"))
    span = a_span(bench)
    late = span.begin + 20 * HOUR
    await put(bench, "late", schedule=Schedule(at=(late,)), next_fire_at=late)
    found = await ask(bench, span)
    loads = [(one.type, one.runs, one.is_complete) for one in found.types]
    assert loads == [("a", 300, False), ("b", 5, False), ("late", 0, False)]
    assert (found.is_complete, found.known_until) == (False, span.begin + 5 * HOUR)
    assert [found.is_known(place) for place in (0, 4, 5, 23)] == [True, True, False, False]
    assert [bucket.runs for bucket in found.buckets[:6]] == [61, 61, 61, 61, 61, 0]
    monkeypatch.setattr(module, "MOST_LOOKED_AT", 1465)
    exact = await ask(bench, span)
    assert ([one.runs for one in exact.types], exact.is_complete, exact.is_known(23)) == ([1440, 24, 1], True, True)


@virtually
async def test_what_has_a_fixed_pace_is_counted_however_fast_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = await a_bench()
    monkeypatch.setattr(module, "MOST_LOOKED_AT", 24)
    span = a_span(bench, buckets=7)
    await put(bench, "hourly", schedule=Schedule(cron="0 * * * *"))
    for name, every in (("second", timedelta(seconds=1)), ("odd", timedelta(minutes=47)), ("rare", 5 * HOUR)):
        await put(bench, name, schedule=Schedule(every=every), next_fire_at=span.begin)
    over = span.begin + 90 * MINUTE
    await put(bench, "over", schedule=Schedule(every=MINUTE, end_at=over), next_fire_at=span.begin)
    await put(bench, "left", schedule=Schedule(every=MINUTE, max_runs=500), next_fire_at=span.begin)
    found = await ask(bench, span)
    assert found.is_complete
    loads = {one.type: one for one in found.types}
    assert {name: load.runs for name, load in loads.items() if name not in ("odd", "rare")} == {
        "hourly": 24,
        "left": 500,
        "over": 90,
        "second": 86_400,
    }
    for name in ("odd", "rare"):
        targets = list(targets_of(Schedule(every=timedelta(minutes=47) if name == "odd" else 5 * HOUR), span))
        assert (loads[name].runs, loads[name].first, loads[name].last) == (len(targets), targets[0], targets[-1])
        alone = await ask(bench, replace(span, types=frozenset({name})))
        walked = [sum(span.place(at) == place for at in targets) for place in range(span.buckets)]
        assert [bucket.runs for bucket in alone.buckets] == walked


@virtually
async def test_types_that_are_too_many_are_named_and_no_row_is_taken_for_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = await a_bench()
    monkeypatch.setattr(module, "MOST_TYPES", 2)
    monkeypatch.setattr(module, "PAGE", 3)
    for name in "abcdefgh":
        await put(bench, name, schedule=HOURLY)
    found = await ask(bench, a_span(bench))
    assert [one.type for one in found.types] == ["a", "b"]
    assert (found.left_out, found.is_complete, found.is_known(0)) == (["c", "d", "e", "f"], False, False)


@virtually
async def test_others_get_a_turn_after_each_schedule_that_is_counted() -> None:
    bench = await a_bench()
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await pass_time()

    others = asyncio.create_task(take_turns())
    for name in "abcdefgh":
        await put(bench, name, schedule=HOURLY)
    turns = 0
    assert len((await ask(bench, a_span(bench))).types) == 8
    assert turns >= 8
    others.cancel()


@virtually
async def test_for_single_types_no_others_are_read() -> None:
    bench = await a_bench()
    for name in "abc":
        await put(bench, name, schedule=HOURLY)
    bench.faults.inject("configs.list_page", Fault.TIMEOUT, times=None)
    found = await ask(bench, a_span(bench, types=frozenset("ca")))
    assert [one.type for one in found.types] == ["a", "c"]


def targets_of(schedule: Schedule, span: Span) -> Iterator[datetime]:
    at = Timetable(schedule, seed="").next(span.begin - timedelta(microseconds=1))
    while at is not None and at < span.end:
        yield at
        at = Timetable(schedule, seed="").next(at)


@pytest.mark.parametrize(
    ("length", "buckets", "field"),
    [(timedelta(0), 24, "end"), (367 * DAY, 24, "end"), (DAY, 0, "buckets"), (DAY, 1001, "buckets")],
)
def test_a_span_out_of_range_is_refused(length: timedelta, buckets: int, field: str) -> None:
    begin = datetime.fromisoformat("2026-01-01T00:00:00Z")
    with pytest.raises(InvalidError) as caught:
        Span(begin=begin, end=begin + length, buckets=buckets)
    assert caught.value.field == field


def test_a_short_span_has_buckets_of_a_microsecond() -> None:
    begin = datetime.fromisoformat("2026-01-01T00:00:00Z")
    span = Span(begin=begin, end=begin + timedelta(microseconds=2), buckets=1000)
    assert (span.width, span.place(begin)) == (timedelta(microseconds=1), 0)


@virtually
async def test_what_is_not_there_and_what_calendars_do_not_know_is_told() -> None:
    bench = await a_bench()
    with pytest.raises(NotFoundError, match="nosuch"):
        await ask(bench, a_span(bench, types=("nosuch",)))
    old = Calendar(name="old", business_days=BusinessDays(), years=(2001, 2001))
    await bench.node.store.calendars.put(StoredCalendar(calendar=old))
    await put(bench, "blind", schedule=Schedule(every=HOUR, only=("old",)))
    found = await ask(bench, a_span(bench))
    assert found.types == []
    assert "old knows the years 2001" in found.unforeseen["blind"]
    assert not any(found.is_known(place) for place in range(24)), "0 would be taken for nothing"


@virtually
async def test_where_nothing_at_all_is_foreseen_no_row_is_taken_for_whole() -> None:
    bench = await a_bench()
    await put(bench, "waits", schedule=Schedule(after_end=HOUR))
    assert not (await ask(bench, a_span(bench))).is_known(0)
    await put(bench, "hourly", schedule=HOURLY)
    assert (await ask(bench, a_span(bench))).is_known(0)


@virtually
async def test_of_the_past_there_is_no_forecast() -> None:
    bench = await a_bench()
    now = bench.node.time.now()
    with pytest.raises(InvalidError, match="end: lies in the past"):
        await ask(bench, Span(begin=now - DAY, end=now))
