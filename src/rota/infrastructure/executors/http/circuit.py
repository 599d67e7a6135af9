"""One target as this worker knows it: how many requests it has in hand, and whether it answers a tenant at all.

The circuit is closed while the target answers. After so many failures in a row it opens: attempts fail at once, and no
request is made. When the pause is over one attempt is let through as a probe; its end closes the circuit or opens it
again. What counts as failure is that nobody answers, or a proxy says so (502, 503, 504); any other status is an answer.
"""

import asyncio
from collections import deque
from datetime import timedelta

from rota.application.ports.system import Clock


class Slots:
    """Room for requests. Each brings the limit that its config sets; the first one that this leaves room is served."""

    def __init__(self) -> None:
        self.in_use = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, limit: int) -> None:
        """Wait for room; whoever got it must `free` it."""
        if self.in_use >= limit:  # who waits has no room either, or would not wait
            await self._wait(limit)
        else:
            self.in_use += 1

    def free(self) -> None:
        self.in_use -= 1
        if self._waiting:
            self._serve()

    async def _wait(self, limit: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (limit, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(entry)
            else:
                self.free()  # the slot was given at the very moment of the cancel
            raise

    def _serve(self) -> None:
        while entry := next((entry for entry in self._waiting if self._has_room(entry)), None):
            self._waiting.remove(entry)
            self.in_use += 1
            entry[1].set_result(None)

    def _has_room(self, entry: tuple[int, asyncio.Future[None]]) -> bool:
        limit, turn = entry
        return self.in_use < limit and not turn.cancelled()


class Circuit:
    """Whether requests to a target make sense now."""

    def __init__(self, clock: Clock, *, failures: int, pause: timedelta) -> None:
        self._clock = clock
        self._most = failures
        self._pause = pause.total_seconds()
        self._failures = 0
        self._open_until: float | None = None
        self._is_probing = False
        self._usual = Trial(self, is_probe=False)

    @property
    def is_closed(self) -> bool:
        return self._open_until is None

    def admit(self) -> "Trial | None":
        """A request that may be made, or None."""
        if self._open_until is None:
            return self._usual
        if self._is_probing or self._clock.monotonic() < self._open_until:
            return None
        self._is_probing = True
        return Trial(self, is_probe=True)

    def left(self) -> timedelta:
        """Until the next probe."""
        until = self._open_until or 0.0
        return timedelta(seconds=max(until - self._clock.monotonic(), 0.0))

    def close(self) -> None:
        self._failures, self._open_until, self._is_probing = 0, None, False

    def count_failure(self, *, is_probe: bool) -> None:
        self._failures += 1
        if is_probe or (self._failures >= self._most and not self._is_probing):
            self._open_until, self._is_probing = self._clock.monotonic() + self._pause, False

    def end_probe(self) -> None:
        self._is_probing = False


class Trial:
    """A request that was admitted, and what it says of its target. One of before the opening ends nobody's probe."""

    def __init__(self, circuit: Circuit, *, is_probe: bool) -> None:
        self._circuit = circuit
        self._is_probe = is_probe

    def note(self, *, is_answered: bool) -> None:
        self._circuit.close() if is_answered else self._circuit.count_failure(is_probe=self._is_probe)

    def abandon(self) -> None:
        """It ended for a reason that says nothing of the target."""
        if self._is_probe:
            self._circuit.end_probe()
