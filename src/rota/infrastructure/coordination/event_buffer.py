"""What a listener has not read yet: bounded, so that a slow one loses its oldest events and holds up nobody."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Self

from rota.domain.events import Told

LISTENER_BACKLOG = 10_000  # events, a few MB: some seconds of a busy cluster
REMEMBERED = 10_000  # events that one who comes back can still get
LONGEST_NUMBER = 18  # digits: fits 63 bits


class EventBuffer:
    """An iterator over events, filled from outside. One reader."""

    def __init__(self, replayed: Iterable[Told] = (), *, size: int = LISTENER_BACKLOG) -> None:
        self._replayed = deque(replayed)  # read first
        self._events: deque[Told] = deque()
        self._size = size
        self._lost_until: str | None = None
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None

    def put(self, told: Told) -> None:
        if len(self._events) == self._size:
            self._lost_until = self._events.popleft().id
        self._events.append(told)
        self._changed.set()

    def fail(self, failure: BaseException) -> None:
        """No event comes any more: after what is here, the reader gets this."""
        self._failure = failure
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Told:
        if self._replayed:
            return self._replayed.popleft()
        if self._lost_until is not None:
            gap, self._lost_until = Told(self._lost_until, None), None
            return gap
        while not self._events:
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()
        return self._events.popleft()


@asynccontextmanager
async def filled_by(*readers: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let these fill a buffer while the context is entered."""
    reading = [asyncio.create_task(reader) for reader in readers]
    try:
        yield
    finally:
        for one in reading:
            one.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


def find_number(position: str, kind: str) -> int | None:
    """The number of an event in an id such as `r17`; None when the id is of another kind."""
    digits = position.removeprefix(kind)
    if digits == position or not (digits.isascii() and digits.isdigit()) or len(digits) > LONGEST_NUMBER:
        return None
    return int(digits)
