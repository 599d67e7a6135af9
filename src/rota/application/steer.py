"""Changing the course of one task from outside: cancel it, make it more urgent, move it in time.

Each is a transition, written while the task is as it was read. When something else moved it in between, it is read
again: the caller's wish still stands, or the new state forbids it and says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from rota.application.audit import Actor, record
from rota.application.node import Node
from rota.domain.audit import AuditEntry
from rota.domain.checks import check_aware
from rota.domain.errors import ConflictError, CoordinatorUnavailableError, InvalidError, NotFoundError
from rota.domain.events import Event, EventKind
from rota.domain.ids import TaskId, TenantId
from rota.domain.queue import QueueEntry
from rota.domain.task import PROCESSING, WAITING, Task, TaskSpec, TaskState, Transition

MOST_TRIES = 10  # against a task that moves under our hands
CANCEL_KEPT = timedelta(hours=1)  # how long a request to stop is remembered; a worker looks twice a second

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SteerTasks:
    node: Node

    async def cancel(
        self, task_id: TaskId, tenant_id: TenantId, *, reason: str = "", actor: Actor | None = None
    ) -> Task:
        """End it, waiting or running. What a running attempt still reports is stale from here on."""
        audit = record(self.node, actor, action="task.cancel", subject=task_id)
        step = await self._make(
            task_id, tenant_id, change=lambda state, at: state.cancelled(reason, at=at), audit=audit
        )
        await self.stop([step])
        return await self._get(task_id, tenant_id)

    async def reprioritise(
        self, task_id: TaskId, tenant_id: TenantId, *, priority: int, actor: Actor | None = None
    ) -> Task:
        """Change how urgent a waiting task is."""
        audit = record(self.node, actor, action="task.patch", subject=task_id, detail=f"priority {priority}")
        step = await self._make(
            task_id, tenant_id, change=lambda state, at: state.reprioritised(priority, at=at), audit=audit
        )
        await self._queue_anew(step)
        return await self._get(task_id, tenant_id)

    async def reschedule(
        self, task_id: TaskId, tenant_id: TenantId, *, due_at: datetime, actor: Actor | None = None
    ) -> Task:
        """Change when a waiting task is due."""
        check_end((await self._get(task_id, tenant_id)).spec, due_at)
        audit = record(self.node, actor, action="task.patch", subject=task_id, detail=f"due {due_at.isoformat()}")
        step = await self._make(
            task_id, tenant_id, change=lambda state, at: state.rescheduled(due_at, at=at), audit=audit
        )
        await self._queue_anew(step)
        return await self._get(task_id, tenant_id)

    async def _get(self, task_id: TaskId, tenant_id: TenantId) -> Task:
        task = await self.node.store.tasks.find(task_id, tenant_id)
        if task is None:
            raise NotFoundError("task", task_id)
        return task

    async def _make(
        self,
        task_id: TaskId,
        tenant_id: TenantId,
        *,
        change: Callable[[TaskState, datetime], Transition],
        audit: Sequence[AuditEntry],
    ) -> Transition:
        for _ in range(MOST_TRIES):
            task = await self._get(task_id, tenant_id)
            step = change(task.state, self.node.time.now())
            written = await self.node.store.tasks.advance([step], audit=audit)
            if task_id not in written.stale:
                return step
        raise ConflictError(f"task {task_id} changed {MOST_TRIES} times while it was being changed; try again")

    async def stop(self, steps: Sequence[Transition]) -> None:
        """Tell those who run or queue these tasks, and whoever listens, that they were cancelled."""
        running = [step.task_id for step in steps if step.before.status is PROCESSING]
        waiting = [QueueEntry(step.task_id, step.before.priority) for step in steps if step.before.status in WAITING]
        try:
            if running:
                await self.node.coordinator.signals.request_cancel(running, ttl=CANCEL_KEPT)
            if waiting:
                await self.node.coordinator.queue.discard(waiting)
            await self.node.coordinator.signals.publish([_cancelled(step) for step in steps])
        except CoordinatorUnavailableError as exc:  # what a worker still reports will be stale all the same
            log.warning("cancel.not_signalled", tasks=len(steps), error=str(exc))

    async def _queue_anew(self, step: Transition) -> None:
        """Put it where it belongs now. A ready entry left behind is harmless: dispatch grants a task once."""
        before, after = step.before, step.after
        if after.status not in WAITING:
            return
        due_at = after.due_at if after.due_at > self.node.time.now() else None
        try:
            await self.node.coordinator.queue.discard([QueueEntry(before.id, before.priority)])
            await self.node.coordinator.queue.push([QueueEntry(after.id, after.priority, due_at=due_at)])
        except CoordinatorUnavailableError as exc:  # the reconciler finds it when it is due
            log.warning("steer.not_queued", task_id=after.id, error=str(exc))


def check_end(spec: TaskSpec, due_at: datetime) -> None:
    """A task must not be moved to where it could only run into its total timeout."""
    if spec.end_by is not None and check_aware("scheduled_at", due_at) >= spec.end_by:
        problem = f"is not before {spec.end_by.isoformat()}, when the task's total timeout ends; submit it anew"
        raise InvalidError("scheduled_at", problem)


def _cancelled(step: Transition) -> Event:
    after = step.after
    return Event(
        kind=EventKind.TASK_CANCELLED,
        at=step.at,
        tenant_id=after.tenant_id,
        task_id=after.id,
        status=after.status,
        attempt=after.attempt,
        worker_id=step.before.worker_id,
    )
