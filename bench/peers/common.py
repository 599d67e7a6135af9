"""What the apps of the peers share; with nothing of Rota in it, since each runs in an environment of its own."""

import asyncio
import os
from collections.abc import Awaitable, Callable

URL = os.environ.get("PEER_URL", "")
PAYLOAD = {"to": "someone@example.com", "subject": "about one hundred bytes", "body": "so that it looks like real work"}
BATCH = 500  # for those who can create many at once
LANES = 2  # of these, how many batches are under way: as Rota's producer has them
AT_ONCE = 100  # calls under way, for those who cannot but await; tasks under way in an async worker

_count = os.open(os.environ.get("PEER_COUNT", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def done() -> None:
    """One more task has run: a byte at the end of a file, which is atomic over threads and processes."""
    os.write(_count, b".")


def batches(tasks: int, size: int = BATCH) -> list[int]:
    """How many to create at once, until all are."""
    return [min(size, tasks - start) for start in range(0, tasks, size)]


async def create_in_lanes(tasks: int, create: Callable[[int], Awaitable[object]]) -> None:
    """Batches one after the other, a few of them under way at once."""
    left = iter(batches(tasks))

    async def lane() -> None:
        for number in left:
            await create(number)

    await asyncio.gather(*(lane() for _ in range(LANES)))
