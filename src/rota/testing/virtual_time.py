"""An event loop on which time passes at once.

Whenever nothing can run, the loop's clock jumps to the next timer instead of waiting for it: an hour of retries takes
milliseconds, and always in the same order. Everything on asyncio takes part (`sleep`, `wait_for`, timeouts). Real I/O
and threads do not: while one is awaited, time would run away; use the memory adapters.
"""

import asyncio
import math
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

START = datetime(2030, 6, 1, 12, tzinfo=UTC)

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting, notes how long the loop would have waited."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everything waits and nothing will ever happen: a deadlock on virtual time")
        if not ready and timeout is not None and timeout > 0:
            self.skipped += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop whose time is virtual."""

    def __init__(self) -> None:
        self._jumps = _JumpingSelector()
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.skipped

    @property
    def _clock_resolution(self) -> float:
        """What asyncio adds to the time to find what is due. Its nanosecond is lost in the rounding after half a year,
        and a timer that is due would never run: here it is the least that makes a difference, now."""
        return math.ulp(self._jumps.skipped)

    @_clock_resolution.setter
    def _clock_resolution(self, value: float) -> None:
        """asyncio sets what the real clock has."""


class VirtualClock:
    """The clock of a `VirtualLoop`; make it on any loop, read it on that one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: datetime = START) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.sleep(duration.total_seconds())  # noqa: TID251 virtual on this loop


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
