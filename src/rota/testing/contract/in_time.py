"""Tests of what must be done while a lease runs, on a machine that may stand still between any two calls."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

TRIES = 5


async def in_time(attempt: Callable[[], Awaitable[T | None]]) -> T | None:
    """What it comes to. Where it comes to nothing, a lease may have run out between two calls: it is tried again."""
    for _ in range(TRIES):
        if made := await attempt():
            return made
    return None
