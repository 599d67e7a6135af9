"""Whether this worker's tasks are still its own, as far as it can know without asking anybody.

The leader gives a worker up when neither the pool nor the store has heard of it for a lease. A worker that is heard by
neither cannot be told so; but it can count. From when it *sent* the last heartbeat that one took, a lease has not
passed for it before it has passed for them. So it stops what it runs in time for the attempts to have ended by then,
softly and then hard, and begins nothing until it is heard again (ADR-0030).

A process that itself stood still (a blocked event loop, SIGSTOP) could not send any. It asks first, for a moment.

What it stopped is handed back when the store is there again: if everybody was cut off, nobody has taken those attempts
away, and no worker was lost. If somebody has, the store refuses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

import structlog

from rota.application.loop import Loops
from rota.application.ports.system import Clock
from rota.application.work.hands import Hands, Stop
from rota.application.work.nudge import Nudge
from rota.application.work.running import Running

LOOK_EVERY = timedelta(seconds=1)
GRAIN = 0.001  # seconds; no wait is exact, and one for less than a clock can tell would be none at all
STOOD_STILL = 1.0  # seconds; a sleep that takes so much longer than it should was not a sleep of this loop alone
ANSWER_WITHIN = timedelta(seconds=2)
NEVER = float("-inf")

log = structlog.get_logger(__name__)


class Witness(StrEnum):
    """Who takes a heartbeat. The deputy speaks from another thread, so each has a place of its own."""

    POOL = "pool"
    REGISTRY = "registry"
    DEPUTY = "deputy"


class Lease:
    """How long the worker may act as the one it was when it was last heard."""

    def __init__(self, clock: Clock, *, lasts: timedelta) -> None:
        self._clock = clock
        self._lasts = lasts.total_seconds()
        self._sent_at = dict.fromkeys(Witness, NEVER)  # its keys never change: it is read while the deputy writes

    @property
    def left(self) -> float:
        """Seconds; none: the tasks of this worker may be somebody else's."""
        return max(self._sent_at.values()) + self._lasts - self._clock.monotonic()

    @property
    def is_held(self) -> bool:
        return self.left > 0

    def renew(self, witness: Witness, sent_at: float) -> None:
        """A heartbeat was taken that was sent then, by the monotonic clock."""
        self._sent_at[witness] = sent_at


@dataclass(frozen=True, slots=True)
class StopUnheard:
    """The loop that stops everything when the lease is over."""

    lease: Lease
    hands: Hands
    running: Running
    loops: Loops
    beats: Sequence[Nudge]  # those who send heartbeats

    async def __call__(self) -> None:
        """One turn of the loop."""
        pause, left = self.loops.until_tick(self.loops.guard(LOOK_EVERY)), self.lease.left
        if await self._oversleeps(min(pause, timedelta(seconds=max(left, GRAIN))) if left > 0 else pause):
            for nudge in self.beats:
                nudge.give()
            await self.loops.clock.sleep(ANSWER_WITHIN)
        if not self.lease.is_held:
            self._stop()

    async def _oversleeps(self, pause: timedelta) -> bool:
        clock = self.loops.clock
        began_at = clock.monotonic()
        await clock.sleep(pause)
        return clock.monotonic() - began_at > pause.total_seconds() + STOOD_STILL

    def _stop(self) -> None:
        running = [holding for holding in self.hands.running.values() if holding.stop is None]
        if running:
            log.error("worker.lease_lost", running=len(running), first_task_id=running[0].attempt.task_id)
            self.running.stop_all(Stop.UNHEARD)
