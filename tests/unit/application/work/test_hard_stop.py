"""Attempts that are ended without any grace."""

import asyncio

import pytest

from rota.application.ports.executor import HARD_STOP, Job, Reports
from rota.domain.attempt import Outcome, Succeeded
from rota.domain.ids import TaskId
from rota.domain.worker import kill_mark
from tests.support.builders import MINUTE, SECOND
from tests.support.virtual import virtually
from tests.support.worker_stage import a_stage


@pytest.mark.parametrize("is_hard", [True, False])
def test_an_executor_is_told_when_there_is_no_grace(is_hard: bool) -> None:
    told: list[bool] = []

    async def listen(job: Job, reports: Reports) -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as exc:
            told.append(HARD_STOP in exc.args)
            raise
        return Succeeded()

    @virtually
    async def scene() -> None:
        async with a_stage(listen) as stage:
            await stage.grant(1)
            await stage.until(lambda: stage.executor.running == 1)
            if is_hard:
                await stage.coordinator.signals.request_cancel([kill_mark(TaskId(1))], ttl=MINUTE)
            await stage.cancel(1)
            await stage.until_free(within=SECOND)

    scene()
    assert told == [is_hard]
