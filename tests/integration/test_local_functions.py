"""Which function the local executor runs."""

from collections.abc import AsyncIterator

import pytest

from rota.application.ports.metrics import NoMetrics
from tests.support.local_jobs import PATIENT, Recorder, Start, a_job, code_of, data_of, local_executors


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    async with local_executors(NoMetrics()) as start_one:
        yield start_one


@pytest.mark.parametrize(
    ("function", "result"), [("undecorated", "4"), ("undecorated_async", "6"), ("add", '{"sum":3}')]
)
async def test_a_config_may_name_a_function_of_the_app(start: Start, function: str, result: str) -> None:
    executor = await start(PATIENT)
    job = a_job("anything", {"left": 2}, executor_config=f'{{"function": "tests.support.local_app:{function}"}}')

    assert executor.supports(job.config)
    assert data_of(await executor.execute(job, Recorder())) == result
    assert data_of(await executor.execute(job, Recorder())) == result


@pytest.mark.parametrize("function", ["os:system", "tests.support.local_jobs:is_running", "nonsense", "a:b:c"])
async def test_a_config_may_not_name_a_function_from_elsewhere(start: Start, function: str) -> None:
    executor = await start(PATIENT)
    job = a_job("anything", {"command": "true"}, executor_config=f'{{"function": "{function}"}}')

    assert not executor.supports(job.config)
    assert code_of(await executor.execute(job, Recorder())) == "function_not_found"


async def test_a_function_that_is_not_there_fails_the_attempt(start: Start) -> None:
    executor = await start(PATIENT)
    named = a_job("anything", executor_config='{"function": "tests.support.local_app:NOT_A_FUNCTION"}')

    assert code_of(await executor.execute(named, Recorder())) == "function_not_found"
    assert not executor.supports(a_job("local.unheard_of").config)
    assert code_of(await executor.execute(a_job("local.unheard_of"), Recorder())) == "function_not_found"
