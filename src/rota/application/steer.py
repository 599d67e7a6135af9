"""Changing the course of one task from outside: cancel it, or make it more urgent and move it in time.

Each is one transition, written while the task is as it was read. When something else moved it in between, it is read
again: the caller's wish still stands, or the new state forbids it and says so.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from rota.application import metrics
from rota.application.audit import Actor, record
from rota.application.node import Node
from rota.application.take_back import TypedStep, queue_entry, wake_for_deferred
from rota.domain.audit import AuditEntry
from rota.domain.checks import check_aware
from rota.domain.errors import ConflictError, CoordinatorUnavailableError, InvalidError, NotFoundError
from rota.domain.events import Event, EventKind
from rota.domain.ids import TaskId, TenantId
from rota.domain.queue import QueueEntry
from rota.domain.task import CANCELLED, PROCESSING, WAITING, Task, TaskSpec, Transition
from rota.domain.worker import kill_mark

MOST_TRIES = 10  # against a task that moves under our hands
CANCEL_KEPT = timedelta(hours=1)  # how long a request to stop is remembered; a worker with tasks looks twice a second

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SteerTasks:
    node: Node

    async def cancel(
        self,
        task_id: TaskId,
        tenant_id: TenantId,
        *,
        reason: str = "",
        actor: Actor | None = None,
        is_hard: bool = False,
    ) -> Task:
        """End it, waiting or running; `is_hard`: without any grace. What a running attempt still reports is stale
        from here on."""
        audit = record(self.node, actor, action="task.cancel", subject=task_id)
        made = await self._make(
            task_id, tenant_id, change=lambda task, at: task.state.cancelled(reason, at=at), audit=audit
        )
        await self.stop([made], is_hard=is_hard)
        return await self._get(task_id, tenant_id)

    async def amend(
        self,
        task_id: TaskId,
        tenant_id: TenantId,
        *,
        priority: int | None = None,
        due_at: datetime | None = None,
        actor: Actor | None = None,
    ) -> Task:
        """Change how urgent a waiting task is, when it is due, or both: in one write, or not at all."""
        parts = [f"priority {priority}"] if priority is not None else []
        parts += [f"due {due_at.isoformat()}"] if due_at is not None else []

        def change(task: Task, at: datetime) -> Transition:
            if due_at is not None:
                _check_end(task.spec, due_at)
            return task.state.amended(priority=priority, due_at=due_at, at=at)

        made = await self._make(
            task_id,
            tenant_id,
            change=change,
            audit=record(self.node, actor, action="task.patch", subject=task_id, detail=", ".join(parts)),
        )
        await self.queue_anew([made.step])
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
        change: Callable[[Task, datetime], Transition],
        audit: Sequence[AuditEntry],
    ) -> TypedStep:
        for _ in range(MOST_TRIES):
            task = await self._get(task_id, tenant_id)
            step = change(task, self.node.time.now())
            written = await self.node.store.tasks.advance([step], audit=audit)
            if task_id not in written.stale:
                return TypedStep(task.spec.type, step)
        raise ConflictError(f"task {task_id} changed {MOST_TRIES} times while it was being changed; try again")

    async def stop(self, cancelled: Sequence[TypedStep], *, is_hard: bool = False) -> None:
        """Count these tasks, and tell those who run or queue them, and whoever listens, that they were cancelled."""
        for task_type, count in Counter(one.type for one in cancelled).items():
            self.node.collector.add(metrics.TASKS_ENDED, task_type, CANCELLED, amount=count)
        steps = [one.step for one in cancelled]
        running = [step.task_id for step in steps if step.before.status is PROCESSING and not step.before.is_deferred]
        waiting = [QueueEntry(step.task_id, step.before.priority) for step in steps if step.before.status in WAITING]
        try:
            if running and is_hard:  # first: a worker that finds the request looks for the mark
                await self.node.coordinator.signals.request_cancel(list(map(kill_mark, running)), ttl=CANCEL_KEPT)
            if running:
                await self.node.coordinator.signals.request_cancel(running, ttl=CANCEL_KEPT)
            if waiting:
                await self.node.coordinator.queue.discard(waiting)
            await wake_for_deferred(self.node.coordinator.queue, steps)
            await self.node.coordinator.signals.publish([_event(one) for one in cancelled])
        except CoordinatorUnavailableError as exc:  # what a worker still reports will be stale all the same
            log.warning("cancel.not_signalled", tasks=len(steps), error=str(exc))

    async def queue_anew(self, steps: Sequence[Transition]) -> None:
        """Put them where they belong now, the oldest first. A ready entry left behind is harmless: dispatch grants a
        task once."""
        waiting = sorted((step for step in steps if step.after.status in WAITING), key=lambda step: step.task_id)
        if not waiting:
            return
        now = self.node.time.now()
        try:
            await self.node.coordinator.queue.discard(
                [QueueEntry(step.before.id, step.before.priority) for step in waiting]
            )
            await self.node.coordinator.queue.push([queue_entry(step.after, now=now) for step in waiting])
        except CoordinatorUnavailableError as exc:  # the reconciler finds them when they are due
            log.warning("steer.not_queued", tasks=len(waiting), error=str(exc))


def _check_end(spec: TaskSpec, due_at: datetime) -> None:
    """A task must not be moved to where it could only run into its total timeout."""
    if spec.end_by is not None and check_aware("scheduled_at", due_at) >= spec.end_by:
        problem = f"is not before {spec.end_by.isoformat()}, when the task's total timeout ends; submit it anew"
        raise InvalidError("scheduled_at", problem)


def _event(cancelled: TypedStep) -> Event:
    before, after = cancelled.step.before, cancelled.step.after
    return Event(
        kind=EventKind.TASK_CANCELLED,
        at=cancelled.step.at,
        tenant_id=after.tenant_id,
        task_id=after.id,
        task_type=cancelled.type,
        status=after.status,
        attempt=after.attempt,
        worker_id=before.worker_id,
    )
