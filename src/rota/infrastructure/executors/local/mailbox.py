"""Handing things from any thread to a loop, many with one wake-up."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

MOST_AT_ONCE = 500  # a few milliseconds, however much is posted: the loop has other work in between

T = TypeVar("T")


class Mailbox(Generic[T]):
    """What is posted is delivered on the loop, in order. A burst costs one wake-up."""

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: Callable[[T], None]) -> None:
        self._loop = loop
        self._deliver = deliver
        self._items: deque[T] = deque()
        self._is_woken = False
        self._goes_on = False  # the loop's own

    def post(self, item: T) -> None:
        """May be called from any thread. After the loop's end it is dropped: nobody waits any more."""
        self._items.append(item)
        if not self._is_woken:  # two threads may both see it so: then one wake-up finds nothing
            self._is_woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        self._is_woken = False  # first: whoever posts from here on wakes the loop again
        for _ in range(min(len(self._items), MOST_AT_ONCE)):
            self._deliver(self._items.popleft())
        if self._items and not self._goes_on:
            self._goes_on = True
            self._loop.call_soon(self._go_on)

    def flush(self) -> None:
        """On the loop: deliver all that waits, now."""
        while self._items:
            self._deliver(self._items.popleft())

    def _go_on(self) -> None:
        self._goes_on = False
        self._empty()
