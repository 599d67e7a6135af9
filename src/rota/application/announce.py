"""Telling of the runs that schedules made, as `submit.announce` tells of other tasks, without making the tasks first: a
hundred thousand may be due in the same second."""

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
from rota.domain.task import PENDING

log = structlog.get_logger(__name__)


async def announce_runs(node: Node, runs: Sequence[Run]) -> None:
    """Count, queue and tell of runs that were committed just now. All of them are due."""
    for task_type, number in Counter([run.config.type for run in runs]).items():
        node.collector.add(metrics.TASKS_CREATED, task_type, amount=number)
    told = asyncio.gather(
        node.coordinator.queue.push([QueueEntry(run.task_id, given_to(run.config)[1]) for run in runs]),
        node.coordinator.signals.publish([_created(run) for run in runs]),
    )
    try:
        await told
    except CoordinatorUnavailableError as exc:  # the rows are there: reconciliation queues them
        log.warning("schedule.not_queued", tasks=len(runs), error=str(exc))


def _created(run: Run) -> Event:
    config = run.config
    return Event(
        kind=EventKind.TASK_CREATED,
        at=run.now,
        tenant_id=config.tenant_id,
        task_id=run.task_id,
        task_type=config.type,
        status=PENDING,
    )
