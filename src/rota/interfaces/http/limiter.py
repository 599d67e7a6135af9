"""How many requests each caller may make."""

from datetime import timedelta

from rota.application.ports.system import Clock
from rota.domain.errors import RateLimitedError
from rota.domain.limits import TokenBucket

MOST_CALLERS = 10_000  # beyond it the one that was new longest ago begins anew
BURST_SECONDS = 2  # what may come at once, as seconds of the rate


class RateLimiter:
    """A bucket for each caller; no rate, no limit."""

    def __init__(self, clock: Clock, rate: float | None) -> None:
        self._clock = clock
        self._rate = rate
        self._buckets: dict[str, TokenBucket] = {}

    def tune(self, rate: float | None) -> None:
        """Take over another rate; everybody begins anew."""
        if rate != self._rate:
            self._rate = rate
            self._buckets.clear()

    def take(self, caller: str) -> None:
        """Count one request, or raise `RateLimitedError`."""
        if self._rate is None:
            return
        now = self._clock.monotonic()
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._open(caller, self._rate, now=now)
        self._buckets[caller], granted = bucket.take(1, now=now)
        if not granted:
            raise RateLimitedError(timedelta(seconds=self._buckets[caller].wait_for(1, now=now)))

    def knows(self, caller: str) -> bool:
        """Whether this caller was counted before; without a rate nobody is."""
        return caller in self._buckets

    def _open(self, caller: str, rate: float, *, now: float) -> TokenBucket:
        if len(self._buckets) >= MOST_CALLERS:
            del self._buckets[next(iter(self._buckets))]
        return TokenBucket.full(rate=rate, burst=max(1.0, rate * BURST_SECONDS), now=now)
