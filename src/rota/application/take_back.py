"""Taking attempts away from whoever held them: written to the store first, then told to the coordinator."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.application import metrics
from rota.application.ports.coordinator import Coordinator, TaskQueue, WorkerPool
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.store import TaskStore
from rota.application.reign import Reign
from rota.domain.attempt import Attempt
from rota.domain.events import Event, EventKind
from rota.domain.queue import QueueEntry
from rota.domain.task import PENDING, PROCESSING, RETRYING, TaskState, Transition

STOP_KEPT = timedelta(minutes=1)  # how long a request to stop is kept at most; a worker with tasks looks twice a second
KINDS = {PENDING: EventKind.TASK_RELEASED, RETRYING: EventKind.TASK_RETRYING}  # all else is an end


@dataclass(frozen=True, slots=True)
class TypedStep:
    """A step, with the type of its task for the figures."""

    type: str
    step: Transition


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Writes steps that take attempts back or end them, and queues what is to run again.

    If the coordinator fails after the write, the rows say what is true and reconciliation queues them.
    """

    tasks: TaskStore
    coordinator: Coordinator
    collector: MetricsCollector

    async def __call__(self, reign: Reign, steps: Sequence[TypedStep]) -> list[TypedStep]:
        """Those of the steps that count; the others came too late, because somebody else moved the task."""
        if not steps:
            return []
        reign.check()
        written = await self.tasks.advance([one.step for one in steps])
        done = [one for one in steps if one.step.task_id not in written.stale]
        for one in done:
            self._count(one)
        waiting = [one.step for one in done if one.step.after.status.is_waiting]
        await self.coordinator.queue.push([queue_entry(step.after, now=step.at) for step in waiting])
        await self.coordinator.signals.publish([_event(one) for one in done])
        return done

    def _count(self, one: TypedStep) -> None:
        status = one.step.after.status
        if status is RETRYING:
            self.collector.add(metrics.TASKS_RETRIED, one.type)
        elif status.is_final:
            self.collector.add(metrics.TASKS_ENDED, one.type, status)


def queue_entry(state: TaskState, *, now: datetime) -> QueueEntry:
    """Where a waiting task belongs: among the ready ones if it is due, else among the delayed."""
    return QueueEntry(state.id, state.priority, due_at=state.due_at if state.due_at > now else None)


async def wake_for_deferred(queue: TaskQueue, ended: Iterable[Transition]) -> None:
    """Dispatch looks again at once where a deferred attempt has ended: it counted towards the limit of its type.

    The end of one that a worker holds is acknowledged by that worker, and this wakes as well."""
    if any(step.before.is_deferred for step in ended):
        await queue.wake()


def running_attempts(states: Iterable[TaskState]) -> list[Attempt]:
    """The attempts that these tasks are at; of those that wait, none."""
    running = [state for state in states if state.status is PROCESSING]
    return [Attempt(state.id, state.attempt, state.worker_id) for state in running if state.worker_id is not None]


async def list_let_go(pool: WorkerPool, ended: Sequence[Attempt]) -> list[Attempt]:
    """Those of some attempts that have ended by the store's word which their workers do not hold, by theirs.

    What a worker still holds fills a slot of it: whoever acknowledged that would make room where there is none. One
    that has not said anything yet has not said that it holds nothing."""
    if not ended:
        return []
    beats = await pool.list_beats()
    held = {worker_id: beat.held for worker_id, beat in beats.items()}
    return [one for one in ended if one.worker_id in held and (one.task_id, one.number) not in held[one.worker_id]]


def _event(one: TypedStep) -> Event:
    before, after = one.step.before, one.step.after
    return Event(
        kind=KINDS.get(after.status, EventKind.TASK_FAILED),
        at=one.step.at,
        tenant_id=after.tenant_id,
        task_id=after.id,
        task_type=one.type,
        status=after.status,
        attempt=after.attempt,
        worker_id=before.worker_id,
    )
