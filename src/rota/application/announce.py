"""Telling of tasks that were committed just now: counted, queued, and told to whoever listens.

Should that fail, nothing is lost: the rows are there, and reconciliation queues them.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

import structlog

from rota.application import metrics
from rota.application.node import Node
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event, EventKind
from rota.domain.firing import Run, given_to
from rota.domain.queue import QueueEntry
from rota.domain.task import PENDING, LiveTask, Task

log = structlog.get_logger(__name__)


async def announce_tasks(node: Node, fresh: Sequence[Task]) -> None:
    """Tell of tasks."""
    await _announce(node, [_entry(task) for task in fresh], events=[_created(task) for task in fresh])


async def announce_runs(node: Node, runs: Sequence[Run]) -> None:
    """The same of runs of schedules, all of them due, without making their tasks first: a hundred thousand may be due
    in the same second."""
    entries = [QueueEntry(run.task_id, given_to(run.config)[1]) for run in runs]
    await _announce(node, entries, events=[_started(run) for run in runs])


async def _announce(node: Node, entries: Sequence[QueueEntry], *, events: Sequence[Event]) -> None:
    for task_type, number in Counter([event.task_type for event in events]).items():
        node.collector.add(metrics.TASKS_CREATED, task_type, amount=number)
    told = asyncio.gather(node.coordinator.queue.push(entries), node.coordinator.signals.publish(events))
    try:
        await told
    except CoordinatorUnavailableError as exc:
        log.warning("submit.not_queued", tasks=len(entries), error=str(exc))


def _entry(task: Task) -> QueueEntry:
    is_told = task.state.status is PENDING  # that is what a hint says of it
    added = LiveTask(state=task.state, type=task.spec.type, timeout=task.spec.timeout) if is_told else None
    scheduled_at = task.spec.scheduled_at
    due_at = None if scheduled_at is None or scheduled_at <= task.spec.created_at else scheduled_at
    return QueueEntry(task.id, task.state.priority, due_at=due_at, added=added)


def _created(task: Task) -> Event:
    return Event(
        kind=EventKind.TASK_CREATED,
        at=task.spec.created_at,
        tenant_id=task.spec.tenant_id,
        task_id=task.id,
        task_type=task.spec.type,
        status=task.state.status,
    )


def _started(run: Run) -> Event:
    config = run.config
    return Event(
        kind=EventKind.TASK_CREATED,
        at=run.now,
        tenant_id=config.tenant_id,
        task_id=run.task_id,
        task_type=config.type,
        status=PENDING,
    )
