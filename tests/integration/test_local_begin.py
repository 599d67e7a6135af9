"""Coroutine functions that are begun without a task of the control loop for each."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.application import metrics
from rota.application.ports.executor import Job
from rota.domain.attempt import Outcome
from tests.integration.test_local_executor import IMPATIENT
from tests.support.local_jobs import PATIENT, CountingMetrics, Recorder, Start, a_job, data_of, local_executors


@pytest.fixture
def collector() -> CountingMetrics:
    return CountingMetrics()


@pytest.fixture
async def start(collector: CountingMetrics) -> AsyncIterator[Start]:
    async with local_executors(collector) as start_one:
        yield start_one


class Ending:
    """Hears how an attempt ended, and how often it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Outcome | None, BaseException | None]] = []
        self._is_told = asyncio.Event()

    def __call__(self, outcome: Outcome | None, error: BaseException | None) -> None:
        self.told.append((outcome, error))
        self._is_told.set()

    async def wait(self) -> Outcome | None:
        async with asyncio.timeout(20):
            await self._is_told.wait()
        ((outcome, error),) = self.told
        assert error is None
        return outcome


async def test_the_end_of_a_coroutine_is_told_once(start: Start) -> None:
    executor, end = await start(PATIENT), Ending()

    begun = executor.begin(a_job("local.async_add", {"left": 2}), Recorder(), end=end)

    assert begun is not None
    assert end.told == [], "never before it returns"
    outcome = await end.wait()
    assert outcome is not None
    assert data_of(outcome) == '{"sum":3}'
    begun.cancel()  # there is nothing to stop any more
    await executor.execute(a_job("local.async_add", {"left": 1}), Recorder())
    assert len(end.told) == 1


@pytest.mark.parametrize(
    "job",
    [
        a_job("local.add", {"left": 2}),
        a_job("local.thread_add", {"left": 2}),
        a_job("local.nowhere"),
        a_job("local.async_add", executor_config='{"function": "os:system"}'),
        a_job("local.async_add", executor_config='{"function": "tests.support.local_app:not_loaded_yet"}'),
    ],
    ids=["process", "thread", "unknown", "forbidden", "not loaded"],
)
async def test_what_is_no_coroutine_that_is_known_is_left_to_execute(start: Start, job: Job) -> None:
    executor = await start(PATIENT)

    assert executor.begin(job, Recorder(), end=Ending()) is None


async def test_a_coroutine_that_is_told_to_stop_does_so_and_says_so_once(start: Start) -> None:
    executor, end, reports = await start(PATIENT), Ending(), Recorder()
    begun = executor.begin(a_job("local.wait"), reports, end=end)
    assert begun is not None
    await reports.wait_for("begun")

    begun.cancel()
    begun.cancel()

    assert await end.wait() is None
    assert "tidied" in reports.messages()


async def test_one_that_is_stopped_before_its_first_step_has_ended(start: Start) -> None:
    executor, end = await start(PATIENT), Ending()
    begun = executor.begin(a_job("local.wait"), Recorder(), end=end)
    assert begun is not None

    begun.cancel()

    assert await end.wait() is None


async def test_one_that_does_not_end_is_given_up_and_speaks_for_nobody(
    start: Start, collector: CountingMetrics
) -> None:
    executor, end, reports = await start(IMPATIENT), Ending(), Recorder()
    begun = executor.begin(a_job("local.async_stubborn"), reports, end=end)
    assert begun is not None
    await reports.wait_for("begun")

    begun.cancel()

    assert await end.wait() is None
    assert (metrics.ATTEMPTS_ABANDONED, ("local.async_stubborn",)) in collector.counted
    assert "runs on in this worker" in reports.messages()[-1]


async def test_one_that_a_neighbour_cancels_before_its_first_step_is_not_waited_for(start: Start) -> None:
    executor, guilty, victim = await start(PATIENT), Ending(), Ending()

    executor.begin(a_job("local.async_cancels_all"), Recorder(), end=guilty)
    executor.begin(a_job("local.async_cancels_all"), Recorder(), end=victim)

    assert await victim.wait() is None
    assert await guilty.wait() is not None
