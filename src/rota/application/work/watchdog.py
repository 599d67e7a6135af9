"""The commonest failure is not a crash but a silent stall: a process that is up and does nothing.

Every loop of the worker begins a new turn every half a minute or sooner, also while the store or the coordinator is
away. One that does not, while there is work in hand, is stuck in a call that never returns; and a worker whose every
slot is filled with attempts that do not end when they are stopped will never run anything again. Both end the process,
for its supervisor.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from rota.application.loop import FatalError
from rota.application.ports.system import Clock
from rota.application.work.hands import Hands
from rota.application.work.standing import Standing

LOOK_EVERY = timedelta(seconds=5)
STUCK_AFTER = 120.0  # seconds; the longest turn is a call with its deadline and repeats, tens of seconds
PAUSE = 4 * LOOK_EVERY.total_seconds()  # a look that is this late: the whole process stood still, not one loop


@dataclass(slots=True)
class Watchdog:
    clock: Clock
    hands: Hands
    standing: Standing
    _turns: dict[str, float] = field(default_factory=dict)
    _looked_at: float | None = None

    def watch(self, name: str, step: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
        """The same step, whose turns are noted."""

        async def turn() -> None:
            self._turns[name] = self.clock.monotonic()
            await step()

        self._turns[name] = self.clock.monotonic()
        return turn

    async def look(self) -> None:
        """`FatalError` when the worker is stuck."""
        now = self.clock.monotonic()
        stood_still = self._looked_at is not None and now - self._looked_at > PAUSE
        self._looked_at = now
        if stood_still or not self.hands.load:
            self._turns = dict.fromkeys(self._turns, now)
            return
        for name, began_at in self._turns.items():
            if now - began_at > STUCK_AFTER:
                raise FatalError(f"{name} has been stuck for {now - began_at:.0f} s with work in hand")
        self._check_slots(now)

    def _check_slots(self, now: float) -> None:
        running = self.hands.running.values()
        stuck = [holding for holding in running if holding.stop is not None and now - holding.stopped_at > STUCK_AFTER]
        if len(stuck) >= self.standing.capacity:
            raise FatalError(f"all slots are filled with {len(stuck)} attempts that were stopped and do not end")
