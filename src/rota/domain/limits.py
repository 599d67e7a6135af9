"""Rates by token bucket. Pure values; the caller keeps them."""

from dataclasses import dataclass, replace

from rota.domain.errors import InvalidError

CLOCK_GRAIN = 1e-6  # seconds; a wait that is rounded down to the microsecond must not end too early


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBucket:
    """At most `rate` per second on average, `burst` at once. Time is any clock that only grows."""

    rate: float
    burst: float
    tokens: float
    filled_at: float

    @classmethod
    def full(cls, *, rate: float, burst: float, now: float) -> "TokenBucket":
        if not 0 < rate < float("inf"):
            raise InvalidError("rate", f"{rate} must be more than 0 per second")
        if not 1 <= burst < float("inf"):
            raise InvalidError("burst", f"{burst} must be at least 1")
        return cls(rate=rate, burst=burst, tokens=burst, filled_at=now)

    def take(self, wanted: int, *, now: float) -> tuple["TokenBucket", int]:
        """The bucket afterwards and how many of `wanted` are granted; a clock that went back adds nothing."""
        tokens = self._tokens_at(now)
        granted = min(wanted, int(tokens))
        return replace(self, tokens=tokens - granted, filled_at=max(now, self.filled_at)), granted

    def put_back(self, taken: int) -> "TokenBucket":
        """The bucket with tokens again that were taken for nothing."""
        return replace(self, tokens=min(self.tokens + taken, self.burst))

    def wait_for(self, wanted: int, *, now: float) -> float:
        """Seconds after which this many (at most the burst) can be had."""
        missing = min(wanted, int(self.burst)) - self._tokens_at(now)
        return missing / self.rate + CLOCK_GRAIN if missing > 0 else 0.0

    def _tokens_at(self, now: float) -> float:
        return min(self.tokens + max(now - self.filled_at, 0.0) * self.rate, self.burst)
