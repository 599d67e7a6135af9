"""Asking for the workers and for how busy they are, as every dispatch round begins."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from rota.application.crew import Crew
from rota.application.places import Places
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.system import Clock


@dataclass(slots=True)
class Muster:
    coordinator: Coordinator
    clock: Clock
    places: Places | None = None  # where several dispatch at once
    _trust_depths_at: float = field(default=float("-inf"), init=False)  # by the monotonic clock

    def distrust_depths(self, period: timedelta) -> None:
        """For a while the coordinator may not know what the workers run: what they report counts too."""
        self._trust_depths_at = self.clock.monotonic() + period.total_seconds()

    async def __call__(self) -> Crew:
        workers, depths = await asyncio.gather(self.coordinator.pool.list_alive(), self.coordinator.queue.depths())
        if self.places is not None:
            self.places.note(depths)
        return Crew.gather(workers, depths, are_depths_trusted=self.clock.monotonic() >= self._trust_depths_at)
