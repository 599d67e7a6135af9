"""When a failed attempt is tried again."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from rota.domain.checks import check_duration, check_number
from rota.domain.errors import InvalidError

MAX_RETRIES = 1000


class RetryStrategy(StrEnum):
    FIXED = "FIXED"
    EXPONENTIAL = "EXPONENTIAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and after which pause a task is tried again."""

    max_retries: int = 3
    strategy: RetryStrategy = RetryStrategy.EXPONENTIAL
    delay: timedelta = timedelta(seconds=10)
    backoff_rate: float = 2.0
    max_delay: timedelta = timedelta(hours=1)
    jitter: float = 0.1  # the share of the pause that chance may take away, 0..1

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, RetryStrategy):
            raise InvalidError("retry.strategy", f"{self.strategy!r} must be FIXED or EXPONENTIAL")
        check_number("retry.max_retries", self.max_retries, least=0, most=MAX_RETRIES)
        check_duration("retry.delay_seconds", self.delay)
        check_duration("retry.max_delay_seconds", self.max_delay, least=self.delay)
        if not 1.0 <= self.backoff_rate <= 100.0:
            raise InvalidError("retry.backoff_rate", f"{self.backoff_rate} is not between 1 and 100")
        if not 0.0 <= self.jitter <= 1.0:
            raise InvalidError("retry.jitter", f"{self.jitter} is not between 0 and 1")

    def allows(self, retry_count: int) -> bool:
        """Whether another try is left after this many retries."""
        return retry_count < self.max_retries

    def delay_before(self, retry: int, *, chance: float) -> timedelta:
        """The pause before retry 1, 2, …; `chance` in [0, 1) spreads it downwards by up to `jitter`."""
        return min(self._full_delay(retry), self.max_delay) * (1.0 - self.jitter * chance)

    def _full_delay(self, retry: int) -> timedelta:
        if self.strategy is RetryStrategy.FIXED or not self.delay:
            return self.delay
        try:
            return self.delay * self.backoff_rate ** (retry - 1)
        except OverflowError:
            return self.max_delay


STANDARD_RETRY = RetryPolicy()
