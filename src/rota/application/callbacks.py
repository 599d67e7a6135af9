"""Attempts that are finished from outside: by a link that only whoever was given the attempt has, or by an operator.

Whoever works on a deferred attempt says that it is done, that it failed, that it lives, or how far it got. Each names
the attempt, and counts only while that is the one the task is at: a second or a late word is refused. It may come
before the worker has written that the attempt is deferred; then the worker finds its own word to be the late one.

A heartbeat begins a lease: unless it is followed by another in time, the attempt ends as if its timeout had come.
Without any, the timeout alone counts. No lease reaches beyond it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from msgspec.structs import replace

from rota.application import metrics
from rota.application.audit import Actor, record
from rota.application.node import Node
from rota.application.take_back import STOP_KEPT, queue_entry, wake_for_deferred
from rota.application.work.report import KINDS
from rota.domain.attempt import Failed, Succeeded
from rota.domain.audit import AuditEntry
from rota.domain.callback import AttemptKey
from rota.domain.conclusion import bounded, conclude, is_outcome_of
from rota.domain.errors import ConflictError, CoordinatorUnavailableError, NotFoundError, StaleAttemptError
from rota.domain.events import Event, EventKind
from rota.domain.log import LogEntry, place, progress_of
from rota.domain.task import PROCESSING, RETRYING, LogKind, Task, Transition

SHORTEST_LEASE = timedelta(seconds=2)
USUAL_LEASE = timedelta(seconds=60)
LONGEST_LEASE = timedelta(days=1)
STIR = 10  # a lease that moves by less than this part of itself is not written anew
MOST_TRIES = 10  # against a task that moves under our hands
DENSE_SECONDS = 3600
FIRST_LINE = 2**31  # under an attempt's version; those before it are the worker's own

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AttemptCallbacks:
    node: Node

    async def complete(self, attempt: AttemptKey, done: Succeeded, *, actor: Actor | None = None) -> Task:
        """It has succeeded. The same again, after an answer that got lost, changes nothing and is no error."""
        return await self._finish(attempt, done, audit=self._record(attempt, "task.complete", actor=actor))

    async def fail(self, attempt: AttemptKey, failed: Failed, *, actor: Actor | None = None) -> Task:
        """It has failed; the retry policy says what follows. The same again changes nothing and is no error."""
        return await self._finish(attempt, failed, audit=self._record(attempt, "task.fail", actor=actor))

    async def heartbeat(self, attempt: AttemptKey, *, lease: timedelta) -> Task:
        """It lives. While a worker still has the attempt in its hands there is no lease yet: the timeout counts."""
        for _ in range(MOST_TRIES):
            task = await self._get_running(attempt)
            now = self.node.time.now()
            until = min(now + lease, _deadline(task, now))
            if not task.state.is_deferred or abs(until - task.state.due_at) < lease / STIR:
                return task
            step = task.state.prolonged(until, at=now)
            if task.id not in (await self.node.store.tasks.advance([step])).stale:
                return task.after(step)
        raise _too_lively(attempt)

    async def progress(self, attempt: AttemptKey, *, fraction: float, message: str = "") -> Task:
        """How far it got, 0 to 1: a line in the task's log, of those that come within a second the first.

        The longer an attempt lasts, the fewer of them are kept: in the second hour one of two, and so on."""
        task = await self._get_running(attempt)
        state, now = task.state, self.node.time.now()
        second = _thinned((now - (state.started_at or now)) // timedelta(seconds=1))
        line = LogEntry(
            task_id=task.id,
            tenant_id=state.tenant_id,
            seq=place(state.version, FIRST_LINE + min(max(second, 0), FIRST_LINE - 1)),
            kind=LogKind.INFO,
            at=now,
            attempt=state.attempt,
            worker_id=state.worker_id,
            message=message,
            detail=json.dumps({"progress": round(fraction, 4)}),
        )
        await self.node.store.logs.append([line])
        told = replace(_event(task, EventKind.TASK_PROGRESS, at=now), progress=progress_of(line))
        await self._publish([_event(task, EventKind.TASK_LOGGED, at=now), told])
        return task

    async def _finish(self, attempt: AttemptKey, outcome: Succeeded | Failed, *, audit: Sequence[AuditEntry]) -> Task:
        for _ in range(MOST_TRIES):
            task = await self._get(attempt)
            if not _is_running(task, attempt):
                if task.state.attempt == attempt.number and is_outcome_of(task, outcome):
                    return task
                raise _stale(task, attempt)
            step = self._conclude(task, outcome)
            written = await self.node.store.tasks.advance([step], audit=audit)
            if task.id not in written.stale:
                await self._settle(task, step)
                return task.after(step)
        raise _too_lively(attempt)

    def _conclude(self, task: Task, outcome: Succeeded | Failed) -> Transition:
        now = self.node.time.now()
        at = max(now, task.state.started_at or now)  # the leader's estimate of the time may be a little ahead
        step = conclude(task.state, outcome, policy=task.spec.retry, at=at, chance=self.node.random.chance())
        return bounded(step, task.spec.end_by)

    async def _settle(self, task: Task, step: Transition) -> None:
        """Count it, and tell those who wait for it. All of that is hints: the row is written."""
        status, task_type = step.after.status, task.spec.type
        if status is RETRYING:
            self.node.collector.add(metrics.TASKS_RETRIED, task_type)
        else:
            self.node.collector.add(metrics.TASKS_ENDED, task_type, status)
        try:
            if step.before.worker_id is not None:  # it was faster than its own worker, which need not go on
                await self.node.coordinator.signals.request_cancel([task.id], ttl=STOP_KEPT)
            if status.is_waiting:
                await self.node.coordinator.queue.push([queue_entry(step.after, now=step.at)])
            await wake_for_deferred(self.node.coordinator.queue, [step])
        except CoordinatorUnavailableError as exc:  # the reconciler finds it when it is due
            log.warning("callback.not_signalled", task_id=task.id, error=str(exc))
        await self._publish([_event(task.after(step), KINDS[status], at=step.at)])

    async def _publish(self, events: Sequence[Event]) -> None:
        try:
            await self.node.coordinator.signals.publish(events)
        except CoordinatorUnavailableError as exc:
            log.warning("callback.not_told", task_id=events[0].task_id, error=str(exc))

    async def _get(self, attempt: AttemptKey) -> Task:
        task = await self.node.store.tasks.find(attempt.task_id, attempt.tenant_id)
        if task is None:
            raise NotFoundError("task", attempt.task_id)
        return task

    async def _get_running(self, attempt: AttemptKey) -> Task:
        task = await self._get(attempt)
        if not _is_running(task, attempt):
            raise _stale(task, attempt)
        return task

    def _record(self, attempt: AttemptKey, action: str, *, actor: Actor | None) -> Sequence[AuditEntry]:
        detail = f"attempt {attempt.number}"
        return record(self.node, actor, action=action, subject=attempt.task_id, detail=detail)


def _thinned(second: int) -> int:
    step = 1 + second // DENSE_SECONDS
    return second - second % step


def _is_running(task: Task, attempt: AttemptKey) -> bool:
    return task.state.status is PROCESSING and task.state.attempt == attempt.number


def _deadline(task: Task, now: datetime) -> datetime:
    """When the attempt ends, however often it is heard of."""
    deadline = (task.state.started_at or now) + task.spec.timeout
    return deadline if task.spec.end_by is None else min(deadline, task.spec.end_by)


def _stale(task: Task, attempt: AttemptKey) -> StaleAttemptError:
    state = task.state
    return StaleAttemptError(task.id, seen=attempt.number, current=state.attempt, status=state.status)


def _too_lively(attempt: AttemptKey) -> ConflictError:
    return ConflictError(f"task {attempt.task_id} changed {MOST_TRIES} times while it was being changed; try again")


def _event(task: Task, kind: EventKind, *, at: datetime) -> Event:
    state = task.state
    return Event(
        kind=kind,
        at=at,
        tenant_id=state.tenant_id,
        task_id=task.id,
        task_type=task.spec.type,
        status=state.status,
        attempt=state.attempt,
        worker_id=state.worker_id,
    )
