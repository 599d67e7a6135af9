"""Loops that survive their own failures."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from rota.application import metrics
from rota.application.loop import LONGEST_PAUSE, FatalError, Loops
from rota.domain.errors import FencedError, RotaError, StoreUnavailableError
from rota.testing.virtual_time import VirtualClock
from tests.support.figures import Figures
from tests.support.marked import mark_as_cancelled
from tests.support.virtual import FixedChance, virtually

SECOND = timedelta(seconds=1)


class Steps:
    """A step that notes when it ran, and fails as told."""

    def __init__(self, *failures: BaseException | None) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.figures = Figures()
        self.loops = Loops(self.clock, FixedChance(0.0), self.figures)
        self.ran_at: list[float] = []
        self._failures = list(failures)

    async def __call__(self) -> None:
        self.ran_at.append(round(self.clock.monotonic(), 3))
        failure = self._failures.pop(0) if self._failures else None
        if failure is not None:
            raise failure

    async def run_for(self, seconds: float, every: timedelta | None = SECOND) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(self.loops.keep("steps", self, every=every), seconds)


@virtually
async def test_a_step_is_repeated_every_so_often() -> None:
    steps = Steps()
    await steps.run_for(3.5)
    assert steps.ran_at == [0, 1, 2, 3]


@virtually
async def test_loops_are_in_step_however_long_their_steps_take() -> None:
    steps = Steps()
    others: list[float] = []

    async def slow() -> None:
        others.append(round(steps.clock.monotonic(), 3))
        await steps.clock.sleep(timedelta(seconds=0.3))

    await steps.clock.sleep(timedelta(seconds=0.2))  # nor does it matter when they begin
    keeping = asyncio.ensure_future(steps.loops.keep("slow", slow, every=SECOND * 2))
    await steps.run_for(6.5)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert steps.ran_at == [0.2, 1, 2, 3, 4, 5, 6]
    assert others == [0.2, 2, 4, 6]


@virtually
async def test_a_slow_step_is_followed_by_a_pause_as_long() -> None:
    steps = Steps()
    began_at: list[float] = []

    async def slow() -> None:
        began_at.append(round(steps.clock.monotonic(), 3))
        await steps.clock.sleep(timedelta(seconds=0.9))

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(steps.loops.keep("slow", slow, every=SECOND), 5)
    assert began_at == [0, 1.8, 3.6]


@virtually
async def test_a_step_that_begins_right_before_a_tick_is_repeated_half_a_pause_later() -> None:
    steps = Steps()
    await steps.clock.sleep(timedelta(seconds=0.99))
    await steps.run_for(3)
    assert steps.ran_at == [0.99, 1.49, 2, 3]


@virtually
async def test_a_step_that_fails_while_it_is_being_ended_ends() -> None:
    steps = Steps()

    async def refuse_to_end() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as exc:
            raise RotaError("the last word was refused") from exc

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(steps.loops.keep("steps", refuse_to_end, every=SECOND), 1)
    assert steps.clock.monotonic() == pytest.approx(1)


@virtually
async def test_who_looks_cancelled_from_before_goes_on_after_a_failure() -> None:
    steps = Steps(StoreUnavailableError("away"), StoreUnavailableError("away"))

    async def keep() -> None:
        await mark_as_cancelled()
        await steps.loops.keep("steps", steps, every=SECOND)

    keeping = asyncio.create_task(keep())
    await steps.clock.sleep(timedelta(seconds=1.5))
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert steps.ran_at == [0, 0.05, 0.15, 1]


@virtually
async def test_loops_whose_wakes_come_late_run_nearly_as_often() -> None:
    steps = Steps()
    on_time = steps.clock.sleep

    async def sleep_longer(pause: timedelta) -> None:
        await on_time(pause + SECOND * 0.55)

    steps.clock.sleep = sleep_longer  # type: ignore[assignment, method-assign]
    await steps.run_for(12)
    assert max(later - sooner for sooner, later in pairwise(steps.ran_at)) < 1.6


@virtually
async def test_a_sleep_that_ends_a_moment_early_is_not_followed_by_another_for_the_rest() -> None:
    steps = Steps()
    await steps.clock.sleep(timedelta(seconds=2.999))
    assert steps.loops.until_tick(SECOND).total_seconds() == pytest.approx(1.001)


@virtually
async def test_a_step_that_waits_by_itself_is_repeated_at_once() -> None:
    steps = Steps()
    waits = 0

    async def step() -> None:
        nonlocal waits
        waits += 1
        await steps.clock.sleep(SECOND)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(steps.loops.keep("waits", step), 2.5)
    assert waits == 3


@virtually
async def test_after_a_failure_it_waits_longer_and_longer_and_is_counted() -> None:
    steps = Steps(*[StoreUnavailableError("away")] * 3, RuntimeError("broken"))
    await steps.run_for(0.9)
    assert steps.ran_at == [0, 0.05, 0.15, 0.35, 0.75]
    assert steps.figures.count(metrics.LOOP_FAILURES, "steps") == 4


@virtually
async def test_the_last_call_without_an_answer_is_known() -> None:
    steps = Steps(None, StoreUnavailableError("away"), RuntimeError("broken"))
    assert steps.loops.unanswered_at == float("-inf")
    await steps.run_for(3)
    assert steps.loops.unanswered_at == 1.0


@virtually
async def test_a_success_ends_the_row_of_failures() -> None:
    failure = StoreUnavailableError("away")
    steps = Steps(failure, failure, None, failure)
    await steps.run_for(1.3)
    assert steps.ran_at == [0, 0.05, 0.15, 1, 1.05]


@virtually
async def test_the_pause_has_a_bound_however_often_it_fails() -> None:
    steps = Steps(*[StoreUnavailableError("away")] * 2000)
    await steps.run_for(3600)
    pauses = [later - earlier for earlier, later in zip(steps.ran_at, steps.ran_at[1:], strict=False)]
    assert max(pauses) <= LONGEST_PAUSE.total_seconds()
    assert len(steps.ran_at) > 1000


@virtually
async def test_a_fatal_error_ends_the_loop() -> None:
    steps = Steps(FatalError("no way on"))
    with pytest.raises(FatalError):
        await steps.loops.keep("steps", steps)
    assert steps.figures.counts == {}


@virtually
async def test_the_end_of_a_reign_ends_the_loop_and_is_no_failure() -> None:
    steps = Steps(FencedError("term", seen=1, current=2))
    with pytest.raises(FencedError):
        await steps.loops.keep("steps", steps)
    assert steps.figures.counts == {}


@virtually
async def test_cancellation_passes_through() -> None:
    steps = Steps(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await steps.loops.keep("steps", steps)
    assert steps.figures.counts == {}


@virtually
async def test_a_failure_that_is_repeated_is_logged_once_in_a_while_and_counted_each_time() -> None:
    away = StoreUnavailableError("away")
    steps = Steps(*[away] * 100, ValueError("a defect"), *[away] * 5, None, away)
    with capture_logs() as logs:
        await steps.run_for(300, every=SECOND)
    said = [(line["error"], line["failures"]) for line in logs if line["event"] == "loop.failed"]
    assert [text for text, _ in said] == ["away", "away", "away", "away", "a defect", "away", "away"]
    assert [count for _, count in said[-3:]] == [101, 102, 1]
    assert steps.figures.count(metrics.LOOP_FAILURES, "steps") == 107
