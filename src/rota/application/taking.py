"""Taking from the queue, so that nothing is lost where the taker is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from rota.application.ports.coordinator import NO_WAIT, TaskQueue
from rota.domain.errors import RotaError
from rota.domain.ids import TaskId
from rota.domain.queue import Taken
from rota.domain.task import LiveTask

Read = Callable[[Sequence[TaskId]], Awaitable[Sequence[LiveTask]]]


class Taking:
    """One take at a time. If its caller is cancelled it happens all the same, and its answer is there for the next.

    One that is begun ahead also reads what it took. That is as if the tasks had brought themselves along: should one
    have changed until it is granted, the grant finds that out."""

    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue
        self._under_way: asyncio.Task[Taken] | None = None
        self._held: frozenset[TaskId] = frozenset()  # what was taken ahead and nobody has asked for yet

    def begin(self, limit: int, order: Sequence[int], *, read: Read) -> None:
        """Take ahead, unless a take is under way."""
        if self._under_way is None:
            self._under_way = _start(self._take_and_read(limit, order, read=read))

    async def ask(self, limit: int, order: Sequence[int], *, wait: timedelta) -> Taken:
        """What a take brings: one that is under way, or else one for these words."""
        if self._under_way is None:
            self._under_way = _start(self._queue.take(limit, order=order, wait=wait))
        try:
            taken = await asyncio.shield(self._under_way)
        except Exception:  # whatever it was: the next take is another one
            self._end()
            raise
        self._end()
        return taken

    def holds(self, task_id: TaskId) -> bool:
        """Whether it was taken ahead, and waits to be asked for."""
        return task_id in self._held

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
        self._end()  # not before: cancelled here, it is there for the next reign
        return ids

    def _end(self) -> None:
        self._under_way, self._held = None, frozenset()

    async def _take_and_read(self, limit: int, order: Sequence[int], *, read: Read) -> Taken:
        taken = await self._queue.take(limit, order=order, wait=NO_WAIT)
        self._held = frozenset(taken.task_ids)
        unread = [task_id for task_id in taken.task_ids if task_id not in taken.added]
        with suppress(RotaError):  # then they are read when they are to be granted
            found = {live.state.id: live for live in (await read(unread) if unread else ())}
            return replace(taken, added={**taken.added, **found})
        return taken


def _start(take: Coroutine[Any, Any, Taken]) -> asyncio.Task[Taken]:
    taking = asyncio.create_task(take)
    taking.add_done_callback(_note_failure)
    return taking


def _note_failure(taking: asyncio.Task[Taken]) -> None:
    """Look at it, lest asyncio complain: at the very end there may be nobody else to."""
    _ = taking.cancelled() or taking.exception()
