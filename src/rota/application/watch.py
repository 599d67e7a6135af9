"""Waiting for tasks to end: one listener for all who wait, and a slow look into the store as the net below.

Events are hints: one may be lost, or come before this node can see the row. So an event only causes a look into the
store, and whoever still waits is looked up every second in any case. A look is one query, or two, however many wait;
payloads and results are read only of tasks that somebody was told of, or that are no longer among those that live.
While nobody waits nothing happens at all: most processes of a cluster never have anybody who does.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from rota.application.ports.coordinator import Signals
from rota.application.ports.store import TaskStore
from rota.domain.errors import NotFoundError
from rota.domain.ids import TaskId, TenantId
from rota.domain.task import Task

LOOK_EVERY = timedelta(seconds=1)
FIRST_LOOK = timedelta(milliseconds=20)  # most wait for what was submitted a moment ago, and are told when it ends
MOST_LOOKED_UP = 1000  # tasks in one look


@dataclass(slots=True, eq=False)
class _Wait:
    tenant_id: TenantId
    ended: asyncio.Future[Task]


class TaskWatch:
    def __init__(self, tasks: TaskStore, signals: Signals, *, look_every: timedelta = LOOK_EVERY) -> None:
        self._tasks = tasks
        self._signals = signals
        self._look_every = look_every.total_seconds()
        self._waits: dict[TaskId, set[_Wait]] = {}
        self._is_needed = asyncio.Event()  # somebody has waited: most processes of a cluster never do
        self._news: dict[TaskId, set[asyncio.Event]] = {}
        self._rung = asyncio.Event()
        self._told: set[TaskId] = set()
        self._look_at_all_at = 0.0  # by the event loop's clock, whatever is told before

    async def wait(self, task_id: TaskId, tenant_id: TenantId, *, most: timedelta) -> Task:
        """The task as soon as it has ended, or as it is when `most` is over."""
        wait = _Wait(tenant_id, asyncio.get_running_loop().create_future())
        self._waits.setdefault(task_id, set()).add(wait)
        self._is_needed.set()
        # It may have ended, or not exist: then nobody will ever tell.
        first_look = asyncio.get_running_loop().call_later(FIRST_LOOK.total_seconds(), self._tell, task_id)
        try:
            async with asyncio.timeout(most.total_seconds()):
                return await wait.ended
        except TimeoutError:
            return await self._get(task_id, tenant_id)
        finally:
            first_look.cancel()
            self._leave(task_id, wait)

    async def wait_for_news(self, task_id: TaskId, *, most: timedelta) -> None:
        """Until something was heard of the task, or `most` is over: a hint to look at it again."""
        heard = asyncio.Event()
        others = self._news.setdefault(task_id, set())
        others.add(heard)
        self._is_needed.set()
        try:
            async with asyncio.timeout(most.total_seconds()):
                await heard.wait()
        except TimeoutError:
            pass
        finally:
            others.discard(heard)
            if not others:
                self._news.pop(task_id, None)

    async def listen(self) -> None:
        """Hear events, once somebody waits; run it as a loop. It raises when nothing can be heard any more."""
        await self._is_needed.wait()
        async with self._signals.subscribe() as events:
            async for _, event in events:
                if event is None or event.task_id is None:
                    continue  # what was missed is found by the look at all who wait
                for heard in self._news.get(event.task_id, ()):
                    heard.set()
                if event.task_id not in self._waits:
                    continue
                if event.status is not None and event.status.is_final:
                    self._tell(event.task_id)

    async def look(self) -> None:
        """Look up who waits: at once those that were told of, all of them every now and then; run it as a loop."""
        told, silent = await self._wait_for_news()
        for ids in _pieces(silent):
            told += await self._find_moved(ids)
        for ids in _pieces(told):
            found = await self._tasks.load(ids)
            for task_id in ids:
                self._answer(task_id, found.get(task_id))

    async def _wait_for_news(self) -> tuple[list[TaskId], list[TaskId]]:
        """Whom to look up: who was told of, and the others when it is their turn.

        News of some must not keep the others, whose news was lost, from their turn."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._look_at_all_at if self._waits else None):  # whoever comes rings
                await self._rung.wait()
        self._rung.clear()
        told, self._told = self._told & self._waits.keys(), set()
        now = asyncio.get_running_loop().time()
        if now < self._look_at_all_at:
            return list(told), []
        self._look_at_all_at = now + self._look_every
        return list(told), list(self._waits.keys() - told)

    async def _find_moved(self, task_ids: list[TaskId]) -> list[TaskId]:
        """Those of the tasks that have ended, or that somebody waits for who should not know of them."""
        live = {task.id: task.state.tenant_id for task in await self._tasks.find_live(task_ids)}
        return [
            task_id
            for task_id in task_ids
            if any(wait.tenant_id != live.get(task_id) for wait in self._waits.get(task_id, ()))
        ]

    async def _get(self, task_id: TaskId, tenant_id: TenantId) -> Task:
        task = await self._tasks.find(task_id, tenant_id)
        if task is None:
            raise NotFoundError("task", task_id)
        return task

    def _tell(self, task_id: TaskId) -> None:
        self._told.add(task_id)
        self._rung.set()

    def _answer(self, task_id: TaskId, task: Task | None) -> None:
        for wait in self._waits.get(task_id, ()):
            if wait.ended.done():
                continue
            if task is None or task.spec.tenant_id != wait.tenant_id:
                wait.ended.set_exception(NotFoundError("task", task_id))
            elif task.state.status.is_final:
                wait.ended.set_result(task)

    def _leave(self, task_id: TaskId, wait: _Wait) -> None:
        others = self._waits[task_id]
        others.discard(wait)
        if not others:
            del self._waits[task_id]


def _pieces(task_ids: list[TaskId]) -> Iterator[list[TaskId]]:
    return (task_ids[start : start + MOST_LOOKED_UP] for start in range(0, len(task_ids), MOST_LOOKED_UP))
