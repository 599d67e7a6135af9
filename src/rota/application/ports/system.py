"""Time, chance and ids, passed in: a whole cluster can run on a virtual clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock in UTC, for what people read. It may step; never measure with it."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that only grows, for deadlines and trust windows."""
        ...

    async def sleep(self, duration: timedelta) -> None:
        """Wait; cancellation passes through."""
        ...


class Random(Protocol):
    def chance(self) -> float:
        """A number in [0, 1)."""
        ...


class Ids(Protocol):
    def next(self) -> int:
        """A new 63-bit id, greater than every one this node issued before."""
        ...


@dataclass(frozen=True, slots=True)
class System:
    """The world outside: its time and its chance."""

    clock: Clock
    random: Random
    guard_every: timedelta = timedelta(0)
    """No more often than this is looked for what others may have failed to tell; in one process nothing is lost."""
