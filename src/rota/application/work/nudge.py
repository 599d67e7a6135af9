"""How one part of the worker wakes a loop of another: a flag that one loop waits for."""

import asyncio
from datetime import timedelta


class Nudge:
    """A nudge that comes while nobody waits is kept, once. Only one loop may wait for it.

    The wait is a timer of the event loop, not a task that sleeps: of a small batch each loop waits once for each step,
    and to begin and end such a task took as long as the step."""

    def __init__(self) -> None:
        self._is_given = False
        self._waiter: asyncio.Future[None] | None = None

    def give(self) -> None:
        self._is_given = True
        _end(self._waiter)

    async def wait(self, longest: timedelta) -> None:
        """Wait for a nudge, but no longer than this: whoever waits looks for work either way."""
        if not self._is_given:
            await self._wait(longest)
        self._is_given = False

    async def _wait(self, longest: timedelta) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        over = loop.call_later(longest.total_seconds(), _end, self._waiter)
        try:
            await self._waiter
        finally:
            over.cancel()
            self._waiter = None


def _end(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
