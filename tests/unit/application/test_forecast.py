"""What would fire between two moments."""

from datetime import datetime, timedelta

import pytest

from rota.application import forecast as module
from rota.application.forecast import Forecast, ForecastSchedules, Span
from rota.domain.attempt import TaskResult
from rota.domain.calendar import BusinessDays, Calendar, StoredCalendar
from rota.domain.errors import InvalidError, NotFoundError
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.schedule import Schedule
from rota.domain.submission import NewTask
from rota.domain.timetable import Timetable
from rota.testing.values import replace
from tests.support.builders import EMAIL, HOUR, MINUTE, a_config, a_task
from tests.support.virtual import Bench, a_bench, virtually

DAY = timedelta(days=1)
HOURLY = Schedule(every=HOUR)


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
    assert (found.is_complete, found.unforeseen) == (True, [])
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
    assert found.unforeseen == ["unreadable", "waits"]


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


@virtually
async def test_a_forecast_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = await a_bench()
    monkeypatch.setattr(module, "MOST_LOOKED_AT", 300)
    await put(bench, "a", schedule=Schedule(every=MINUTE))
    await put(bench, "b", schedule=HOURLY)
    found = await ask(bench, a_span(bench))
    assert ([one.runs for one in found.types], found.is_complete) == ([300], False)
    alone = await ask(bench, a_span(bench, types=frozenset({"a"})))
    assert ([one.runs for one in alone.types], alone.is_complete) == ([300], False)
    monkeypatch.setattr(module, "MOST_LOOKED_AT", 1440)
    exact = await ask(bench, a_span(bench))
    assert ([one.type for one in exact.types], exact.is_complete) == (["a"], False)


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
    assert (found.types, found.unforeseen) == ([], ["blind"])
