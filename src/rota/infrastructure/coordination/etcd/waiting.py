"""Waiting for news that a watch brings, with a slow look of one's own as the net."""

from collections.abc import AsyncIterator
from datetime import timedelta

from rota.application.ports.system import Clock

LONGEST_WATCH = timedelta(seconds=5)  # then one looks again: a watch is a hint
NOTHING = timedelta(0)


class Patience:
    """Deadlines on the node's own clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def until(self, wait: timedelta) -> AsyncIterator[timedelta]:
        """How long to watch after each look, until the wait is over; the last one is zero: look once more."""
        end = self._clock.monotonic() + wait.total_seconds()
        while True:
            left = max(timedelta(seconds=end - self._clock.monotonic()), NOTHING)
            yield min(left, LONGEST_WATCH)
            if not left:
                return
