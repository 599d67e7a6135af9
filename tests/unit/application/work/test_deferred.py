"""Attempts that go on without their worker, and what all attempts may take together."""

from datetime import timedelta

import pytest

from rota.application import metrics
from rota.application.ports.executor import Job, Reports
from rota.domain.attempt import Deferred, Failed, Outcome, Snoozed, TaskResult
from rota.domain.callback import AttemptKey
from rota.domain.events import EventKind
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.retry import RetryPolicy, RetryStrategy
from rota.domain.task import FAILED, PENDING, PROCESSING, RETRYING, SUCCESS, TIMEOUT
from tests.support.builders import EMAIL, MINUTE, SECOND, a_config, an_error
from tests.support.executors import never_end
from tests.support.virtual import virtually
from tests.support.worker_stage import Stage, a_stage


def a_link(attempt: AttemptKey) -> str:
    return f"http://here/{attempt.task_id}/{attempt.number}"


async def defer(job: Job, reports: Reports) -> Outcome:
    """Somebody else does it."""
    reports.log("handed on")
    return Deferred()


@virtually
async def test_a_deferred_attempt_runs_on_and_its_slot_is_free() -> None:
    async with a_stage(defer, capacity=1, link=a_link) as stage:
        await stage.grant(1, 2, 3)  # one after the other, as the capacity has it
        await stage.until(lambda: stage.worker.completed == 3)
        await stage.until_free(within=SECOND)
        for task_id in (1, 2, 3):
            state = (await stage.task(task_id)).state
            assert (state.status, state.attempt, state.is_deferred) == (PROCESSING, 1, True)
        assert await stage.in_flight() == []
        assert stage.figures.count(metrics.ATTEMPTS_ENDED, EMAIL, "deferred") == 3
        assert sum(stage.figures.count(metrics.TASKS_ENDED, EMAIL, status) for status in ("PROCESSING", "SUCCESS")) == 0
        assert [line.message for line in await stage.lines(1)] == ["handed on"]
        assert EventKind.TASK_LOGGED in [event.kind for event in stage.events if event.task_id == 1]


@virtually
async def test_a_drain_does_not_wait_for_what_is_deferred_nor_hand_it_back() -> None:
    stage = Stage(defer, link=a_link)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        await stage.grant(1)
        await stage.until(lambda: stage.worker.completed == 1)
        began = stage.clock.monotonic()
        stage.worker.stop()
        await run
        assert stage.clock.monotonic() - began < 1
        assert (await stage.task(1)).state.is_deferred
        assert await stage.store.workers.list_all() == []


@virtually
async def test_a_callback_that_was_faster_makes_the_workers_word_stale() -> None:
    async def slowly(job: Job, reports: Reports) -> Outcome:
        await stage.clock.sleep(SECOND)
        return Deferred()

    async with a_stage(slowly) as stage:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        state = (await stage.task(1)).state
        await stage.store.tasks.advance([state.succeeded(TaskResult(), at=stage.clock.now())])
        await stage.until_free(within=MINUTE)
        assert (await stage.task(1)).state.status is SUCCESS
        assert stage.figures.count(metrics.STALE_RESULTS, EMAIL) == 1


@virtually
async def test_an_attempt_comes_with_its_link_if_there_is_one() -> None:
    links: list[str] = []

    async def look(job: Job, reports: Reports) -> Outcome:
        links.append(job.callback)
        return Deferred()

    asked: list[AttemptKey] = []

    def link(attempt: AttemptKey) -> str:
        asked.append(attempt)
        return "http://here/it/is"

    async with a_stage(look) as stage:
        await stage.grant(1)
        await stage.until(lambda: len(links) == 1)
    async with a_stage(look, link=link) as stage:
        await stage.grant(1)
        await stage.until(lambda: len(links) == 2)
    assert links == ["", "http://here/it/is"]
    assert set(asked) == {AttemptKey(DEFAULT_TENANT, TaskId(1), 1)}


@virtually
async def test_what_nobody_could_finish_later_ends_at_once() -> None:
    async with a_stage(defer) as stage:
        await stage.grant(1)
        await stage.until(lambda: stage.worker.completed == 1)
        await stage.until_free(within=SECOND)
        task = await stage.task(1)
        assert (task.state.status, task.error and task.error.code) == (FAILED, "callbacks_off")


def within(seconds: float, *, delay: timedelta = SECOND * 10) -> RetryPolicy:
    total = timedelta(seconds=seconds)
    return RetryPolicy(strategy=RetryStrategy.FIXED, delay=delay, jitter=0.0, total_timeout=total)


@virtually
async def test_a_running_attempt_is_stopped_when_the_time_for_all_of_them_is_over() -> None:
    async with a_stage(never_end) as stage:
        began = stage.clock.monotonic()
        await stage.grant(1, retry=within(5), created_at=stage.clock.now())
        await stage.until_status(1, TIMEOUT)
        assert 5 <= stage.clock.monotonic() - began < 6
        error = (await stage.task(1)).error
        assert error is not None
        assert error.code == "total_timeout"


@pytest.mark.parametrize("outcome", [Failed(an_error()), Snoozed(SECOND * 10)])
def test_what_would_go_on_too_late_ends_at_once(outcome: Outcome) -> None:
    async def answer(job: Job, reports: Reports) -> Outcome:
        return outcome

    @virtually
    async def story() -> None:
        async with a_stage(answer) as stage:
            now = stage.clock.now()
            await stage.grant(1, retry=within(5), created_at=now)
            await stage.grant(2, retry=within(15), created_at=now)
            await stage.until_status(1, TIMEOUT, within=SECOND)
            await stage.until_free()
            assert (await stage.task(2)).state.status is (RETRYING if isinstance(outcome, Failed) else PENDING)

    story()


@virtually
async def test_an_attempt_that_comes_when_the_time_is_over_is_not_begun() -> None:
    async with a_stage() as stage:
        await stage.grant(1, retry=within(5), created_at=stage.clock.now() - MINUTE)
        await stage.until_status(1, TIMEOUT, within=SECOND)
        assert stage.executor.begun == []
        error = (await stage.task(1)).error
        assert error is not None
        assert (error.code, error.message.rpartition(": ")[2]) == (
            "total_timeout",
            "the time for all attempts was over before this one could begin",
        )
