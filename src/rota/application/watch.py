"""Waiting for tasks to end: one listener for all who wait, and a slow look into the store as the net below.

Events are hints: one may be lost, or come before this node can see the row. So an event only causes a look into the
store, and whoever still waits is looked up every `LOOK_EVERY` in any case.
"""

import asyncio
from datetime import timedelta

from rota.application.ports.coordinator import Signals
from rota.application.ports.store import TaskStore
from rota.domain.errors import NotFoundError
from rota.domain.ids import TaskId, TenantId
from rota.domain.task import Task

LOOK_EVERY = timedelta(seconds=1)
MOST_LOOKED_UP = 1000  # tasks in one look


class TaskWatch:
    def __init__(self, tasks: TaskStore, signals: Signals) -> None:
        self._tasks = tasks
        self._signals = signals
        self._waiting: dict[TaskId, set[asyncio.Future[Task]]] = {}
        self._rung = asyncio.Event()
        self._told: set[TaskId] = set()

    async def wait(self, task_id: TaskId, tenant_id: TenantId, *, most: timedelta) -> Task:
        """The task as soon as it has ended, or as it is when `most` is over."""
        task = await self._get(task_id, tenant_id)
        if task.state.status.is_final:
            return task
        ended: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(task_id, set()).add(ended)
        self._tell(task_id)  # it may have ended between the look and now
        try:
            async with asyncio.timeout(most.total_seconds()):
                return await ended
        except TimeoutError:
            return await self._get(task_id, tenant_id)
        finally:
            self._leave(task_id, ended)

    async def listen(self) -> None:
        """Hear events; run it as a loop. It ends with an error when nothing can be heard any more."""
        async with self._signals.subscribe() as events:
            async for event in events:
                if event.task_id in self._waiting and event.status is not None and event.status.is_final:
                    self._tell(event.task_id)

    async def look(self) -> None:
        """Look up who waits: at once those that were told of, all of them every now and then; run it as a loop."""
        told = await self._wait_for_news()
        wanted = list(told & self._waiting.keys()) if told else list(self._waiting)
        for start in range(0, len(wanted), MOST_LOOKED_UP):
            found = await self._tasks.load(wanted[start : start + MOST_LOOKED_UP])
            for task in found.values():
                if task.state.status.is_final:
                    self._answer(task)

    async def _wait_for_news(self) -> set[TaskId]:
        try:
            async with asyncio.timeout(LOOK_EVERY.total_seconds()):
                await self._rung.wait()
        except TimeoutError:
            return set()
        self._rung.clear()
        told, self._told = self._told, set()
        return told

    async def _get(self, task_id: TaskId, tenant_id: TenantId) -> Task:
        task = await self._tasks.find(task_id, tenant_id)
        if task is None:
            raise NotFoundError("task", task_id)
        return task

    def _tell(self, task_id: TaskId) -> None:
        self._told.add(task_id)
        self._rung.set()

    def _answer(self, task: Task) -> None:
        for ended in self._waiting.get(task.id, ()):
            if not ended.done():
                ended.set_result(task)

    def _leave(self, task_id: TaskId, ended: asyncio.Future[Task]) -> None:
        others = self._waiting[task_id]
        others.discard(ended)
        if not others:
            del self._waiting[task_id]
