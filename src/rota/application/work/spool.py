"""Results that the store could not take yet, kept where a restart of the process finds them.

A result is kept as the very step that is to be written, computed once: sent again, by this process or the next, it is
recognised as a repeat, or refused as stale when the task has moved on. So it may be delivered any number of times.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from rota.domain.attempt import Attempt
from rota.domain.task import Transition

MOST_RESULTS = 10_000  # in memory; more is refused by taking no new work


class Result(Struct, frozen=True, gc=False):
    """The end of one attempt, as it is to be written, with its fence."""

    attempt: Attempt
    type: str
    step: Transition


class Spool(Protocol):
    """Bounded by its user: who sees no room takes no new work, so it grows by what is in hand then and no more."""

    @property
    def has_room(self) -> bool:
        """Whether the bound is not reached."""
        ...

    async def append(self, results: Sequence[Result]) -> None:
        """Keep results; when it returns they survive the end of the process, if this spool can do that.

        Raises `UnavailableError` when they could not be kept."""
        ...

    async def read(self) -> list[Result]:
        """All that is kept, oldest first. What cannot be read (a torn last line) is left out."""
        ...

    async def clear(self) -> None:
        """Everything was delivered: forget it."""
        ...


class MemorySpool:
    """Ends with the process: what was not delivered by then is run again after the worker's lease."""

    def __init__(self, most: int = MOST_RESULTS) -> None:
        self._most = most
        self._results: list[Result] = []

    @property
    def has_room(self) -> bool:
        return len(self._results) < self._most

    async def append(self, results: Sequence[Result]) -> None:
        self._results.extend(results)

    async def read(self) -> list[Result]:
        return list(self._results)

    async def clear(self) -> None:
        self._results.clear()
