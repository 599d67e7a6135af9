"""The local executor with real processes, threads and loops."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from rota.application import metrics
from rota.application.ports.executor import HARD_STOP
from rota.domain.attempt import Failed, Outcome
from rota.domain.errors import ConfigError
from rota.infrastructure.executors.local import task_loop
from rota.infrastructure.executors.local.executor import LocalExecutor
from rota.infrastructure.executors.local.lines import DROPPED, MAX_PRINTED
from rota.infrastructure.executors.local.settings import LocalSettings
from rota.infrastructure.system import SystemClock
from rota.sdk.app import AppRef
from rota.testing.values import replace
from tests.support.local_app import RELEASE
from tests.support.local_jobs import (
    APP,
    PATIENT,
    CountingMetrics,
    Recorder,
    Start,
    a_job,
    code_of,
    data_of,
    is_running,
    local_executors,
    until,
)

SHORT = timedelta(milliseconds=100)
IMPATIENT = LocalSettings(grace=SHORT, async_grace=SHORT)


@pytest.fixture
def collector() -> CountingMetrics:
    return CountingMetrics()


@pytest.fixture
async def start(collector: CountingMetrics) -> AsyncIterator[Start]:
    async with local_executors(collector) as start_one:
        yield start_one


async def begin(executor: LocalExecutor, task_type: str) -> tuple[asyncio.Task[Outcome], Recorder, dict[str, Any]]:
    """A job that has said that it runs."""
    reports = Recorder()
    running = asyncio.create_task(executor.execute(a_job(task_type), reports))
    return running, reports, await reports.wait_for("begun")


async def is_cancelled(running: asyncio.Task[Outcome]) -> bool:
    running.cancel()
    await asyncio.wait({running})
    return running.cancelled()


@pytest.mark.parametrize("task_type", ["local.add", "local.async_add", "local.thread_add"])
async def test_a_function_of_every_kind_returns_its_result(start: Start, task_type: str) -> None:
    executor = await start(PATIENT)

    assert data_of(await executor.execute(a_job(task_type, {"left": 2}), Recorder())) == '{"sum":3}'


@pytest.mark.parametrize("task_type", ["local.add", "local.async_add", "local.thread_add"])
async def test_a_payload_that_does_not_fit_is_a_final_failure_that_names_the_argument(
    start: Start, task_type: str
) -> None:
    executor = await start(PATIENT)

    outcome = await executor.execute(a_job(task_type, {"left": "two"}), Recorder())

    assert code_of(outcome) == "bad_payload"
    assert isinstance(outcome, Failed)
    assert not outcome.error.retryable
    assert outcome.error.message == "argument left: Expected `int`, got `str`"


@pytest.mark.parametrize("task_type", ["local.async_add", "local.thread_add"])
async def test_what_a_function_on_another_thread_says_arrives_before_its_result(start: Start, task_type: str) -> None:
    executor, reports = await start(PATIENT), Recorder()

    await executor.execute(a_job(task_type, {"left": 2}), reports)

    assert reports.lines == [("adding", "info", '{"left":2}')]
    assert reports.steps == [(0.5, "half way")]


async def test_the_context_travels_to_a_child_process_and_back(start: Start) -> None:
    executor, reports = await start(PATIENT), Recorder()

    told = data_of(await executor.execute(a_job("local.tell"), reports))

    assert told is not None
    assert told.startswith('{"facts":["local.tell",1,0,{"customer":"7"},false],"left":')
    assert 0 < float(told.rpartition(":")[2].rstrip("}")) <= 60
    assert reports.lines == [("telling", "warning", '{"id":"1"}')]
    assert reports.steps == [(0.25, "a quarter")]


async def test_a_large_payload_reaches_the_process_whole(start: Start) -> None:
    executor = await start(PATIENT)

    assert data_of(await executor.execute(a_job("local.measure", {"text": "x" * 250_000}), Recorder())) == "250000"


async def test_an_infinite_loop_is_stopped_and_its_finally_runs(start: Start) -> None:
    executor = await start(PATIENT)
    running, reports, _ = await begin(executor, "local.spin")

    assert await is_cancelled(running)
    assert reports.lines[1:] == [("tidied", "info", '{"cancelled":true}'), ("tidied too", "info", "")]
    assert executor.list_pids() == []


async def test_a_function_that_ignores_the_stop_is_killed_with_all_that_it_started(start: Start) -> None:
    executor = await start(IMPATIENT)
    running, _, fields = await begin(executor, "local.stubborn")  # nothing but a kill ends it

    running.cancel()
    await until(lambda: not is_running(fields["pid"]))
    running.cancel()  # a second time changes nothing
    await asyncio.wait({running})

    assert running.cancelled()
    await until(lambda: not is_running(fields["sleeper"]))


async def test_a_hard_stop_kills_at_once_and_lets_nothing_finish(start: Start) -> None:
    executor = await start(PATIENT)
    running, _, _ = await begin(executor, "local.finish")  # within the grace it would

    running.cancel(HARD_STOP)
    await asyncio.wait({running})

    assert running.cancelled()


async def test_a_function_that_makes_it_within_the_grace_has_its_result_counted(start: Start) -> None:
    executor = await start(PATIENT)
    running, _, _ = await begin(executor, "local.finish")

    running.cancel()

    assert data_of(await running) == '"made it"'


async def test_a_function_that_missed_the_soft_signal_gets_another(start: Start) -> None:
    executor = await start(PATIENT)
    running, _, _ = await begin(executor, "local.miss_a_signal")

    running.cancel()

    assert data_of(await running) == '"made it"'


async def test_a_soft_signal_that_the_worker_did_not_send_stops_nothing(start: Start, tmp_path: Path) -> None:
    executor, reports, pipe = await start(PATIENT), Recorder(), tmp_path / "pipe"
    os.mkfifo(pipe)
    running = asyncio.create_task(executor.execute(a_job("local.read", {"path": str(pipe)}), reports))
    pid = (await reports.wait_for("begun"))["pid"]

    os.kill(pid, signal.SIGTERM)
    await asyncio.to_thread(pipe.write_text, "still here")

    assert data_of(await running) == '"still here"'


async def test_the_answer_of_a_process_that_ends_right_after_it_counts(start: Start) -> None:
    executor = await start(PATIENT)
    running, _, begun = await begin(executor, "local.answer_and_exit")

    # Holds this loop up, so that it finds the answer and the end at once.
    os.kill(begun["pid"], signal.SIGUSR1)
    os.waitid(os.P_PID, begun["pid"], os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222

    assert data_of(await running) == f'"{"x" * 60_000}"'


@pytest.mark.parametrize(
    ("task_type", "how"),
    [
        ("local.exit", "ended with exit 3"),
        ("local.segfault", "ended with signal 11"),
        ("local.scribble", "ended with signal 9 (SIGKILL: out of memory, perhaps)"),
        ("local.hang_up", "ended with signal 9 (SIGKILL: out of memory, perhaps)"),
    ],
)
async def test_a_process_that_dies_costs_its_attempt_alone(start: Start, task_type: str, how: str) -> None:
    executor = await start(PATIENT)

    outcome = await executor.execute(a_job(task_type), Recorder())

    assert code_of(outcome) == "worker_process_died"
    assert isinstance(outcome, Failed)
    assert outcome.error.retryable
    assert outcome.error.message == f"the task's process {how}"
    assert data_of(await executor.execute(a_job("local.add", {"left": 1}), Recorder())) == '{"sum":2}'


async def test_a_crash_leaves_its_python_stack_in_the_log(start: Start) -> None:
    executor, reports = await start(PATIENT), Recorder()

    await executor.execute(a_job("local.segfault"), reports)

    assert any("local_app.py" in line and "in segfault" in line for line in reports.messages())


async def test_a_function_that_exits_or_recurses_has_failed_and_its_process_goes_on(start: Start) -> None:
    executor = await start(PATIENT)
    before = await executor.execute(a_job("local.who"), Recorder())

    assert code_of(await executor.execute(a_job("local.exit_politely"), Recorder())) == "SystemExit"
    assert code_of(await executor.execute(a_job("local.recurse"), Recorder())) == "RecursionError"
    assert await executor.execute(a_job("local.who"), Recorder()) == before


async def test_beyond_its_memory_limit_a_function_fails_and_its_process_is_replaced(start: Start) -> None:
    executor = await start(replace(PATIENT, memory_limit=2 * 1024**3))
    before = data_of(await executor.execute(a_job("local.who"), Recorder()))

    assert code_of(await executor.execute(a_job("local.hoard"), Recorder())) == "MemoryError"

    assert data_of(await executor.execute(a_job("local.who"), Recorder())) != before
    await until(lambda: not is_running(int(before or 0)))


async def test_what_a_process_prints_becomes_log_lines(start: Start) -> None:
    executor, reports = await start(PATIENT), Recorder()

    await executor.execute(a_job("local.say"), reports)

    assert sorted(reports.lines) == [
        ("no newline", "info", ""),
        ("to stderr", "warning", ""),
        ("to stdout " + "x" * 90, "info", ""),
    ]


async def test_a_flood_of_output_is_cut_and_does_not_stop_the_function(start: Start) -> None:
    executor, reports = await start(PATIENT), Recorder()

    assert data_of(await executor.execute(a_job("local.say", {"times": 10_000}), reports)) is None

    printed = [message for message in reports.messages() if message.startswith("to stdout")]
    assert len(printed) <= MAX_PRINTED / 100
    assert reports.messages().count(DROPPED) == 1


async def test_an_idle_process_is_used_again_until_it_has_run_its_share(start: Start) -> None:
    executor = await start(replace(PATIENT, jobs_per_process=2))

    pids = [data_of(await executor.execute(a_job("local.who"), Recorder())) for _ in range(4)]

    assert pids[0] == pids[1] != pids[2] == pids[3]


async def test_processes_are_started_up_to_the_capacity_and_idle_ones_end_but_for_one(start: Start) -> None:
    executor = await start(replace(PATIENT, capacity=2, idle_after=SHORT))
    jobs = [executor.execute(a_job("local.who"), Recorder()) for _ in range(6)]

    pids = {data_of(outcome) for outcome in await asyncio.gather(*jobs)}

    assert len(pids) <= 2
    await until(lambda: len(executor.list_pids()) == 1)


async def test_an_idle_process_that_dies_is_not_given_another_job(start: Start) -> None:
    executor = await start(PATIENT)
    pid = int(data_of(await executor.execute(a_job("local.who"), Recorder())) or 0)

    os.kill(pid, signal.SIGKILL)
    await until(lambda: pid not in executor.list_pids())

    assert data_of(await executor.execute(a_job("local.add", {"left": 1}), Recorder())) == '{"sum":2}'


async def test_a_capacity_that_grows_lets_those_who_wait_begin(start: Start) -> None:
    executor = await start(replace(PATIENT, capacity=1))
    first, _, _ = await begin(executor, "local.spin")
    second = asyncio.create_task(executor.execute(a_job("local.add", {"left": 1}), Recorder()))

    executor.resize(2)

    assert data_of(await second) == '{"sum":2}'
    assert await is_cancelled(first)


async def test_a_process_ends_with_its_worker(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        "import asyncio, os, signal\n"
        "from rota.application.ports.metrics import NoMetrics\n"
        "from tests.integration.test_local_executor import APP, PATIENT, LocalExecutor, SystemClock, begin\n"
        "async def main():\n"
        "    executor = LocalExecutor(SystemClock(), NoMetrics(), app=APP, settings=PATIENT)\n"
        "    await executor.start()\n"
        "    running, reports, fields = await begin(executor, 'local.stubborn')\n"
        "    print(fields['pid'], fields['sleeper'], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path.cwd())}
    )
    out, _ = await process.communicate()
    pid, sleeper = map(int, out.splitlines()[-1].split())

    await until(lambda: not is_running(pid))
    with contextlib.suppress(ProcessLookupError):
        os.kill(sleeper, signal.SIGKILL)  # the kernel kills the process alone; its own children are its own affair


def count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def use_once(collector: CountingMetrics) -> list[int]:
    """Start an executor, run functions of every kind, close it; the processes that it had."""
    executor = LocalExecutor(SystemClock(), collector, app=APP, settings=PATIENT)
    await executor.start()
    jobs = [
        executor.execute(a_job(task_type, {"left": 1}), Recorder())
        for task_type in ["local.add", "local.async_add", "local.thread_add"] * 3
    ]
    await asyncio.gather(*jobs)
    pids = executor.list_pids()
    await executor.close()
    return pids


async def test_closing_leaves_no_process_no_thread_and_no_descriptor(collector: CountingMetrics) -> None:
    await use_once(collector)  # libuv opens two descriptors once, for the life of the program
    before, others = count_descriptors(), set(threading.enumerate())  # lookups of names keep theirs, and so on

    pids = await use_once(collector)

    assert pids
    assert not any(map(is_running, pids))
    assert [thread.name for thread in set(threading.enumerate()) - others if thread.name.startswith("rota-")] == []
    assert count_descriptors() == before


async def test_closing_while_the_first_process_starts_leaves_none(collector: CountingMetrics) -> None:
    executor = LocalExecutor(SystemClock(), collector, app=APP, settings=PATIENT)
    await executor.start()

    await executor.close()

    assert executor.list_pids() == []


async def test_two_hundred_coroutines_run_at_once(start: Start) -> None:
    executor = await start(PATIENT)
    begun = await asyncio.gather(*(begin(executor, "local.wait") for _ in range(200)))

    for running, _, _ in begun:
        running.cancel()
    await asyncio.wait({running for running, _, _ in begun})

    assert all(running.cancelled() for running, _, _ in begun)
    assert all(reports.messages() == ["begun", "tidied"] for _, reports, _ in begun)


async def test_a_coroutine_that_makes_it_within_the_grace_has_its_result_counted(start: Start) -> None:
    executor = await start(PATIENT)
    running, _, _ = await begin(executor, "local.async_finish")

    running.cancel()

    assert data_of(await running) == '"made it"'


async def test_a_coroutine_that_is_cancelled_before_its_first_step_has_ended(start: Start) -> None:
    executor, reports = await start(PATIENT), Recorder()
    running = asyncio.create_task(executor.execute(a_job("local.wait"), reports))
    await asyncio.sleep(0)  # noqa: TID251 - one turn of the loop: it is handed over

    assert await is_cancelled(running)


async def test_a_coroutine_that_cancels_itself_or_exits_or_recurses_has_failed(start: Start) -> None:
    executor = await start(PATIENT)

    assert code_of(await executor.execute(a_job("local.async_cancels_itself"), Recorder())) == "CancelledError"
    assert code_of(await executor.execute(a_job("local.async_closes_itself"), Recorder())) == "CancelledError"
    assert code_of(await executor.execute(a_job("local.async_recurse"), Recorder())) == "RecursionError"
    assert code_of(await executor.execute(a_job("local.async_exit"), Recorder())) == "SystemExit"
    assert data_of(await executor.execute(a_job("local.async_add", {"left": 1}), Recorder())) == '{"sum":2}'


async def test_a_coroutine_that_does_not_end_is_given_up_and_counted(start: Start, collector: CountingMetrics) -> None:
    executor = await start(IMPATIENT)
    running, _, _ = await begin(executor, "local.async_stubborn")

    assert await is_cancelled(running)
    assert collector.counted == [(metrics.ATTEMPTS_ABANDONED, ("local.async_stubborn",))]
    assert data_of(await executor.execute(a_job("local.async_add", {"left": 1}), Recorder())) == '{"sum":2}'


async def test_a_coroutine_that_blocks_is_named_and_stops_neither_the_control_loop_nor_the_next_coroutine(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_loop, "BLOCKED_AFTER_S", 0.5)
    monkeypatch.setattr(task_loop, "LOOK_EVERY_S", 0.01)
    executor = await start(IMPATIENT)
    with structlog.testing.capture_logs() as logs:
        running, _, _ = await begin(executor, "local.async_block")
        assert data_of(await executor.execute(a_job("local.add", {"left": 1}), Recorder())) == '{"sum":2}'
        await until(lambda: any(line["event"] == "task_loop.blocked" and line["type"] for line in logs))

        assert await is_cancelled(running)

    # One without a type is a thread that the machine was slow to start.
    blocked = [line for line in logs if line["event"] == "task_loop.blocked" and line["type"]]
    assert [line["type"] for line in blocked] == ["local.async_block"]
    assert "RELEASE.wait" in blocked[0]["stack"]
    assert data_of(await executor.execute(a_job("local.async_add", {"left": 1}), Recorder())) == '{"sum":2}'


async def test_a_function_in_a_thread_can_see_that_it_is_cancelled(start: Start) -> None:
    executor = await start(PATIENT)
    running, _, _ = await begin(executor, "local.thread_wait")

    running.cancel()

    assert data_of(await running) == '"stopped by itself"'


async def test_a_thread_that_does_not_end_is_given_up_counted_and_replaced(
    start: Start, collector: CountingMetrics
) -> None:
    executor = await start(replace(IMPATIENT, capacity=1))
    running, reports, _ = await begin(executor, "local.thread_block")

    assert await is_cancelled(running)

    assert collector.counted == [(metrics.ATTEMPTS_ABANDONED, ("local.thread_block",))]
    assert data_of(await executor.execute(a_job("local.thread_add", {"left": 1}), Recorder())) == '{"sum":2}'
    RELEASE.set()
    await executor.close()
    assert len(reports.messages()) == 2, "that it began, and that it runs on: it speaks no more itself"


async def test_without_descriptors_of_processes_a_death_is_noticed_all_the_same(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    executor = await start(PATIENT)

    assert code_of(await executor.execute(a_job("local.exit"), Recorder())) == "worker_process_died"
    assert data_of(await executor.execute(a_job("local.add", {"left": 1}), Recorder())) == '{"sum":2}'


async def test_a_process_that_is_not_ready_in_time_fails_the_attempt(start: Start) -> None:
    executor = await start(replace(PATIENT, start_timeout=timedelta(milliseconds=1)))

    assert code_of(await executor.execute(a_job("local.add", {"left": 1}), Recorder())) == "worker_process_slow"


async def test_an_app_that_its_processes_cannot_load_fails_the_attempt_with_the_reason(
    collector: CountingMetrics, tmp_path: Path
) -> None:
    app = tmp_path / "fragile_app.py"
    app.write_text(
        "import sys, rota\n"
        "if 'rota.infrastructure.executors.local.children' not in sys.modules: raise KeyError('no config here')\n"
        "@rota.task('local.fragile')\n"
        "def fragile(): pass\n"
    )
    executor = LocalExecutor(SystemClock(), collector, app=AppRef(str(app)), settings=PATIENT)
    await executor.start()

    outcome = await executor.execute(a_job("local.fragile"), Recorder())
    await executor.close()

    assert code_of(outcome) == "app_broken"
    assert isinstance(outcome, Failed)
    assert "KeyError: 'no config here'" in outcome.error.message
    assert "fragile_app.py" in outcome.error.detail


async def test_an_app_that_does_not_exist_is_refused_at_the_start(collector: CountingMetrics) -> None:
    executor = LocalExecutor(SystemClock(), collector, app=AppRef("no_such_module"), settings=PATIENT)

    with pytest.raises(ConfigError, match="no_such_module"):
        await executor.start()
