"""Background loops that survive their own failures.

This is the one place that catches every exception: it logs it, counts it, waits a moment and goes on. A loop that
cannot go on raises `FatalError`, which ends the process with a clear code, for its supervisor to start it anew.
`FencedError` passes through as well: the reign that the loop served is over, which is no failure. And so does
cancellation, always.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from rota.application import metrics
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.system import Clock, Random
from rota.domain.errors import FencedError, RotaError, UnavailableError

FIRST_PAUSE = timedelta(milliseconds=100)
LONGEST_PAUSE = timedelta(seconds=2)  # what was away and is back is found no later than that

log = structlog.get_logger(__name__)


class FatalError(RotaError):
    """This process cannot go on; it must be started anew."""

    code = "fatal"


@dataclass(slots=True)
class Loops:
    """Runs steps again and again, and knows when one of them was last left without an answer."""

    clock: Clock
    random: Random
    collector: MetricsCollector
    unanswered_at: float = field(default=float("-inf"), init=False)  # by the monotonic clock

    async def keep(self, name: str, step: Callable[[], Awaitable[object]], *, every: timedelta | None = None) -> None:
        """Repeat a step for ever, `every` so often, or at once where the step itself waits for something."""
        failures = 0
        while True:
            try:
                await step()
            except (FatalError, FencedError):
                raise
            except Exception as exc:
                failures += 1
                if isinstance(exc, UnavailableError):
                    self.unanswered_at = self.clock.monotonic()
                self.collector.add(metrics.LOOP_FAILURES, name)
                pause = self._pause(failures)
                log.warning(
                    "loop.failed",
                    loop=name,
                    failures=failures,
                    retry_in_s=round(pause.total_seconds(), 3),
                    error=str(exc),
                    exc_info=not isinstance(exc, RotaError),
                )
                await self.clock.sleep(pause)
            else:
                failures = 0
                if every is not None:
                    await self.clock.sleep(every)

    def _pause(self, failures: int) -> timedelta:
        longest = min(FIRST_PAUSE * (1 << min(failures - 1, 10)), LONGEST_PAUSE)
        return longest * (0.5 + self.random.chance() / 2)
