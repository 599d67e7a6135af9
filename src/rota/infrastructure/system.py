"""The real clock, real chance and real ids: the only place that reads them. And the end of this very process."""

import asyncio
import os
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rota.application.ports.system import Clock
from rota.domain.ids import next_id

if TYPE_CHECKING:
    from rota.application.ports.store import SlotLease  # brings all along that stores keep, and clients need a clock

FAILURE = 1  # the exit code of a process that cannot go on


class SystemClock:
    """This machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.sleep(duration.total_seconds())


class BlockingClock:
    """The same where nothing is awaited: sleeping holds the thread."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, duration: timedelta) -> None:
        time.sleep(duration.total_seconds())


class SystemRandom:
    """Chance for jitter and balance, never for a secret."""

    def chance(self) -> float:
        return random.random()


class NodeIds:
    """Ids under a leased node slot, each greater than the last, also when the clock steps back."""

    def __init__(self, clock: Clock, lease: "SlotLease") -> None:
        self._clock = clock
        self._slot = lease.slot
        self._last = lease.floor

    def next(self) -> int:
        self._last = next_id(self._last, now=self._clock.now(), slot=self._slot)
        return self._last


def end_process() -> None:
    """End at once, from whatever thread: nothing is closed, since what would close it is stuck."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(FAILURE)
