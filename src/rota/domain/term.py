"""One reign of a leader.

The number is issued by the store, strictly growing. The trust window runs on the leader's own monotonic clock from the
moment it *asked*, so neither a slow reply nor a pause can stretch it: when it is over, the leader acts no more.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    number: int
    trusted_until: float  # on the leader's monotonic clock

    @classmethod
    def won(cls, number: int, *, asked_at: float, ttl: float, margin: float) -> "Term":
        """The term of a campaign or renewal that was asked for at `asked_at`."""
        return cls(number, trusted_until=asked_at + max(ttl - margin, 0.0))

    def is_trusted(self, monotonic: float) -> bool:
        return monotonic < self.trusted_until
