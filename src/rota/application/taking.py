"""Taking from the queue, so that nothing is lost where the taker is cancelled."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from rota.application.ports.coordinator import TaskQueue
from rota.domain.errors import RotaError
from rota.domain.ids import TaskId
from rota.domain.queue import Taken


class Taking:
    """One take at a time. If its caller is cancelled it happens all the same, and its answer is there for the next."""

    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue
        self._under_way: asyncio.Task[Taken] | None = None

    async def ask(self, limit: int, order: Sequence[int], *, wait: timedelta) -> Taken:
        """What a take brings: one that is under way, or else one for these words."""
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._queue.take(limit, order=order, wait=wait))
            self._under_way.add_done_callback(_note_failure)
        try:
            taken = await asyncio.shield(self._under_way)
        except Exception:  # whatever it was: the next take is another one
            self._under_way = None
            raise
        self._under_way = None
        return taken

    async def catch(self) -> Sequence[TaskId]:
        """What a take that is under way brings. If it brings no answer, reconciliation finds what was taken."""
        taking = self._under_way
        ids: Sequence[TaskId] = ()
        if taking is None:
            return ids
        with suppress(RotaError):  # then it ends when its wait is over
            if not taking.done():
                await self._queue.wake()  # it may be waiting for something to take
        with suppress(RotaError):
            ids = (await asyncio.shield(taking)).task_ids
        self._under_way = None  # not before: cancelled here, it is there for the next reign
        return ids


def _note_failure(taking: asyncio.Task[Taken]) -> None:
    """Look at it, lest asyncio complain: at the very end there may be nobody else to."""
    _ = taking.cancelled() or taking.exception()
