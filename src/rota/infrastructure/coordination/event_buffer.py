"""What a listener has not read yet: bounded, so that a slow one loses its oldest events and holds up nobody."""

import asyncio
from collections import deque
from typing import Self

from rota.domain.events import Event

LISTENER_BACKLOG = 10_000  # events, a few MB: some seconds of a busy cluster


class EventBuffer:
    """An iterator over events, filled from outside. One reader."""

    def __init__(self, size: int = LISTENER_BACKLOG) -> None:
        self._events: deque[Event] = deque(maxlen=size)
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None

    def put(self, event: Event) -> None:
        self._events.append(event)
        self._changed.set()

    def fail(self, failure: BaseException) -> None:
        """No event comes any more: after what is here, the reader gets this."""
        self._failure = failure
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()
        return self._events.popleft()
