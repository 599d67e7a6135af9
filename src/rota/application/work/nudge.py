"""How one part of the worker wakes a loop of another: a flag that one loop waits for."""

import asyncio
from datetime import timedelta

from rota.application.ports.system import Clock


class Nudge:
    """A nudge that comes while nobody waits is kept, once. Only one loop may wait for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_given = False
        self._waiter: asyncio.Future[None] | None = None

    def give(self) -> None:
        self._is_given = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, longest: timedelta) -> None:
        """Wait for a nudge, but no longer than this: whoever waits looks for work either way."""
        if not self._is_given:
            await self._wait(longest)
        self._is_given = False

    async def _wait(self, longest: timedelta) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        sleeper = asyncio.ensure_future(self._clock.sleep(longest))
        try:
            await asyncio.wait((self._waiter, sleeper), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiter = None
            sleeper.cancel()
            await asyncio.gather(sleeper, return_exceptions=True)
