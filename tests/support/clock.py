"""A clock that a test moves by hand: seconds pass at once, and always in the same order."""

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

START = datetime(2030, 6, 1, 12, tzinfo=UTC)
SETTLE_ROUNDS = 50  # turns of the loop; a chain of tasks that wake each other without I/O is much shorter


class FakeClock:
    """Wall and monotonic time that stand still until moved. Whoever sleeps is woken in the order of the deadlines."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._passed = timedelta(0)
        self._order = itertools.count()  # among equal deadlines, who slept first wakes first
        self._sleepers: list[tuple[timedelta, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._start + self._passed

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    async def sleep(self, duration: timedelta) -> None:
        if duration <= timedelta(0):
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed + duration, next(self._order), woken))
        await woken

    def advance(self, duration: timedelta) -> None:
        """Move on, and wake everyone whose time has come; they run when the caller next awaits."""
        self._passed += duration
        while self._sleepers and self._sleepers[0][0] <= self._passed:
            _wake(heapq.heappop(self._sleepers)[2])

    async def run(self, duration: timedelta) -> None:
        """Move on from sleeper to sleeper, and let each act at the very moment it slept until."""
        end = self._passed + duration
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self.advance(self._sleepers[0][0] - self._passed)
            await settle()
        self.advance(end - self._passed)
        await settle()


async def settle() -> None:
    """Let everything that can run without time passing run."""
    for _ in range(SETTLE_ROUNDS):
        await asyncio.sleep(0)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():  # it may have been cancelled
        sleeper.set_result(None)
