"""What running attempts say."""

import asyncio
import json

from rota.application import metrics
from rota.application.ports.executor import Job, LogLevel, Reports
from rota.domain.attempt import Outcome, Succeeded
from rota.domain.events import EventKind
from rota.domain.ids import TaskId
from rota.domain.log import Progress
from rota.domain.task import PROCESSING, SUCCESS, LogKind
from rota.testing.faults import Fault
from tests.support.builders import MINUTE, SECOND, a_config
from tests.support.virtual import virtually
from tests.support.worker_stage import Stage, a_stage


async def _talk(reports: Reports, count: int, *, size: int = 1) -> None:
    for number in range(count):
        reports.log(f"{number} " + "x" * size)


@virtually
async def test_lines_are_kept_in_order_after_the_grant_and_before_the_end() -> None:
    async def talk(job: Job, reports: Reports) -> Outcome:
        reports.log("one")
        reports.log("two", level=LogLevel.ERROR, detail="Traceback")
        reports.log("three", level=LogLevel.WARNING)
        return Succeeded()

    async with a_stage(talk) as stage:
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        record = await stage.store.logs.read(TaskId(1))
        assert [entry.message for entry in record] == ["", "", "one", "two", "three", ""]
        assert [entry.kind for entry in record][2:5] == [LogKind.INFO, LogKind.ERROR, LogKind.WARNING]
        assert record[3].detail == "Traceback"
        assert {entry.attempt for entry in record[2:5]} == {1}


@virtually
async def test_lines_can_be_read_while_the_attempt_runs() -> None:
    async def talk(job: Job, reports: Reports) -> Outcome:
        reports.log("half way")
        await stage.clock.sleep(MINUTE / 2)
        return Succeeded()

    stage = Stage(talk)
    await stage.store.configs.put(a_config())
    listener = asyncio.create_task(stage.listen())
    async with stage.running():
        await stage.grant(1)
        await stage.pass_time(SECOND)
        assert [line.message for line in await stage.lines(1)] == ["half way"]
        assert [event.kind for event in stage.events if event.task_id] == [EventKind.TASK_LOGGED]
    listener.cancel()


@virtually
async def test_the_result_waits_for_the_lines() -> None:
    async def talk(job: Job, reports: Reports) -> Outcome:
        reports.log("last words")
        return Succeeded()

    async with a_stage(talk) as stage:
        stage.faults.inject("logs.append", Fault.GONE, times=None)
        await stage.grant(1)
        await stage.pass_time(SECOND * 30)
        assert await stage.statuses([1]) == {PROCESSING}
        stage.faults.heal()
        await stage.until_status(1, SUCCESS)
        assert [line.message for line in await stage.lines(1)] == ["last words"]


@virtually
async def test_a_line_whose_write_was_unanswered_is_kept_once() -> None:
    async def talk(job: Job, reports: Reports) -> Outcome:
        await _talk(reports, 3)
        return Succeeded()

    async with a_stage(talk) as stage:
        stage.faults.inject("logs.append", Fault.EXECUTE_AND_TIMEOUT, times=2)
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        assert len(await stage.lines(1)) == 3


@virtually
async def test_thousands_of_lines_of_several_attempts_all_arrive() -> None:
    async def talk(job: Job, reports: Reports) -> Outcome:
        for _ in range(5):
            await _talk(reports, 300)
            await stage.clock.sleep(SECOND / 10)
        return Succeeded()

    stage = Stage(talk)
    await stage.store.configs.put(a_config())
    async with stage.running():
        await stage.grant(1, 2, 3)
        for task_id in (1, 2, 3):
            await stage.until_status(task_id, SUCCESS)
            assert len(await stage.store.logs.read(TaskId(task_id), limit=5000)) == 3 + 1500


@virtually
async def test_an_attempt_that_says_too_much_is_cut_with_one_marker() -> None:
    async def talk(job: Job, reports: Reports) -> Outcome:
        await _talk(reports, 100, size=1000)
        return Succeeded()

    async with a_stage(talk, log_bytes_per_attempt=10_000) as stage:
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        lines = await stage.lines(1)
        assert len(lines) == 9 + 1
        assert "dropped" in lines[-1].message
        assert stage.figures.count(metrics.LOG_LINES_DROPPED) == 91


@virtually
async def test_the_lines_of_all_attempts_together_are_bounded_while_the_store_is_away() -> None:
    async def talk(job: Job, reports: Reports) -> Outcome:
        await _talk(reports, 20, size=1000)
        await stage.clock.sleep(SECOND * 20)
        reports.log("and then")
        return Succeeded()

    stage = Stage(talk, log_bytes=30_000)
    await stage.store.configs.put(a_config())
    async with stage.running():
        stage.faults.inject("logs.append", Fault.GONE, times=None)
        await stage.grant(1, 2)
        await stage.pass_time(SECOND * 10)
        stage.faults.heal()
        await stage.until_status(1, SUCCESS)
        await stage.until_status(2, SUCCESS)
        first, second = await stage.lines(1), await stage.lines(2)
        assert len(first) == 21
        assert "dropped here" in second[-2].message
        assert second[-1].message == "and then"
        assert len(second) + stage.figures.count(metrics.LOG_LINES_DROPPED) == 22
        assert stage.worker._logs.waiting == 0


@virtually
async def test_progress_is_told_once_a_second_and_at_the_end() -> None:
    async def advance(job: Job, reports: Reports) -> Outcome:
        for step in range(1, 11):
            reports.progress(step / 10, f"step {step}")
            await stage.clock.sleep(SECOND * 0.3)
        return Succeeded()

    stage = Stage(advance)
    await stage.store.configs.put(a_config())
    listener = asyncio.create_task(stage.listen())
    async with stage.running():
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        lines = await stage.lines(1)
        assert [json.loads(line.detail)["progress"] for line in lines] == [0.1, 0.4, 0.8, 1.0]
        assert lines[-1].message == "step 10"
        await stage.pass_time()
        told = [event.progress for event in stage.events if event.kind is EventKind.TASK_PROGRESS]
        assert told == [Progress(step / 10, f"step {step}") for step in (1, 4, 8, 10)]
        assert all(event.progress is None for event in stage.events if event.kind is not EventKind.TASK_PROGRESS)
    listener.cancel()


@virtually
async def test_progress_is_told_within_moments_also_of_an_attempt_that_falls_silent_then() -> None:
    async def advance(job: Job, reports: Reports) -> Outcome:
        reports.progress(0.1, "begun")
        await stage.clock.sleep(SECOND * 0.3)
        reports.progress(0.9, "nearly there")
        await stage.clock.sleep(MINUTE)
        return Succeeded()

    stage = Stage(advance)
    await stage.store.configs.put(a_config())
    async with stage.running():
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        await stage.clock.sleep(SECOND * 1.5)
        assert [line.message for line in await stage.lines(1)] == ["begun", "nearly there"]


@virtually
async def test_progress_beyond_its_bounds_is_brought_back() -> None:
    async def advance(job: Job, reports: Reports) -> Outcome:
        for fraction in (-1.0, 7.0, float("nan")):
            reports.progress(fraction)
            await stage.clock.sleep(SECOND * 2)
        return Succeeded()

    stage = Stage(advance)
    await stage.store.configs.put(a_config())
    async with stage.running():
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        assert [json.loads(line.detail)["progress"] for line in await stage.lines(1)] == [0.0, 1.0, 0.0]


@virtually
async def test_an_attempt_that_was_taken_away_says_no_more() -> None:
    async def talk(job: Job, reports: Reports) -> Outcome:
        try:
            await stage.clock.sleep(MINUTE)
        finally:
            reports.log("too late")
            reports.progress(0.5)
        return Succeeded()

    stage = Stage(talk)
    await stage.store.configs.put(a_config())
    async with stage.running():
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        await stage.retire()
        await stage.until(lambda: stage.executor.running == 0)
        await stage.pass_time(SECOND * 5)
        assert await stage.lines(1) == []


@virtually
async def test_progress_beyond_the_bound_of_the_log_is_dropped() -> None:
    async def talk(job: Job, reports: Reports) -> Outcome:
        reports.log("x" * 800)
        reports.progress(0.5)
        return Succeeded()

    async with a_stage(talk, log_bytes_per_attempt=1000) as stage:
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        await stage.pass_time()
        assert len(await stage.lines(1)) == 2
        assert EventKind.TASK_PROGRESS not in [event.kind for event in stage.events]
