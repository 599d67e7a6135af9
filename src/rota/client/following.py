"""A stream of events over all its connections, without any I/O: where to go on, and when to give up.

A connection that breaks is made anew after a pause, with the id of the last event (`Last-Event-ID`), so that nothing is
missed that the server still remembers. What the server refuses is not tried again.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Generic, TypeVar

from rota.application.ports.system import Random
from rota.client.call import Call, Reply
from rota.client.exchange import pause_after
from rota.client.problems import error_from, retry_after
from rota.domain.errors import RateLimitedError, RotaError, UnavailableError

T = TypeVar("T")

END, MISSED = "end", "missed"  # names of events that are about the stream itself
GIVE_UP_AFTER = timedelta(minutes=1)  # without a connection
SILENCE = timedelta(seconds=60)  # a server says something at least every 15 seconds, be it a comment


class Following(Generic[T]):
    """One stream. The shell connects with `headers`, and tells what comes and what goes wrong."""

    def __init__(self, call: Call[T], random: Random, *, after: str | None, missed: Callable[[], None]) -> None:
        self.call = call
        self._missed = missed
        self._last = after
        self._random = random
        self._tries = 0
        self._lost_at: float | None = None
        self.was_open = False

    @property
    def headers(self) -> dict[str, str]:
        known = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        return known if self._last is None else {**known, "Last-Event-ID": self._last}

    def opened(self) -> None:
        """There is a connection. Pauses stay as long as they are until it says something: it may end at once again."""
        self._lost_at = None
        self.was_open = True

    def accept(self, name: str, data: str, *, id: str) -> T | None:
        """What an event says; None when it only marks a place, or that events are missing here."""
        self._tries = 0
        if id:
            self._last = id
        if name == MISSED:
            self._missed()
        return self.call.read(data.encode()) if data and name != MISSED else None

    def broken(self, error: Exception, *, now: float) -> timedelta:
        """The connection ended, or was not made: the pause before the next, or the error."""
        return self._pause(UnavailableError(f"the stream broke off: {str(error) or type(error).__name__}"), now=now)

    def refused(self, reply: Reply, *, now: float) -> timedelta:
        """The server said no: the pause before the next try, or its error."""
        error = error_from(reply)
        if not isinstance(error, UnavailableError | RateLimitedError):
            raise error
        return self._pause(error, now=now, least=retry_after(reply.headers))

    def _pause(self, error: RotaError, *, now: float, least: timedelta | None = None) -> timedelta:
        self._tries += 1
        self._lost_at = now if self._lost_at is None else self._lost_at
        if now - self._lost_at >= GIVE_UP_AFTER.total_seconds():
            raise error
        return pause_after(self._tries, self._random, least=least)
