"""When a failed attempt is tried again.

Which failures are worth another try, the policy can say by a list of matchers. One is matched against the code of the
error: `503` and `5xx` mean `http_503` and all of its hundred, `UNAVAILABLE` means `grpc_unavailable`, and anything else
is the code itself or, where that is the qualified name of an exception, the last part of it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from rota.domain.checks import check_duration, check_number, check_text
from rota.domain.errors import InvalidError
from rota.domain.spelling import find_near

MAX_RETRIES = 1000
MAX_MATCHERS = 32  # in one list
MAX_MATCHER = 200  # characters: as long as the code of an error may be
SHORTEST_TOTAL = timedelta(milliseconds=1)
ASKED = "retry"  # the code of a task that asks to be tried again
UNTRIED = "circuit_open"  # nothing was called: it says nothing of the failures that the policy names
GRPC_CODES = (
    *("CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED"),
    *("INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)
OWN_CODES = (  # of failures that executors of Rota tell
    *("timeout", "rate_limited", "executor_error", "worker_process_died", "worker_process_slow", "function_not_found"),
    *("bad_payload", "bad_result", "result_too_large", "bad_function", "app_broken", "task_loop_died", "poison"),
    *("connection_failed", "connect_timeout", "response_timeout", "dns_failed", "tls_failed", "bad_response"),
    *("response_too_large", "redirected", "target_refused", "target_unknown", "callbacks_off", ASKED, UNTRIED),
)
ALIKE, NEARLY_SAME = 0.75, 0.9  # services have codes of their own, which may look a little like ours
_HTTP_CODE = re.compile(r"http_[1-5][0-9]{2}")
_HTTP_LIKE = re.compile(r"([A-Za-z]{3,6})[_-]?([1-5](?:[0-9]{2}|xx))")
_STATUS = re.compile(r"[1-5]([0-9]{2}|xx)")
_GRPC = re.compile(r"[A-Z]+(_[A-Z]+)*")
_CODE = re.compile(r"[^\W\d][\w.<>-]*")


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
    retry_on: tuple[str, ...] = ()  # only these failures are tried again; empty: those that can be
    give_up_on: tuple[str, ...] = ()  # these never are
    total_timeout: timedelta | None = None  # for all attempts and pauses together

    def __post_init__(self) -> None:
        for name in ("retry_on", "give_up_on"):
            object.__setattr__(self, name, check_matchers(f"retry.{name}", getattr(self, name)))
        if self.total_timeout is not None:
            check_duration("retry.total_timeout_seconds", self.total_timeout, least=SHORTEST_TOTAL)
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

    def wants(self, code: str, *, is_retryable: bool) -> bool:
        """Whether a failure with this code is worth another try; `is_retryable` is what its executor thinks.

        To give up wins. A task that asks to be tried again itself, or was not tried at all, needs no matcher for that.
        """
        if any(_matches(matcher, code) for matcher in self.give_up_on):
            return False
        if not self.retry_on or code in (ASKED, UNTRIED):
            return is_retryable
        return any(_matches(matcher, code) for matcher in self.retry_on)

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


def check_matchers(field: str, given: Sequence[str]) -> tuple[str, ...]:
    """Which failures are meant, each in a form that can match one."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidError(field, "must be a list, such as ['503', 'UNAVAILABLE', 'ConnectionError']")
    if len(given) > MAX_MATCHERS:
        raise InvalidError(field, f"has {len(given)} entries, at most {MAX_MATCHERS} are allowed")
    return tuple(_check_matcher(f"{field}[{place}]", matcher) for place, matcher in enumerate(given))


def _check_matcher(field: str, given: object) -> str:
    matcher = check_text(field, given, longest=MAX_MATCHER)
    if not _STATUS.fullmatch(matcher) and not _CODE.fullmatch(matcher):
        kinds = "an HTTP status (503, 5xx), a gRPC code (UNAVAILABLE), an exception (ValueError) or an error code"
        raise InvalidError(field, f"{matcher!r} is not {kinds}")
    return matcher


def check_spelling(field: str, matchers: Sequence[str]) -> tuple[str, ...]:
    """Refuse what is a name that Rota knows but for a slip: it would match nothing, and nobody would notice.

    For what people write now; what a store kept is read as it is.
    """
    for place, matcher in enumerate(matchers):
        meant = _find_meant(matcher)
        if meant is not None:
            raise InvalidError(f"{field}[{place}]", f"{matcher!r} matches no failure; did you mean {meant}?")
    return tuple(matchers)


def _find_meant(matcher: str) -> str | None:
    if matcher in GRPC_CODES or matcher in OWN_CODES or _HTTP_CODE.fullmatch(matcher):
        return None
    if (status := _HTTP_LIKE.fullmatch(matcher)) and find_near(status[1], ("http",), cutoff=ALIKE):
        return status[2]
    if _GRPC.fullmatch(matcher):
        return find_near(matcher, GRPC_CODES, cutoff=ALIKE)
    return find_near(matcher, OWN_CODES, cutoff=NEARLY_SAME) if matcher.islower() else None


def _matches(matcher: str, code: str) -> bool:
    if _STATUS.fullmatch(matcher):
        return code == f"http_{matcher}" or (
            matcher.endswith("xx") and re.fullmatch(f"http_{matcher[0]}..", code) is not None
        )
    if _GRPC.fullmatch(matcher) and code == f"grpc_{matcher.lower()}":
        return True
    return code == matcher or code.endswith(f".{matcher}")


STANDARD_RETRY = RetryPolicy()
