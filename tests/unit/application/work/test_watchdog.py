"""A worker that is stuck ends itself."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from rota.application.loop import FatalError
from rota.application.work.hands import Hands
from rota.application.work.nudge import Nudge
from rota.application.work.settings import WorkerSettings
from rota.application.work.standing import Standing
from rota.application.work.watchdog import Watchdog
from rota.domain.attempt import Attempt
from rota.domain.ids import TaskId, WorkerId
from tests.support.builders import MINUTE, SECOND, a_config
from tests.support.clock import FakeClock
from tests.support.executors import Stubborn, never_end
from tests.support.virtual import virtually
from tests.support.worker_stage import Stage, a_stage


@virtually
async def test_a_loop_that_hangs_with_work_in_hand_ends_the_process() -> None:
    async def hang(task_ids: Sequence[TaskId]) -> frozenset[TaskId]:
        await asyncio.get_running_loop().create_future()
        return frozenset()

    stage = Stage(never_end)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        await stage.grant(1, limit=MINUTE * 60)
        await stage.until(lambda: stage.executor.running == 1)
        stage.coordinator.signals.find_cancelled = hang  # type: ignore[method-assign]  # a call that never returns
        with pytest.raises(FatalError, match=r"worker\.cancel"):
            await run
        assert stage.executor.running == 0
        assert not stage.executor.is_started


@virtually
async def test_slots_that_are_all_filled_with_attempts_that_do_not_stop_end_the_process() -> None:
    stubborn = Stubborn()
    stage = Stage(stubborn, capacity=2)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        await stage.grant(1, 2, limit=SECOND)
        with pytest.raises(FatalError, match="all slots"):
            await run
        stubborn.is_let_go = True
        await stage.pass_time(SECOND * 2)


@virtually
async def test_a_long_outage_is_no_reason_to_end() -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1, limit=MINUTE * 60)
        await stage.until(lambda: stage.executor.running == 1)
        stage.take_store_away()
        await stage.pass_time(MINUTE * 20)
        assert stage.executor.running == 1


async def test_a_process_that_stood_still_as_a_whole_is_not_stuck() -> None:
    watchdog, clock, hands = _watchdog()
    hands.take([Attempt(TaskId(1), 1, WorkerId(1))], WorkerId(1))
    watchdog.watch("worker.intake", _nothing)
    await watchdog.look()
    clock.advance(timedelta(hours=1))
    await watchdog.look()
    with pytest.raises(FatalError, match=r"stuck for 1[0-9][0-9] s"):  # the hour does not count, what follows does
        await _look_on(watchdog, clock)


async def test_an_idle_worker_is_not_stuck() -> None:
    watchdog, clock, hands = _watchdog()
    watchdog.watch("worker.intake", _nothing)
    await _look_on(watchdog, clock)
    hands.take([Attempt(TaskId(1), 1, WorkerId(1))], WorkerId(1))
    with pytest.raises(FatalError, match="stuck"):
        await _look_on(watchdog, clock)


async def _look_on(watchdog: Watchdog, clock: FakeClock) -> None:
    """Eight minutes in which no loop begins a turn."""
    for _ in range(100):
        clock.advance(timedelta(seconds=5))
        await watchdog.look()


def _watchdog() -> tuple[Watchdog, FakeClock, Hands]:
    clock = FakeClock()
    hands = Hands(Nudge())
    standing = Standing(WorkerSettings(name="worker-1"), nudges=(), on_capacity=lambda _: None)
    return Watchdog(clock, hands, standing), clock, hands


async def _nothing() -> None:
    pass
