"""Background loops that survive their own failures.

This is the one place that catches every exception: it logs it (what is repeated, once in a while), counts it, waits a
moment and goes on. A loop that cannot go on raises `FatalError`, which ends the process with a clear code, for its
supervisor to start it anew. `FencedError` passes through as well: the reign that the loop served is over, which is no
failure. And so does cancellation, always.

The loops that share a `Loops` are in step: what happens every second happens at the same moments, and what happens
every three seconds at some of them. To wake costs an idle process more than what it then does: one wake serves all.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from rota.application import metrics
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.system import Clock, Random
from rota.application.task_group import count_cancels
from rota.domain.errors import FencedError, RotaError, UnavailableError

FIRST_PAUSE = timedelta(milliseconds=100)
LONGEST_PAUSE = timedelta(seconds=2)  # what was away and is back is found no later than that
LOG_AGAIN_AFTER = timedelta(seconds=30)  # the same failure of the same loop
EARLY = 0.005  # seconds; a sleep may end so much before its time, and must not be begun anew for the rest

log = structlog.get_logger(__name__)


class FatalError(RotaError):
    """This process cannot go on; it must be started anew."""

    code = "fatal"


@dataclass(slots=True)
class _Failing:
    """A loop that fails time after time."""

    count: int = 0
    logged: type[Exception] | None = None  # what was last
    log_again_at: float = float("-inf")  # by the monotonic clock


@dataclass(slots=True)
class Loops:
    """Runs steps again and again, and knows when one of them was last left without an answer."""

    clock: Clock
    random: Random
    collector: MetricsCollector
    guard_every: timedelta = timedelta(0)
    unanswered_at: float = field(default=float("-inf"), init=False)  # by the monotonic clock
    _began_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._began_at = self.clock.monotonic()

    async def keep(self, name: str, step: Callable[[], Awaitable[object]], *, every: timedelta | None = None) -> None:
        """Repeat a step for ever, `every` so often, or at once where the step itself waits for something."""
        failing = _Failing()
        while True:
            began_at, told_to_end = self.clock.monotonic(), count_cancels()
            try:
                await step()
            except (FatalError, FencedError):
                raise
            except Exception as exc:
                if count_cancels() > told_to_end:
                    raise asyncio.CancelledError from exc  # it failed while it was being ended
                await self.clock.sleep(self._note_failure(name, exc, failing=failing))
            else:
                failing = _Failing()
                if every is not None:
                    await self.clock.sleep(self._until_next(every, began_at))

    def _note_failure(self, name: str, error: Exception, *, failing: _Failing) -> timedelta:
        """Count it, log it unless the same was logged lately, and say how long to pause."""
        now = self.clock.monotonic()
        failing.count += 1
        if isinstance(error, UnavailableError):
            self.unanswered_at = now
        self.collector.add(metrics.LOOP_FAILURES, name)
        pause = self._pause(failing.count)
        if type(error) is not failing.logged or now >= failing.log_again_at:
            failing.logged, failing.log_again_at = type(error), now + LOG_AGAIN_AFTER.total_seconds()
            log.warning(
                "loop.failed",
                loop=name,
                failures=failing.count,
                retry_in_s=round(pause.total_seconds(), 3),
                error=str(error),
                exc_info=not isinstance(error, RotaError),
            )
        return pause

    def guard(self, every: timedelta) -> timedelta:
        """How often to look for what nobody may tell, where it is `every` in a cluster."""
        return max(every, self.guard_every)

    def until_tick(self, every: timedelta) -> timedelta:
        """How long it is until all do what they do every so often; for steps that wait by themselves."""
        period, passed = max(every.total_seconds(), EARLY), self.clock.monotonic() - self._began_at
        ticks = (passed + EARLY) // period + 1
        return timedelta(seconds=ticks * period - passed)

    def _until_next(self, every: timedelta, began_at: float) -> timedelta:
        """To a tick, unless that is just to come, for some count on looks that are apart; never longer than `every`."""
        took = timedelta(seconds=self.clock.monotonic() - began_at)
        return max(self.until_tick(every), every / 2, min(took, every))

    def _pause(self, failures: int) -> timedelta:
        longest = min(FIRST_PAUSE * (1 << min(failures - 1, 10)), LONGEST_PAUSE)
        return longest * (0.5 + self.random.chance() / 2)
