"""Concurrent single writes share a commit, and nobody waits for company.

A call that finds a lane free starts at once. While the lanes are busy, calls gather; whichever lane ends first takes
all of them in one batch. So the batch grows with the load by itself, and an idle system answers as fast as it can.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from rota.domain.errors import ConflictError, RotaError, StoreUnavailableError

T = TypeVar("T")
R = TypeVar("R")

LANES = 2  # one commits while the other gathers
MOST_IN_BATCH = 500
MOST_WAITING = 10_000  # calls; beyond it the store is too slow for the demand, and saying so is kinder than queueing


class GroupCommit(Generic[T, R]):
    """Turns a batch write, all or nothing, into single writes that share it."""

    def __init__(self, write: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        self._write = write
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._lanes: set[asyncio.Task[None]] = set()

    async def __call__(self, item: T) -> R:
        """Write one item; the answer comes after its commit."""
        if len(self._waiting) >= MOST_WAITING:
            raise StoreUnavailableError(f"{MOST_WAITING} writes are waiting for the store; try again later")
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if len(self._lanes) < LANES:
            self._open_lane()
        return await answer

    async def close(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._lanes)

    def _open_lane(self) -> None:
        lane = asyncio.create_task(self._run())
        self._lanes.add(lane)
        lane.add_done_callback(self._end_lane)

    def _end_lane(self, lane: asyncio.Task[None]) -> None:
        """A defect ends a lane before its time, and there may be no other: what waits gets a new one."""
        self._lanes.discard(lane)
        if self._waiting and not lane.cancelled():
            self._open_lane()

    async def _run(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_IN_BATCH))]
            try:
                await self._commit(batch)
            finally:
                _fail(batch, StoreUnavailableError("the write broke off"))  # whatever went wrong, nobody waits for ever

    async def _commit(self, batch: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            answers = await self._write([item for item, _ in batch])
        except ConflictError as exc:
            if len(batch) == 1:
                _fail(batch, exc)
            else:  # one of them is refused, and it alone must hear of it: it is found by halves
                middle = len(batch) // 2
                await self._commit(batch[:middle])
                await self._commit(batch[middle:])
        except RotaError as exc:
            _fail(batch, exc)
        else:
            for (_, answer), result in zip(batch, answers, strict=True):
                if not answer.done():
                    answer.set_result(result)


def _fail(batch: Sequence[tuple[T, asyncio.Future[R]]], error: RotaError) -> None:
    for _, answer in batch:
        if not answer.done():
            answer.set_exception(error)
