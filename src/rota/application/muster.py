"""Asking for the workers and for how busy they are, as every dispatch round begins.

Two rounds need not ask. Before a task that comes alone the workers are asked for in advance, while there is nothing to
do. And after a round that left room for another whole batch, they are known without asking: as they were, with what
they were given since. Either counts once, while nobody comes or goes. In both cases they have at least the room that is
known of: nobody else gives them work, or the places are not to be had.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from rota.application.crew import Crew
from rota.application.places import Places
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.system import Clock

KEPT = timedelta(seconds=2)  # a worker whose lease runs out meanwhile is noticed no later than that
JUST_NOW = timedelta(milliseconds=25)  # every attempt that ends wakes the leader: not each time are they asked for anew
ESTIMATE_KEPT = timedelta(milliseconds=200)  # what ends meanwhile is not counted, and must not mislead a balancer long


@dataclass(frozen=True, slots=True)
class _Kept:
    """The workers, known before the round that needs them."""

    crew: Crew
    changes: int  # of the pool, when they were asked for
    until: float  # by the monotonic clock


@dataclass(slots=True)
class Muster:
    coordinator: Coordinator
    clock: Clock
    places: Places | None = None  # where several dispatch at once
    _trust_loads_at: float = field(default=float("-inf"), init=False)  # by the monotonic clock
    _asked_at: float = field(default=float("-inf"), init=False)
    _changes: int | None = field(default=None, init=False)  # of the pool, as they were known when it was asked
    _kept: _Kept | None = field(default=None, init=False)

    def distrust_loads(self, period: timedelta) -> None:
        """For a while the coordinator may not know what the workers run: what they report counts too."""
        self._trust_loads_at = self.clock.monotonic() + period.total_seconds()
        self._kept = None

    async def __call__(self, changes: int | None = None) -> Crew:
        """Ask now. `changes` are those of the pool that are known; if they are not counted, nobody could tell later
        whether the workers are still the same."""
        self._kept, self._asked_at, self._changes = None, self.clock.monotonic(), changes
        workers, loads = await asyncio.gather(self.coordinator.pool.list_alive(), self.coordinator.queue.loads())
        if self.places is not None:
            self.places.note(loads)
        return Crew.gather(workers, loads, are_loads_trusted=self._are_loads_trusted)

    async def ask_ahead(self, changes: int | None) -> None:
        """For the next round, unless that was done just now."""
        known = self._kept is not None and self._kept.changes == changes
        if changes is None or (known and self.clock.monotonic() < self._asked_at + JUST_NOW.total_seconds()):
            return
        self._kept = None
        self._keep(await self(changes), lasting=KEPT)

    def estimate(self, crew: Crew) -> None:
        """Keep for the next round what is left of the workers that were asked for last."""
        if self._are_loads_trusted:
            self._keep(crew, lasting=ESTIMATE_KEPT)

    def use_kept(self, changes: int | None, *, wanted: int) -> Crew | None:
        """The workers that are known, once, if none has come or gone since and they have room for so many."""
        kept, self._kept = self._kept, None
        if kept is None or kept.changes != changes or kept.until < self.clock.monotonic() or kept.crew.room < wanted:
            return None
        return kept.crew

    def forget(self) -> None:
        """Ask anew, whatever is known."""
        self._kept = None

    @property
    def _are_loads_trusted(self) -> bool:
        return self.clock.monotonic() >= self._trust_loads_at

    def _keep(self, crew: Crew, *, lasting: timedelta) -> None:
        if self._changes is not None:
            self._kept = _Kept(crew, self._changes, self._asked_at + lasting.total_seconds())
