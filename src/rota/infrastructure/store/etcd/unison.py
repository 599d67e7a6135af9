"""Signs of life that come together.

What an etcd is told at once it writes to its disk at once, and whatever comes alone costs a write of the log, and often
one of the tree, for itself. Processes that say that they live come alone, each at a moment of its own. So they wait for
the next quarter of a second by the clock, which the clocks of all nodes have in common as far as they agree; where they
do not, nothing is gained, and nothing lost.

A sign waits no longer than a tenth of the time since the last one: whoever speaks often, or is in a hurry, is not held
up by more than it can do without.
"""

from datetime import UTC, datetime, timedelta

from rota.application.ports.system import Clock

GRAIN = timedelta(milliseconds=250)
SHARE = 10
_EPOCH = datetime.fromtimestamp(0, UTC)


class Unison:
    """One process among those that speak together."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}  # when each sign was given, by the monotonic clock

    async def join_in(self, sign: str) -> None:
        """Return when it is time to give a sign of this name."""
        pause = GRAIN - (self._clock.now() - _EPOCH) % GRAIN
        since = self._clock.monotonic() - self._last.get(sign, self._clock.monotonic())
        if pause.total_seconds() * SHARE <= since:
            await self._clock.sleep(pause)
        self._last[sign] = self._clock.monotonic()
