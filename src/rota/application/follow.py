"""Following the record of a task: what is there, then what comes, until the task has ended.

Each round reads the store, so nothing is missed; news of the task only makes the next round come sooner.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from rota.application.ports.store import LogStore, TaskStore
from rota.application.watch import TaskWatch
from rota.domain.errors import NotFoundError
from rota.domain.ids import TaskId, TenantId
from rota.domain.log import LogEntry
from rota.domain.task import Task

LOOK_EVERY = timedelta(seconds=1)
AT_ONCE = 500  # lines that are read in one go


@dataclass(frozen=True, slots=True)
class FollowLogs:
    tasks: TaskStore
    logs: LogStore
    watch: TaskWatch

    async def check(self, task_id: TaskId, tenant_id: TenantId) -> Task:
        """The task, or `NotFoundError`: what is in another tenant is nobody's business."""
        task = await self.tasks.find(task_id, tenant_id)
        if task is None:
            raise NotFoundError("task", task_id)
        return task

    async def read(self, task_id: TaskId, tenant_id: TenantId, *, after: int, limit: int) -> list[LogEntry]:
        """A page of the record."""
        await self.check(task_id, tenant_id)
        return await self.logs.read(task_id, after=after, limit=limit)

    async def follow(self, task_id: TaskId, tenant_id: TenantId, *, after: int) -> AsyncIterator[LogEntry]:
        """The record after a place in it, as it grows; it is over once the task has ended and all was told."""
        while True:
            task = await self.check(task_id, tenant_id)  # before the lines: those of an ended task are all there
            entries = await self.logs.read(task_id, after=after, limit=AT_ONCE)
            for entry in entries:
                after = entry.seq
                yield entry
            if len(entries) == AT_ONCE:
                continue
            if task.state.status.is_final:
                return
            await self.watch.wait_for_news(task_id, most=LOOK_EVERY)
