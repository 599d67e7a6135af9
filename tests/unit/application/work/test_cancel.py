"""Attempts that are stopped because their task was cancelled, or moved on without them."""

from collections.abc import Sequence

import pytest

from rota.application import metrics
from rota.domain.ids import TaskId
from rota.domain.task import CANCELLED
from tests.support.builders import EMAIL, MINUTE, SECOND
from tests.support.executors import never_end
from tests.support.virtual import virtually
from tests.support.worker_stage import a_stage


@virtually
async def test_a_cancelled_task_is_stopped_within_a_second() -> None:
    async with a_stage(never_end) as stage:
        [attempt] = await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        await stage.cancel(1)
        await stage.until(lambda: stage.executor.stopped == [attempt], within=SECOND)
        await stage.until_free(within=SECOND)
        assert await stage.statuses([1]) == {CANCELLED}
        assert await stage.in_flight() == []
        assert stage.figures.count(metrics.ATTEMPTS_ENDED, EMAIL, "cancelled") == 1
        assert stage.figures.count(metrics.STALE_RESULTS, EMAIL) == 0


@virtually
async def test_a_cancelled_task_whose_signal_was_lost_is_stopped_all_the_same() -> None:
    async with a_stage(never_end) as stage:
        cancelled, kept = await stage.grant(1, 2, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 2)
        state = (await stage.task(1)).state
        await stage.store.tasks.advance([state.cancelled("by test", at=stage.clock.now())])
        await stage.until(lambda: stage.executor.stopped == [cancelled], within=SECOND * 11)
        await stage.pass_time(MINUTE)
        assert stage.executor.stopped == [cancelled]
        assert await stage.in_flight() == [kept]
        assert stage.worker.load == 1


@virtually
async def test_a_cancel_that_was_meant_for_an_earlier_attempt_stops_nothing() -> None:
    async with a_stage(never_end) as stage:
        await stage.coordinator.signals.request_cancel([TaskId(1)], ttl=MINUTE)
        await stage.grant(1)
        await stage.pass_time(SECOND * 5)
        assert stage.executor.stopped == []


@virtually
async def test_one_that_runs_nothing_looks_for_its_orders_alone_and_half_as_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_stage(never_end) as stage:
        asked: list[int] = []
        find_cancelled = stage.coordinator.signals.find_cancelled

        async def find(task_ids: Sequence[TaskId]) -> frozenset[TaskId]:
            asked.append(len(task_ids))
            return await find_cancelled(task_ids)

        monkeypatch.setattr(stage.coordinator.signals, "find_cancelled", find)
        await stage.pass_time(SECOND * 10)
        assert asked == [1] * 10
        await stage.grant(1, limit=MINUTE)
        await stage.until(lambda: stage.executor.running == 1)
        asked.clear()
        await stage.pass_time(SECOND * 10)
        assert asked == [2] * 20
