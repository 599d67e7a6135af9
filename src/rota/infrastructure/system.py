"""The real clock and real chance: the only place that reads them."""

import asyncio
import random
import time
from datetime import UTC, datetime, timedelta


class SystemClock:
    """This machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.sleep(duration.total_seconds())


class SystemRandom:
    """Chance for jitter and balance, never for a secret."""

    def chance(self) -> float:
        return random.random()
