"""Waiting that is bounded, whatever happens to the caller."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol


async def wait_out(future: asyncio.Future[Any], grace: timedelta) -> bool:
    """Wait for a future at most this long, also when cancelled again meanwhile: an end must not be left half done."""
    loop = asyncio.get_running_loop()
    until = loop.time() + grace.total_seconds()
    while not future.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait({future}, timeout=left)
        except asyncio.CancelledError:
            continue
    return future.done()


class Joinable(Protocol):
    def join(self, seconds: float, /) -> bool:
        """Wait for its end; whether it is gone."""
        ...


async def join_all(threads: Sequence[Joinable], *, within_s: float) -> int:
    """Wait for the ends of threads, for all of them together at most so long. How many are left."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    return sum([not await asyncio.to_thread(thread.join, until - loop.time()) for thread in threads])


class Slots:
    """At most so many at once; the rest wait in order."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> None:
        if self._used < self._limit and not self._waiting:
            self._used += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():  # its turn had come just then
                self._free()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._free()

    def resize(self, limit: int) -> None:
        """Those beyond a lower limit finish; nobody new comes in before."""
        self._limit = limit
        self._admit()

    def _free(self) -> None:
        self._used -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._used < self._limit:
            turn = self._waiting.pop(0)
            if not turn.done():
                self._used += 1
                turn.set_result(None)
