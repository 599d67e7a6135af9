"""One call over all its tries, without any I/O: what is left of its time, and what follows from each answer.

What may be done twice (reads, and submits, which carry an idempotency key) is tried again after a broken connection,
429 and 502 to 504. Anything else is tried again only where it certainly did not take effect: no connection was made, or
the server refused it for its rate. Pauses grow, are spread by chance so that clients do not come back all at once, and
are at least as long as the server asks. The deadline is one for all tries.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from rota.application.ports.system import Random
from rota.client.call import Call, Reply
from rota.client.place import Place
from rota.client.problems import error_from, retry_after
from rota.domain.errors import RateLimitedError, RotaError, UnavailableError

T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class UnreachableError(UnavailableError):
    """Nobody listens where the server should be, so nothing was asked."""

    code = "server_unreachable"


class WrongProtocolError(UnavailableError):
    """Who listens there speaks something else, and no other try can help; `meant` is the URL that perhaps was."""

    code = "wrong_protocol"
    retryable = False

    def __init__(self, problem: str, *, meant: str | None = None) -> None:
        super().__init__(problem)
        self.meant = meant


class UntrustedError(UnavailableError):
    """Nobody who is trusted here says that this is the server, so nothing was asked."""

    code = "untrusted_certificate"
    retryable = False


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The call has its answer."""

    value: T


@dataclass(frozen=True, slots=True)
class Retrying:
    """Why a call is about to be tried again, and for how many seconds more at most."""

    problem: RotaError
    left: float


def pause_after(tries: int, random: Random, *, least: timedelta | None = None) -> timedelta:
    """How long to wait after so many tries: twice as long each time, at least half of that, by chance."""
    full = min(FIRST_PAUSE_S * 2.0 ** min(tries - 1, 16), LONGEST_PAUSE_S)
    return (least or timedelta(0)) + timedelta(seconds=full * (0.5 + random.chance() / 2))


class Exchange(Generic[T]):
    """The state of one call. The shell asks for the time left, sends, and tells what came of it."""

    def __init__(self, call: Call[T], place: Place, *, random: Random, now: float) -> None:
        self._call = call
        self._place = place
        self._random = random
        self._deadline = now + (place.timeout + call.waits).total_seconds()
        patience = place.connect_within
        self._connected_by = self._deadline if patience is None else now + patience.total_seconds()
        self.tries = 0
        self.retrying: Retrying | None = None  # once it is tried again
        self._said: UnavailableError | None = None  # by the server, the last time it answered at all

    def begin(self, now: float) -> float:
        """Another try: the seconds that it may take."""
        self.tries += 1
        return max(self._deadline - now, 0.001)

    def failed(self, error: Exception, *, now: float, was_sent: bool) -> timedelta:
        """There was no answer: the pause before the next try, or the error."""
        told = self._tell(error, was_sent=was_sent)
        problem = UnavailableError(told) if was_sent else UnreachableError(told)
        if was_sent and not self._call.may_repeat:
            raise problem from error
        if was_sent and self._said is not None:  # it is there, and has told what is wrong: time alone has run out
            problem = self._said
        return self._pause(problem, now=now, until=self._deadline if was_sent else self._connected_by)

    def answered(self, reply: Reply, *, now: float) -> Done[T] | timedelta:
        """The value, the pause before the next try, or the error."""
        if 200 <= reply.status < 300:
            return Done(self._call.read(reply.body))
        error = error_from(reply)
        is_refused = isinstance(error, RateLimitedError)  # before anything was done
        self._said = error if isinstance(error, UnavailableError) else None
        if is_refused or (self._said is not None and self._call.may_repeat):
            return self._pause(error, now=now, until=self._deadline, least=retry_after(reply.headers))
        raise error

    def _pause(self, error: RotaError, *, now: float, until: float, least: timedelta | None = None) -> timedelta:
        pause = pause_after(self.tries, self._random, least=least)
        last = min(until, self._deadline)
        if now + pause.total_seconds() >= last:
            raise error
        self.retrying = Retrying(error, last - now)
        return pause

    def _tell(self, error: Exception, *, was_sent: bool) -> str:
        what = str(error) or ("it took too long" if isinstance(error, TimeoutError) else type(error).__name__)
        tries = f" after {self.tries} tries" if self.tries > 1 else ""
        unknown = "" if self._call.may_repeat or not was_sent else "; whether it took effect is unknown"
        return f"no answer from {self._place.url}{tries}: {what}{unknown}"
