"""Waiting for what a database cannot announce.

Whoever waits looks again when this process has changed something (a bell), and otherwise after a pause that grows from
10 to 200 ms: the net for what other processes change. What a look finds is decided by the database alone, so a bell
that rings for nothing, or is missed, costs time and nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

from rota.application.ports.system import Clock

T = TypeVar("T")

FIRST_PAUSE = timedelta(milliseconds=10)
LONGEST_PAUSE = timedelta(milliseconds=200)


class Bells:
    """One bell for each topic that somebody waits for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: dict[Hashable, set[asyncio.Event]] = {}

    def ring(self, topic: Hashable) -> None:
        """Let everyone in this process who waits for the topic look now."""
        for listener in self._listeners.get(topic, ()):
            listener.set()

    async def look_until(self, topic: Hashable, look: Callable[[], Awaitable[T]], *, wait: timedelta) -> T:
        """Look at least once, until something is found or the wait is over. What the last look found."""
        deadline = self._clock.monotonic() + wait.total_seconds()
        pause = FIRST_PAUSE
        with self._listening(topic) as heard:
            while True:
                heard.clear()  # before the look: what rings during it must be looked at again
                found = await look()
                left = timedelta(seconds=deadline - self._clock.monotonic())
                if bool(found) or left <= timedelta(0):
                    return found
                has_rung = await self._pause(heard, min(pause, left))
                pause = FIRST_PAUSE if has_rung else min(pause * 2, LONGEST_PAUSE)

    @contextmanager
    def _listening(self, topic: Hashable) -> Iterator[asyncio.Event]:
        heard = asyncio.Event()
        self._listeners.setdefault(topic, set()).add(heard)
        try:
            yield heard
        finally:
            self._listeners[topic].remove(heard)
            if not self._listeners[topic]:
                del self._listeners[topic]

    async def _pause(self, heard: asyncio.Event, pause: timedelta) -> bool:
        """Whether the bell rang before the pause was over."""
        waits = (asyncio.ensure_future(heard.wait()), asyncio.ensure_future(self._clock.sleep(pause)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        return heard.is_set()
