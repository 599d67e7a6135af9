"""Waiting for tasks to end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from rota.application.steer import SteerTasks
from rota.application.submit import SubmitTasks
from rota.application.watch import LOOK_EVERY, TaskWatch
from rota.domain.errors import NotFoundError
from rota.domain.events import Event, EventKind
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId
from rota.domain.task import CANCELLED, PENDING, PROCESSING, SUCCESS, Task
from rota.testing.faults import Fault
from tests.support.builders import EMAIL, MINUTE, a_config, a_submission
from tests.support.virtual import Bench, a_bench, pass_time, virtually


@asynccontextmanager
async def a_watch(*, listens: bool = True) -> AsyncIterator[tuple[Bench, TaskWatch, TaskId]]:
    """A watch at work, and one waiting task."""
    bench = await a_bench()
    await bench.node.store.configs.put(a_config(EMAIL))
    added = await SubmitTasks(bench.node).submit(a_submission())
    watch = TaskWatch(bench.node.store.tasks, bench.node.coordinator.signals)
    loops = [asyncio.ensure_future(bench.node.loops.keep("look", watch.look))]
    if listens:
        loops.append(asyncio.ensure_future(bench.node.loops.keep("listen", watch.listen)))
    await pass_time(0)
    try:
        yield bench, watch, added.task_id
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)


async def cancel_after(bench: Bench, task_id: TaskId, *, seconds: float) -> None:
    await pass_time(seconds)
    await SteerTasks(bench.node).cancel(task_id, DEFAULT_TENANT)


@virtually
async def test_the_end_is_told_at_once() -> None:
    async with a_watch() as (bench, watch, task_id):
        started = bench.clock.monotonic()
        ending = asyncio.ensure_future(cancel_after(bench, task_id, seconds=5.25))
        task = await watch.wait(task_id, DEFAULT_TENANT, most=MINUTE)
        assert task.state.status is CANCELLED
        assert bench.clock.monotonic() - started == pytest.approx(5.25)
        await ending


@virtually
async def test_a_lost_event_delays_the_answer_by_one_look() -> None:
    async with a_watch(listens=False) as (bench, watch, task_id):
        started = bench.clock.monotonic()
        ending = asyncio.ensure_future(cancel_after(bench, task_id, seconds=5.25))
        task = await watch.wait(task_id, DEFAULT_TENANT, most=MINUTE)
        assert task.state.status is CANCELLED
        assert bench.clock.monotonic() - started <= 5.25 + LOOK_EVERY.total_seconds()
        await ending


@virtually
async def test_news_of_others_do_not_put_off_the_look_at_one_whose_event_was_lost() -> None:
    async with a_watch(listens=False) as (bench, watch, task_id):
        waiting = asyncio.ensure_future(watch.wait(task_id, DEFAULT_TENANT, most=MINUTE))
        other = (await SubmitTasks(bench.node).submit(a_submission())).task_id
        await cancel_after(bench, other, seconds=0.25)
        await cancel_after(bench, task_id, seconds=0)
        for _ in range(20):  # each makes the watch look, and sooner than it would by itself
            await watch.wait(other, DEFAULT_TENANT, most=MINUTE)
            await pass_time(LOOK_EVERY.total_seconds() / 10)
        assert waiting.done()
        assert (await waiting).state.status is CANCELLED


@virtually
async def test_while_nobody_waits_nothing_happens() -> None:
    async with a_watch() as (bench, _, task_id):
        watch = TaskWatch(bench.node.store.tasks, bench.node.coordinator.signals)  # looks when told to
        looking = asyncio.ensure_future(watch.look())
        await pass_time(3600)
        assert not looking.done(), "there was nothing to look for"
        waiting = asyncio.ensure_future(watch.wait(task_id, DEFAULT_TENANT, most=MINUTE))
        await cancel_after(bench, task_id, seconds=0)
        await looking
        assert (await waiting).state.status is CANCELLED


@virtually
async def test_a_task_that_has_ended_is_answered_without_waiting() -> None:
    async with a_watch() as (bench, watch, task_id):
        await cancel_after(bench, task_id, seconds=0)
        assert (await watch.wait(task_id, DEFAULT_TENANT, most=MINUTE)).state.status is CANCELLED


@virtually
async def test_when_the_time_is_over_the_task_is_shown_as_it_is() -> None:
    async with a_watch() as (bench, watch, task_id):
        task = await watch.wait(task_id, DEFAULT_TENANT, most=timedelta(seconds=7))
        assert task.state.status is PENDING
        assert bench.clock.monotonic() == pytest.approx(7)


@virtually
async def test_many_may_wait_for_one_task() -> None:
    async with a_watch() as (bench, watch, task_id):
        waits = [watch.wait(task_id, DEFAULT_TENANT, most=timedelta(seconds=most)) for most in (1, 10, 10)]
        ending = asyncio.ensure_future(cancel_after(bench, task_id, seconds=2))
        seen = [task.state.status for task in await asyncio.gather(*waits)]
        assert seen == [PENDING, CANCELLED, CANCELLED]
        await ending


@virtually
async def test_a_failing_look_is_made_again() -> None:
    async with a_watch() as (bench, watch, task_id):
        ending = asyncio.ensure_future(cancel_after(bench, task_id, seconds=2))
        bench.faults.inject("tasks.load", Fault.TIMEOUT, times=3)
        assert (await watch.wait(task_id, DEFAULT_TENANT, most=MINUTE)).state.status is CANCELLED
        await ending


@virtually
async def test_an_event_before_the_row_is_visible_does_no_harm() -> None:
    async with a_watch() as (bench, watch, task_id):
        waiting = asyncio.ensure_future(watch.wait(task_id, DEFAULT_TENANT, most=MINUTE))
        await pass_time(1)
        early = Event(kind=EventKind.TASK_COMPLETED, at=bench.clock.now(), task_id=task_id, status=SUCCESS)
        await bench.node.coordinator.signals.publish([early])
        await pass_time(1)
        assert not waiting.done()
        await cancel_after(bench, task_id, seconds=0)
        assert (await waiting).state.status is CANCELLED


@virtually
async def test_a_task_that_does_not_exist_is_an_error() -> None:
    async with a_watch() as (_, watch, _task_id):
        with pytest.raises(NotFoundError):
            await watch.wait(TaskId(1), DEFAULT_TENANT, most=MINUTE)


@virtually
async def test_the_task_of_another_tenant_does_not_exist() -> None:
    async with a_watch() as (_, watch, task_id):
        with pytest.raises(NotFoundError):
            await watch.wait(task_id, TenantId("others"), most=MINUTE)


@virtually
async def test_when_no_look_succeeds_in_time_the_task_itself_is_asked_for() -> None:
    async with a_watch() as (bench, watch, task_id):
        bench.faults.inject("tasks.load", Fault.TIMEOUT, times=None)
        assert (await watch.wait(task_id, DEFAULT_TENANT, most=MINUTE)).state.status is PENDING
        with pytest.raises(NotFoundError):
            await watch.wait(TaskId(1), DEFAULT_TENANT, most=MINUTE)


@virtually
async def test_one_who_gives_up_in_the_moment_of_the_answer_does_not_keep_it_from_others() -> None:
    async with a_watch() as (bench, _, task_id):
        watch = TaskWatch(bench.node.store.tasks, bench.node.coordinator.signals)  # looks when told to
        waits = [asyncio.ensure_future(watch.wait(task_id, DEFAULT_TENANT, most=MINUTE)) for _ in range(3)]
        await pass_time(0)
        await cancel_after(bench, task_id, seconds=0)
        waits[1].cancel()
        await watch.look()
        seen = await asyncio.gather(*waits, return_exceptions=True)
        assert [isinstance(task, Task) for task in seen] == [True, False, True]


@virtually
async def test_a_task_that_goes_on_is_read_whole_once() -> None:
    async with a_watch() as (bench, watch, task_id):
        waiting = asyncio.ensure_future(watch.wait(task_id, DEFAULT_TENANT, most=timedelta(seconds=30)))
        await pass_time(1)
        bench.faults.inject("tasks.load", Fault.TIMEOUT)
        assert (await waiting).state.status is PENDING
        assert bench.faults.pending == {"tasks.load": 1}, "a look reads no payload"


@virtually
async def test_the_task_of_another_tenant_does_not_exist_though_the_first_look_failed() -> None:
    async with a_watch(listens=False) as (bench, watch, task_id):
        bench.faults.inject("tasks.load", Fault.TIMEOUT)
        waiting = asyncio.ensure_future(watch.wait(task_id, TenantId("others"), most=MINUTE))
        await pass_time(3)
        assert not bench.faults.pending
        with pytest.raises(NotFoundError):
            await waiting


@virtually
async def test_events_that_end_nothing_cause_no_look() -> None:
    async with a_watch() as (bench, watch, task_id):
        waiting = asyncio.ensure_future(watch.wait(task_id, DEFAULT_TENANT, most=MINUTE))
        await pass_time(1.25)
        bench.faults.inject("tasks.load", Fault.TIMEOUT)
        signals, at = bench.node.coordinator.signals, bench.clock.now()
        await signals.publish([Event(kind=EventKind.TASK_ASSIGNED, at=at, task_id=task_id, status=PROCESSING)])
        await signals.publish([Event(kind=EventKind.TASK_COMPLETED, at=at, task_id=TaskId(1), status=SUCCESS)])
        await pass_time(0.25)
        assert bench.faults.pending, "nobody looked"
        await cancel_after(bench, task_id, seconds=0)
        assert (await waiting).state.status is CANCELLED


@virtually
async def test_an_answer_to_one_who_is_just_leaving_does_no_harm() -> None:
    async with a_watch() as (_, watch, task_id):
        waiting = asyncio.ensure_future(watch.wait(task_id, DEFAULT_TENANT, most=MINUTE))
        await pass_time(1)
        waiting.cancel()
        watch._answer(task_id, None)
        with pytest.raises(asyncio.CancelledError):
            await waiting


@virtually
async def test_what_happens_to_workers_wakes_nobody_who_waits_for_tasks() -> None:
    async with a_watch() as (bench, watch, task_id):
        waiting = asyncio.ensure_future(watch.wait_for_news(task_id, most=MINUTE))
        await pass_time(1)
        event = Event(kind=EventKind.WORKER_ONLINE, at=bench.clock.now())
        await bench.node.coordinator.signals.publish([event])
        await pass_time(1)
        assert not waiting.done()
        await SteerTasks(bench.node).cancel(task_id, DEFAULT_TENANT)
        await waiting
