"""Executors that begin attempts without a task of the event loop for each."""

import asyncio
from typing import Any

import pytest

from rota.application.loop import FatalError
from rota.application.ports.executor import Begun, End, Job, Reports
from rota.application.work.registry import ExecutorRegistry
from rota.domain.attempt import Deferred, Outcome, Succeeded
from rota.domain.retry import RetryPolicy
from rota.domain.task import FAILED, SUCCESS, TIMEOUT
from rota.domain.task_config import TaskConfig
from tests.support.builders import SECOND, a_config
from tests.support.virtual import virtually
from tests.support.worker_stage import Stage


class SwiftScript:
    """Ends each attempt in one way, a moment after it was begun; without one, when it is stopped."""

    def __init__(self, outcome: Outcome | None = None, error: BaseException | None = None) -> None:
        self.outcome = outcome
        self.error = error
        self.stops = 0
        self.is_swift = True
        self.executed = 0

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def supports(self, config: TaskConfig) -> bool:
        return True

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        self.executed += 1
        return Succeeded()

    def begin(self, job: Job, reports: Reports, *, end: End) -> Begun | None:
        if not self.is_swift:
            return None
        if self.outcome is not None or self.error is not None:
            asyncio.get_running_loop().call_soon(end, self.outcome, self.error)
        return _Running(self, end)


class _Running:
    def __init__(self, script: SwiftScript, end: End) -> None:
        self._script = script
        self._end = end

    def cancel(self, msg: Any | None = None) -> None:
        self._script.stops += 1
        asyncio.get_running_loop().call_soon(self._end, None, None)


async def a_swift_stage(executor: SwiftScript) -> Stage:
    stage = Stage()
    stage.executors = ExecutorRegistry({"local": executor})
    stage.worker = stage.make_worker()
    await stage.store.configs.put(a_config())
    return stage


@virtually
async def test_an_attempt_that_is_begun_swiftly_ends_like_any_other() -> None:
    executor = SwiftScript(Succeeded())
    stage = await a_swift_stage(executor)
    async with stage.running():
        await stage.grant(1, 2)
        await stage.until_status(1, SUCCESS)
        await stage.until_status(2, SUCCESS)
        await stage.until_free(within=SECOND)
        assert (executor.executed, executor.stops) == (0, 0)


@virtually
async def test_an_executor_that_raises_instead_of_beginning_has_failed_that_attempt_alone() -> None:
    executor = SwiftScript(Succeeded())
    stage = await a_swift_stage(executor)
    async with stage.running():
        executor.begin = _raise  # type: ignore[method-assign]
        await stage.grant(1, retry=RetryPolicy(max_retries=0))
        await stage.until_status(1, FAILED)
        del executor.begin
        await stage.grant(2)
        await stage.until_status(2, SUCCESS)
        await stage.until_free(within=SECOND)


def _raise(*_: object, **__: object) -> Begun | None:
    raise KeyError("no such plan")


@virtually
async def test_what_an_executor_does_not_begin_swiftly_it_executes() -> None:
    executor = SwiftScript(Succeeded())
    executor.is_swift = False
    stage = await a_swift_stage(executor)
    async with stage.running():
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        assert executor.executed == 1


@virtually
async def test_a_deadline_stops_it() -> None:
    executor = SwiftScript()
    stage = await a_swift_stage(executor)
    async with stage.running():
        await stage.grant(1, limit=SECOND, retry=RetryPolicy(max_retries=0))
        await stage.until_status(1, TIMEOUT)
        assert executor.stops == 1


@virtually
async def test_one_that_nobody_could_finish_later_ends_at_once() -> None:
    stage = await a_swift_stage(SwiftScript(Deferred()))
    async with stage.running():
        await stage.grant(1)
        await stage.until_status(1, FAILED)
        error = (await stage.task(1)).error
        assert error is not None
        assert error.code == "callbacks_off"


@virtually
async def test_an_executor_that_cannot_go_on_ends_the_worker_and_costs_no_retry() -> None:
    stage = await a_swift_stage(SwiftScript(error=FatalError("worn")))
    async with stage.running() as run:
        await stage.grant(1)
        await asyncio.wait({run})
        with pytest.raises(FatalError, match="worn"):
            run.result()
        assert (await stage.task(1)).state.retry_count == 0
