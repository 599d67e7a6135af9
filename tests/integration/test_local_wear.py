"""The local executor when user code ends the loop that it shares, or never lets go of its threads."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import structlog

from rota.application.loop import FatalError
from rota.domain.attempt import Failed, Outcome
from rota.infrastructure.executors.local import executor as executor_module
from rota.infrastructure.executors.local import task_loop, threads
from rota.infrastructure.executors.local.executor import LocalExecutor
from tests.integration.test_local_executor import IMPATIENT, begin, is_cancelled
from tests.support.local_app import RELEASE
from tests.support.local_jobs import (
    PATIENT,
    CountingMetrics,
    Recorder,
    Start,
    a_job,
    code_of,
    data_of,
    local_executors,
    until,
)


@pytest.fixture
def collector() -> CountingMetrics:
    return CountingMetrics()


@pytest.fixture
async def start(collector: CountingMetrics) -> AsyncIterator[Start]:
    async with local_executors(collector) as start_one:
        yield start_one


async def begin_to_block(executor: LocalExecutor, task_type: str) -> asyncio.Task[Outcome]:
    """A job that blocks. Its loop, if it is a coroutine, is known to: only then is it lost with what is given up."""
    running, _, _ = await begin(executor, task_type)
    loop = executor._loops._current
    await until(lambda: loop is None or loop.is_blocked)
    return running


@pytest.mark.parametrize("task_type", ["local.async_stops_its_loop", "local.async_starts_an_exit"])
async def test_a_coroutine_that_ends_its_loop_fails_all_on_it_and_the_next_gets_a_new_one(
    start: Start, task_type: str
) -> None:
    executor = await start(PATIENT)
    async with asyncio.timeout(10):
        neighbour, reports, _ = await begin(executor, "local.wait")

        guilty = await executor.execute(a_job(task_type), Recorder())
        ended = await neighbour

        assert isinstance(ended, Failed)
        assert (ended.error.code, ended.error.retryable) == ("task_loop_died", True)
        assert code_of(guilty) in {"task_loop_died", "SystemExit"}
        assert reports.messages() == ["begun", "tidied"]
        assert data_of(await executor.execute(a_job("local.async_add", {"left": 1}), Recorder())) == '{"sum":2}'


async def test_what_was_said_before_a_loop_ended_is_heard_before_its_end(start: Start) -> None:
    executor, reports = await start(PATIENT), Recorder()

    job = a_job("local.async_floods_and_stops_its_loop", {"lines": 5000})
    running = asyncio.create_task(executor.execute(job, reports))
    await asyncio.sleep(0)  # noqa: TID251 - one turn of the loop: it is handed over

    assert executor._loops.current().join(20), "and until then this loop delivers nothing"

    assert code_of(await running) == "task_loop_died"
    assert reports.messages() == [str(number) for number in range(5000)]


async def test_a_coroutine_that_outlives_its_loop_is_answered_for(start: Start) -> None:
    executor = await start(PATIENT)
    async with asyncio.timeout(10):
        stubborn, _, _ = await begin(executor, "local.async_stubborn")

        await executor.execute(a_job("local.async_stops_its_loop"), Recorder())

        assert code_of(await stubborn) == "task_loop_died"


@pytest.mark.parametrize("task_type", ["local.async_block", "local.thread_block"])
async def test_too_many_that_never_end_are_a_reason_to_start_the_process_anew(
    start: Start, monkeypatch: pytest.MonkeyPatch, task_type: str
) -> None:
    monkeypatch.setattr(task_loop, "BLOCKED_AFTER_S", 0.05)
    monkeypatch.setattr(task_loop, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(task_loop, "MAX_LOST", 2)
    monkeypatch.setattr(threads, "MAX_ABANDONED", 2)
    executor = await start(IMPATIENT)
    assert await is_cancelled(await begin_to_block(executor, task_type))
    second = await begin_to_block(executor, task_type)

    second.cancel()
    with pytest.raises(FatalError, match=task_type):
        await second


async def test_a_coroutine_that_swallows_its_cancellation_gets_another_within_the_grace(
    start: Start, collector: CountingMetrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_module, "REMINDED_AT", 0.001)
    executor = await start(PATIENT)
    running, _, _ = await begin(executor, "local.async_swallow")

    assert await is_cancelled(running)
    assert collector.counted == [], "it was not given up"


async def test_too_many_coroutines_that_run_on_are_a_reason_to_start_the_process_anew(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_loop, "STUBBORN_AFTER_S", 0.0)
    monkeypatch.setattr(task_loop, "MAX_STUBBORN", 3)
    executor = await start(IMPATIENT)
    for _ in range(2):
        assert await is_cancelled((await begin(executor, "local.async_stubborn"))[0])
    third, _, _ = await begin(executor, "local.async_stubborn")

    third.cancel()
    with pytest.raises(FatalError, match=r"local\.async_stubborn"):
        await third


async def test_the_neighbours_of_one_that_blocks_do_not_count_as_running_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_loop, "MAX_STUBBORN", 1)
    executor = await start(IMPATIENT)
    neighbours = [(await begin(executor, "local.wait"))[0] for _ in range(3)]
    guilty, _, _ = await begin(executor, "local.async_block")

    assert all(await asyncio.gather(*map(is_cancelled, [guilty, *neighbours])))


async def test_a_coroutine_that_ends_after_it_was_given_up_counts_no_more(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_loop, "STUBBORN_AFTER_S", 0.0)
    monkeypatch.setattr(task_loop, "MAX_STUBBORN", 2)
    executor = await start(IMPATIENT)
    for _ in range(4):
        running, _, _ = await begin(executor, "local.async_stubborn")
        assert await is_cancelled(running), "one at a time is not too many"
        RELEASE.set()
        loop = executor._loops.current()
        await until(lambda loop=loop: not loop.count_stubborn())  # type: ignore[misc]
        RELEASE.clear()


async def test_a_lost_loop_that_comes_back_is_let_go(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_loop, "BLOCKED_AFTER_S", 0.05)
    monkeypatch.setattr(task_loop, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(task_loop, "MAX_LOST", 2)
    executor = await start(IMPATIENT)
    for _ in range(4):
        running = await begin_to_block(executor, "local.async_block")
        assert await is_cancelled(running), "one at a time is not too many"
        lost = executor._loops._lost
        RELEASE.set()
        await until(lambda lost=lost: not any(loop.is_blocked for loop in lost))  # type: ignore[misc]
        RELEASE.clear()

    await until(lambda: [thread.name for thread in threading.enumerate()].count("rota-task-loop") <= 2)


async def test_the_control_loop_goes_on_while_closing_waits_for_a_coroutine(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_loop, "JOIN_S", 10.0)
    executor = await start(PATIENT)
    running, _, _ = await begin(executor, "local.async_block")
    loop = executor._loops.current()

    with structlog.testing.capture_logs() as logs:
        closing = asyncio.create_task(executor.close())
        await until(lambda: loop._is_closing)
        RELEASE.set()
        await closing

    assert "task_loop.left_behind" not in [line["event"] for line in logs]
    await asyncio.wait({running})


async def test_the_control_loop_goes_on_while_closing_waits_for_a_thread(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "JOIN_S", 10.0)
    executor = await start(PATIENT)
    running, _, _ = await begin(executor, "local.thread_block")
    assert executor._threads is not None
    [thread] = executor._threads._busy.values()

    with structlog.testing.capture_logs() as logs:
        closing = asyncio.create_task(executor.close())
        await until(lambda: not thread._inbox.empty())
        RELEASE.set()
        await closing

    assert "threads.left_behind" not in [line["event"] for line in logs]
    await asyncio.wait({running})
