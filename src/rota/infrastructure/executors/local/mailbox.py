"""Handing things from any thread to a loop, many with one wake-up."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """What is posted is delivered on the loop, in order. A burst costs one wake-up."""

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: Callable[[T], None]) -> None:
        self._loop = loop
        self._deliver = deliver
        self._items: deque[T] = deque()
        self._is_woken = False

    def post(self, item: T) -> None:
        """May be called from any thread. After the loop's end it is dropped: nobody waits any more."""
        self._items.append(item)
        if not self._is_woken:  # two threads may both see it so: then one wake-up finds nothing
            self._is_woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        self._is_woken = False  # first: whoever posts from here on wakes the loop again
        for _ in range(len(self._items)):  # not more than are here now, so that a flood does not keep the loop
            self._deliver(self._items.popleft())
