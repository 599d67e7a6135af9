"""Schedules that pause themselves: so many of their runs failed in a row that somebody should look.

Asked before each target, of the store alone, so that no leader has to remember anything. Only runs that were made since
the config last changed count: resuming it, or changing what was wrong, begins anew.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import structlog

from rota.application import metrics
from rota.application.node import Node
from rota.domain.errors import CoordinatorUnavailableError, InvalidError, RevisionConflictError
from rota.domain.events import Event, EventKind
from rota.domain.firing import count_failures
from rota.domain.schedule import Schedule
from rota.domain.task import SUCCESS, Task
from rota.domain.task_config import TaskConfig

LOOKED_BEYOND = 50  # runs that go on or were cancelled, and so say nothing, among those that are looked at

log = structlog.get_logger(__name__)


async def pause_failing(node: Node, due: Sequence[TaskConfig]) -> Sequence[TaskConfig]:
    """The configs, with those paused, in the store too, whose runs failed so often in a row."""
    asked = [one for one in due if _may_pause(one.schedule) and one.last_run is not None]
    if not asked:
        return due
    last = await node.store.tasks.load([one.last_run for one in asked if one.last_run is not None])
    paused = {}
    for config in asked:
        run = last.get(config.last_run) if config.last_run is not None else None
        if config.schedule is not None and run is not None and run.state.status is not SUCCESS:
            paused[config.tenant_id, config.type] = await _judge(node, config, schedule=config.schedule)
    return [paused.get((one.tenant_id, one.type), one) for one in due]


def _may_pause(schedule: Schedule | None) -> bool:
    return schedule is not None and schedule.pause_after_failures is not None and not schedule.is_paused


async def _judge(node: Node, config: TaskConfig, *, schedule: Schedule) -> TaskConfig:
    most = schedule.pause_after_failures or 0
    runs = await _list_runs(node, config, most=most + LOOKED_BEYOND)
    if count_failures(task.state.status for task in runs) < most:
        return config
    note = f"paused after {most} failed runs in a row; the last one was task {_last_failed(runs)}"
    try:
        wanted = replace(config, schedule=replace(schedule, is_paused=True, pause_note=note), updated_by="")
        stored = await node.store.configs.put(wanted, expected_revision=config.revision)
    except RevisionConflictError:  # somebody just changed it, perhaps what was wrong; judged with the next target
        return config
    except InvalidError as exc:  # nothing like it can be stored any more; it must not hold up the others
        log.warning("schedule.not_paused", task_type=config.type, tenant=config.tenant_id, error=str(exc))
        return config
    node.configs.forget(config.tenant_id, config.type)
    log.warning("schedule.paused", task_type=config.type, tenant=config.tenant_id, failures=most)
    node.collector.add(metrics.SCHEDULES_PAUSED)
    await _tell(node, config)
    return stored


async def _list_runs(node: Node, config: TaskConfig, *, most: int) -> list[Task]:
    """What the schedule ran since the config changed, newest first."""
    since = config.updated_at or node.time.now()
    noted = await node.store.schedules.list_runs(config.tenant_id, config.type, since=since, limit=most)
    found = await node.store.tasks.load([one.task_id for one in noted if one.task_id is not None])
    return [found[one.task_id] for one in noted if one.task_id in found]


def _last_failed(runs: Iterable[Task]) -> int:
    return next(task.id for task in runs if count_failures([task.state.status]))


async def _tell(node: Node, config: TaskConfig) -> None:
    kind, at = EventKind.SCHEDULE_PAUSED, node.time.now()
    event = Event(kind=kind, at=at, tenant_id=config.tenant_id, task_type=config.type)
    try:
        await node.coordinator.signals.publish([event])
    except CoordinatorUnavailableError as exc:  # an event is a hint: the config says the same
        log.warning("schedule.pause_not_told", task_type=config.type, error=str(exc))
