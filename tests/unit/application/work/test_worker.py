"""The worker as a whole: attempts come in, run, and their ends are recorded."""

import asyncio
import gc
from contextlib import suppress

import pytest

from rota.application import metrics
from rota.application.loop import FatalError
from rota.application.ports.executor import Job, Reports
from rota.application.work.hands import Holding
from rota.domain.attempt import Cancelled, Failed, Outcome, Snoozed, Succeeded, TaskError, TaskResult
from rota.domain.errors import InvalidError
from rota.domain.events import EventKind
from rota.domain.retry import RetryPolicy
from rota.domain.task import CANCELLED, FAILED, PENDING, PROCESSING, RETRYING, SUCCESS, TIMEOUT, TaskStatus
from tests.support.builders import EMAIL, MINUTE, SECOND, a_config, a_new_task, a_state
from tests.support.executors import Stubborn, never_end
from tests.support.virtual import virtually
from tests.support.worker_stage import Stage, a_stage

ONE_TRY = RetryPolicy(max_retries=0)
ONCE_MORE = RetryPolicy(max_retries=1, delay=SECOND, jitter=0.0)


@virtually
async def test_a_granted_attempt_is_run_recorded_and_acknowledged() -> None:
    async def answer(job: Job, reports: Reports) -> Outcome:
        return Succeeded(TaskResult(data='{"sent":true}'))

    async with a_stage(answer) as stage:
        [attempt] = await stage.grant(1)
        await stage.until_status(1, SUCCESS, within=SECOND)
        await stage.until_free(within=SECOND)
        assert stage.executor.begun == [attempt]
        assert (await stage.task(1)).result == TaskResult(data='{"sent":true}')
        assert await stage.in_flight() == []
        assert stage.worker.completed == 1
        assert stage.figures.count(metrics.ATTEMPTS_ENDED, EMAIL, "succeeded") == 1
        assert stage.figures.count(metrics.TASKS_ENDED, EMAIL, "SUCCESS") == 1
        assert [event.kind for event in stage.events if event.task_id == 1] == [EventKind.TASK_COMPLETED]


@virtually
async def test_five_hundred_attempts_are_written_in_few_batches() -> None:
    async with a_stage(capacity=500) as stage:
        await stage.grant(*range(1, 501))
        await stage.until(lambda: stage.worker.completed == 500)
        await stage.until_free()
        assert await stage.statuses(range(1, 501)) == {SUCCESS}


@virtually
async def test_no_more_attempts_are_held_than_the_capacity_allows() -> None:
    async def briefly(job: Job, reports: Reports) -> Outcome:
        await stage.clock.sleep(SECOND)
        return Succeeded()

    stage = Stage(briefly, capacity=3)
    await stage.store.configs.put(a_config())
    async with stage.running():
        await stage.grant(*range(1, 11))
        for _ in range(600):
            assert stage.worker.load <= 3
            assert len(await stage.in_flight()) <= 3
            await stage.pass_time(SECOND / 100)
        assert await stage.statuses(range(1, 11)) == {SUCCESS}
        assert stage.executor.most == 3


@virtually
async def test_a_failed_attempt_is_queued_again_for_its_time() -> None:
    async def fail(job: Job, reports: Reports) -> Outcome:
        return Failed(TaskError("smtp", "no answer"))

    async with a_stage(fail) as stage:
        await stage.grant(1)
        await stage.until_status(1, RETRYING)
        await stage.until_free()
        depths = await stage.coordinator.queue.depths()
        assert (depths.delayed, dict(depths.ready)) == (1, {})
        assert stage.figures.count(metrics.TASKS_RETRIED, EMAIL) == 1
        assert [event.kind for event in stage.events if event.task_id == 1] == [EventKind.TASK_RETRYING]


@virtually
async def test_an_attempt_without_a_retry_left_ends_the_task() -> None:
    async def fail(job: Job, reports: Reports) -> Outcome:
        return Failed(TaskError("smtp", "no answer"))

    async with a_stage(fail) as stage:
        await stage.grant(1, retry=ONE_TRY)
        await stage.until_status(1, FAILED)
        await stage.until_free()
        assert [event.kind for event in stage.events if event.task_id == 1] == [EventKind.TASK_FAILED]


@virtually
async def test_a_snoozed_attempt_waits_without_spending_a_retry() -> None:
    async def snooze(job: Job, reports: Reports) -> Outcome:
        return Snoozed(MINUTE)

    async with a_stage(snooze) as stage:
        await stage.grant(1)
        await stage.until_status(1, PENDING)
        await stage.until_free()
        assert (await stage.task(1)).state.retry_count == 0
        assert (await stage.coordinator.queue.depths()).delayed == 1
        assert [event.kind for event in stage.events if event.task_id == 1] == [EventKind.TASK_RELEASED]


@virtually
async def test_a_task_may_end_itself_as_cancelled() -> None:
    async def give_up(job: Job, reports: Reports) -> Outcome:
        return Cancelled("nobody needs it")

    async with a_stage(give_up) as stage:
        await stage.grant(1)
        await stage.until_status(1, CANCELLED)
        await stage.until_free()
        assert [event.kind for event in stage.events if event.task_id == 1] == [EventKind.TASK_CANCELLED]


@virtually
async def test_an_executor_that_raises_costs_a_retry_and_nothing_else() -> None:
    async def explode(job: Job, reports: Reports) -> Outcome:
        raise RuntimeError("no such handler")

    async with a_stage(explode) as stage:
        await stage.grant(1, 2)
        await stage.until_status(1, RETRYING)
        await stage.until_status(2, RETRYING)
        error = (await stage.task(1)).error
        assert error is not None
        assert (error.code, error.retryable) == ("executor_error", True)
        assert "RuntimeError: no such handler" in error.message


@virtually
async def test_an_executor_that_cannot_go_on_ends_the_worker_and_costs_no_retry() -> None:
    async def break_down(job: Job, reports: Reports) -> Outcome:
        raise FatalError("worn out")

    stage = Stage(break_down)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        await stage.grant(1, limit=MINUTE * 60)
        with pytest.raises(FatalError, match="worn out"):
            await asyncio.wait_for(run, 60)
        task = await stage.task(1)
        assert (task.error, task.state.retry_count) == (None, 0)
        assert not stage.executor.is_started


@virtually
async def test_an_executor_that_cannot_go_on_after_a_stop_ends_the_worker_and_the_stop_counts() -> None:
    async def break_down(job: Job, reports: Reports) -> Outcome:
        try:
            return await never_end(job, reports)
        except asyncio.CancelledError:
            raise FatalError("worn out") from None

    stage = Stage(break_down)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        await stage.grant(1, limit=SECOND)
        with pytest.raises(FatalError, match="worn out"):
            await asyncio.wait_for(run, 60)
        assert stage.figures.count(metrics.ATTEMPTS_ENDED, EMAIL, "timed_out") == 1


@virtually
async def test_an_executor_that_cancels_itself_has_failed() -> None:
    async def leave(job: Job, reports: Reports) -> Outcome:
        raise asyncio.CancelledError

    async with a_stage(leave) as stage:
        await stage.grant(1)
        await stage.until_status(1, RETRYING)
        error = (await stage.task(1)).error
        assert error is not None and error.code == "executor_error"


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        "done",
        Succeeded(TaskResult(code=2**40)),
        Failed(TaskError("code", 17)),  # type: ignore[arg-type]  # as an untyped executor may
        Succeeded(None),  # type: ignore[arg-type]  # the same
    ],
)
def test_an_outcome_that_makes_no_sense_does_not_hold_up_the_others(nonsense: Outcome) -> None:
    @virtually
    async def scene() -> None:
        async def answer(job: Job, reports: Reports) -> Outcome:
            return nonsense if job.task.id == 2 else Succeeded()

        async with a_stage(answer) as stage:
            await stage.grant(1, 2, 3)
            await stage.until_status(2, RETRYING)
            assert await stage.statuses([1, 3]) == {SUCCESS}
            error = (await stage.task(2)).error
            assert error is not None and error.code == "executor_error"

    scene()


@virtually
async def test_a_timeout_ends_the_attempt_and_frees_the_slot() -> None:
    async with a_stage(never_end, capacity=1) as stage:
        [attempt] = await stage.grant(1, limit=SECOND * 5, retry=ONE_TRY)
        await stage.until_status(1, TIMEOUT, within=SECOND * 6)
        assert stage.clock.monotonic() >= 5
        assert stage.executor.stopped == [attempt]
        await stage.until_free(within=SECOND)
        assert [event.kind for event in stage.events if event.task_id == 1] == [EventKind.TASK_FAILED]
        assert stage.figures.count(metrics.ATTEMPTS_ENDED, EMAIL, "timed_out") == 1
        await stage.grant(2, limit=SECOND)
        await stage.until_status(2, RETRYING, within=SECOND * 2)


@virtually
@pytest.mark.parametrize("outcome", [Succeeded(), Snoozed(SECOND)])
async def test_what_an_attempt_returns_after_its_timeout_does_not_count(outcome: Outcome) -> None:
    async def finish_in_the_grace(job: Job, reports: Reports) -> Outcome:
        with suppress(asyncio.CancelledError):
            await never_end(job, reports)
        return outcome

    async with a_stage(finish_in_the_grace) as stage:
        await stage.grant(1, limit=SECOND * 5, retry=ONE_TRY)
        await stage.until_status(1, TIMEOUT, within=SECOND * 6)
        error = (await stage.task(1)).error
        assert error is not None
        assert "its result does not count" in error.message


@virtually
async def test_what_an_attempt_returns_though_the_worker_drains_does_count() -> None:
    async def finish_in_the_grace(job: Job, reports: Reports) -> Outcome:
        with suppress(asyncio.CancelledError):
            await never_end(job, reports)
        return Succeeded()

    async with a_stage(finish_in_the_grace, drain_timeout=SECOND) as stage:
        await stage.grant(1, limit=MINUTE)
        await stage.until(lambda: stage.executor.running == 1)
        stage.worker.stop()
        await stage.until_status(1, SUCCESS, within=SECOND * 6)


@virtually
async def test_an_error_on_being_stopped_is_not_why_it_ended() -> None:
    async def clean_up_badly(job: Job, reports: Reports) -> Outcome:
        with suppress(asyncio.CancelledError):
            await never_end(job, reports)
        return Failed(TaskError("cleanup", "the connection was closed already", retryable=False))

    async with a_stage(clean_up_badly) as stage:
        await stage.grant(1, limit=SECOND * 5, retry=ONE_TRY)
        await stage.until_status(1, TIMEOUT, within=SECOND * 6)


@virtually
async def test_the_nearest_deadline_is_kept_though_it_came_last() -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1, limit=MINUTE * 10)
        await stage.pass_time(SECOND)
        await stage.grant(2, limit=SECOND / 2)
        await stage.until_status(2, RETRYING, within=SECOND)
        assert await stage.statuses([1]) == {PROCESSING}


@virtually
async def test_an_attempt_that_came_too_late_is_not_begun_and_spends_no_retry() -> None:
    async with a_stage() as stage:
        attempt = await stage.write_grant(1, limit=SECOND)
        await stage.pass_time(SECOND * 2)
        await stage.coordinator.deliveries.assign([attempt])
        await stage.until_status(1, PENDING, within=SECOND * 2)
        await stage.until_free(within=SECOND)
        assert stage.executor.begun == []
        assert (await stage.task(1)).state.retry_count == 0
        assert (await stage.coordinator.queue.depths()).delayed == 1
        assert await stage.in_flight() == []


@virtually
async def test_a_task_whose_attempts_always_come_too_late_spends_its_retries_and_ends() -> None:
    async with a_stage() as stage:
        await stage.store.tasks.add([a_new_task(1, state=a_state(1, due_at=stage.clock.now()), retry=ONCE_MORE)])
        ends: list[TaskStatus] = []
        while not ends or not ends[-1].is_final:
            task = await stage.task(1)
            attempt = await stage._write_grant(task, SECOND / 10, worker_id=stage.worker_id)
            await stage.pass_time(SECOND * 2)
            await stage.coordinator.deliveries.assign([attempt])
            await stage.until_free_of(attempt)
            ends.append((await stage.task(1)).state.status)
        assert ends == [PENDING, PENDING, RETRYING, PENDING, PENDING, TIMEOUT]
        assert stage.executor.begun == []


@virtually
async def test_many_short_attempts_with_long_timeouts_do_not_pile_up() -> None:
    async with a_stage(capacity=500) as stage:
        for start in range(1, 4001, 500):
            await stage.grant(*range(start, start + 500), limit=MINUTE * 60)
            await stage.until(lambda end=start + 499: stage.worker.completed == end)  # type: ignore[misc]  # bound now
        gc.collect()
        assert sum(isinstance(one, Holding) for one in gc.get_objects()) <= 500, "those that ended are held by nobody"


@virtually
async def test_a_deadline_is_kept_though_a_nearer_one_was_never_met() -> None:
    async def end_the_first(job: Job, reports: Reports) -> Outcome:
        return Succeeded() if job.task.id == 1 else await never_end(job, reports)

    async with a_stage(end_the_first) as stage:
        await stage.grant(1, limit=SECOND)
        await stage.grant(2, limit=SECOND * 3)
        await stage.grant(3, limit=SECOND * 2)
        await stage.until_status(1, SUCCESS)
        await stage.until_status(3, RETRYING, within=SECOND * 3)
        assert await stage.statuses([2]) == {PROCESSING}
        await stage.until_status(2, RETRYING, within=SECOND * 2)


@virtually
async def test_an_attempt_does_not_end_before_it_began_though_the_leader_was_ahead() -> None:
    async with a_stage() as stage:
        soon = stage.clock.now() + SECOND / 25
        await stage.store.tasks.add([a_new_task(1, state=a_state(1, due_at=soon))])
        await stage.grant_again(1)
        await stage.until_status(1, SUCCESS)
        state = (await stage.task(1)).state
        assert state.started_at == state.completed_at == soon


@virtually
async def test_a_stale_attempt_never_runs() -> None:
    async with a_stage() as stage:
        attempt = await stage.write_grant(1)
        await stage.lose(1)
        await stage.coordinator.deliveries.assign([attempt])
        await stage.until(lambda: not stage.memory.memory.assigned.get(stage.worker_id))
        await stage.pass_time()
        assert stage.executor.begun == []
        assert await stage.in_flight() == []
        assert await stage.statuses([1]) == {PENDING}


@virtually
async def test_an_attempt_of_a_purged_task_never_runs() -> None:
    async with a_stage() as stage:
        attempt = await stage.write_grant(1)
        state = (await stage.task(1)).state
        await stage.store.tasks.advance([state.cancelled("by test", at=stage.clock.now())])
        await stage.store.tasks.purge(completed_before=stage.clock.now() + MINUTE, limit=10)
        await stage.coordinator.deliveries.assign([attempt])
        await stage.pass_time()
        assert stage.executor.begun == []
        assert await stage.in_flight() == []


@virtually
async def test_an_attempt_that_is_handed_over_twice_runs_once() -> None:
    async with a_stage(never_end) as stage:
        [attempt] = await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        stage.memory.memory.in_flight.clear()  # the coordinator has forgotten it, and the leader assigns it again
        await stage.coordinator.deliveries.assign([attempt])
        await stage.pass_time(SECOND * 5)
        assert stage.executor.begun == [attempt]


@virtually
async def test_a_type_nobody_here_can_run_goes_back_without_spending_a_retry() -> None:
    async with a_stage() as stage:
        await stage.store.configs.put(a_config("video", executor_type="cuda"))
        await stage.store.configs.put(a_config("audio", executor_config='{"codec":"mp3"}'))
        await stage.grant(1, task_type="video")
        await stage.grant(2, task_type="audio")
        await stage.grant(3, task_type="deleted")
        await stage.grant(4, task_type="video")
        for task_id in (1, 2, 3, 4):
            await stage.until_status(task_id, PENDING)
        state = (await stage.task(1)).state
        assert state.retry_count == 0
        assert state.due_at > stage.clock.now()
        await stage.until_free()
        assert (await stage.coordinator.queue.depths()).delayed == 4
        assert stage.executor.begun == []


@virtually
async def test_a_config_that_an_executor_cannot_make_sense_of_harms_its_own_tasks_only() -> None:
    async with a_stage() as stage:
        await stage.store.configs.put(a_config("odd", executor_config="[]"))
        await stage.grant(1, task_type="odd")
        await stage.grant(2)
        await stage.until_status(2, SUCCESS, within=SECOND * 2)
        await stage.until_status(1, RETRYING)
        error = (await stage.task(1)).error
        assert error is not None and error.code == "executor_error"


@virtually
async def test_capacity_can_be_changed_while_it_runs() -> None:
    async with a_stage(never_end, capacity=1) as stage:
        await stage.grant(1, 2, 3)
        await stage.pass_time(SECOND * 2)
        assert stage.executor.running == 1
        stage.worker.set_capacity(3)
        await stage.until(lambda: stage.executor.running == 3, within=SECOND * 2)
        assert stage.worker.capacity == 3
        await stage.pass_time(SECOND * 4)
        assert [worker.capacity for worker in await stage.pool()] == [3]
        assert [record.worker.capacity for record in await stage.store.workers.list_all()] == [3]
        assert stage.figures.gauges[metrics.WORKER_CAPACITY.name] == 3
        stage.worker.set_capacity(1)
        assert stage.executor.running == 3  # what runs is left alone


@pytest.mark.parametrize("capacity", [0, 1001])
def test_a_capacity_out_of_range_is_refused(capacity: int) -> None:
    @virtually
    async def scene() -> None:
        stage = Stage()
        with pytest.raises(InvalidError):
            stage.worker.set_capacity(capacity)
        with pytest.raises(InvalidError):
            Stage(capacity=capacity)

    scene()


@virtually
async def test_a_result_that_turned_stale_is_counted_and_acknowledged() -> None:
    async def slowly(job: Job, reports: Reports) -> Outcome:
        await stage.clock.sleep(SECOND * 2)
        return Succeeded()

    stage = Stage(slowly)
    await stage.store.configs.put(a_config())
    async with stage.running():
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        await stage.lose(1)
        await stage.until(lambda: stage.worker.completed == 1)
        await stage.until_free()
        assert stage.figures.count(metrics.STALE_RESULTS, EMAIL) == 1
        assert stage.figures.count(metrics.TASKS_ENDED, EMAIL, "SUCCESS") == 0
        assert await stage.in_flight() == []
        assert await stage.statuses([1]) == {PENDING}


@virtually
async def test_stopping_twice_ends_it_at_once() -> None:
    stage = Stage(never_end)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        [attempt] = await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        began = stage.clock.monotonic()
        stage.worker.stop()
        await stage.pass_time()
        assert not run.done()
        stage.worker.stop()
        await run
        assert stage.clock.monotonic() - began < 2
        assert stage.executor.stopped == [attempt]
        assert not stage.executor.is_started
        assert await stage.statuses([1]) == {PROCESSING}  # left to the leader
        assert [result.attempt for result in await stage.spool.read()] == [attempt]  # or to the next process


@virtually
async def test_ending_at_once_does_not_wait_for_ever() -> None:
    stubborn = Stubborn()
    stage = Stage(stubborn)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        run.cancel()
        await asyncio.wait([run], timeout=20)
        assert run.cancelled()
        stubborn.is_let_go = True
        await stage.pass_time(SECOND * 2)


@virtually
async def test_the_executors_are_started_and_closed() -> None:
    async with a_stage() as stage:
        assert stage.executor.is_started
    assert not stage.executor.is_started
