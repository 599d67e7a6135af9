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
from rota.domain.firing import count_failures, schedule_of
from rota.domain.ids import TaskId
from rota.domain.schedule import MAX_FAILURES, Schedule
from rota.domain.task import SUCCESS, Task
from rota.domain.task_config import ConfigKey, TaskConfig

LOOKED_BEYOND = 50  # runs that go on or were cancelled, and so say nothing, among those that are looked at
JUDGED_AT_ONCE = 50  # configs

log = structlog.get_logger(__name__)


async def pause_failing(node: Node, due: Sequence[TaskConfig]) -> Sequence[TaskConfig]:
    """The configs, with those paused, in the store too, whose runs failed so often in a row."""
    asked = [one for one in due if _may_pause(one.schedule) and one.last_run is not None]
    if not asked:
        return due
    last = await node.store.tasks.load([one.last_run for one in asked if one.last_run is not None])
    doubtful = [one for one in asked if _is_doubtful(last.get(one.last_run) if one.last_run is not None else None)]
    paused = {}
    for begin in range(0, len(doubtful), JUDGED_AT_ONCE):
        part = doubtful[begin : begin + JUDGED_AT_ONCE]
        for config, runs in zip(part, await _list_runs(node, part), strict=True):
            if count_failures(task.state.status for task in runs) >= _most(config):
                paused[config.tenant_id, config.type] = await _pause(node, config, last_failed=_last_failed(runs))
    return [paused.get((one.tenant_id, one.type), one) for one in due]


def _is_doubtful(last: Task | None) -> bool:
    return last is not None and last.state.status is not SUCCESS


def _most(config: TaskConfig) -> int:
    """How many runs may fail in a row."""
    return schedule_of(config).pause_after_failures or MAX_FAILURES


def _may_pause(schedule: Schedule | None) -> bool:
    return schedule is not None and schedule.pause_after_failures is not None and not schedule.is_paused


async def _pause(node: Node, config: TaskConfig, *, last_failed: TaskId) -> TaskConfig:
    most = _most(config)
    note = f"paused after {most} failed runs in a row; the last one was task {last_failed}"
    paused = replace(schedule_of(config), is_paused=True, pause_note=note)
    try:
        wanted = replace(config, schedule=paused, updated_by="")
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


async def _list_runs(node: Node, configs: Sequence[TaskConfig]) -> list[list[Task]]:
    """What the schedule of each ran since the config changed, newest first, as far as it takes to judge it.

    A few questions for all of them: most are judged by their newest runs, which are read before all others."""
    near = await _read_runs(node, configs, beyond=1)
    unclear = [one for one in configs if not _is_clear(near[one.tenant_id, one.type], _most(one))]
    far = await _read_runs(node, unclear, beyond=LOOKED_BEYOND) if unclear else {}
    return list((near | far).values())


async def _read_runs(node: Node, configs: Sequence[TaskConfig], *, beyond: int) -> dict[ConfigKey, list[Task]]:
    limits = {(one.tenant_id, one.type): _most(one) + beyond for one in configs}
    since = {(one.tenant_id, one.type): one.updated_at or node.time.now() for one in configs}
    noted = await node.store.schedules.list_runs(since, limit=max(limits.values()))
    ids = {key: [one.task_id for one in noted[key][:limit] if one.task_id is not None] for key, limit in limits.items()}
    found = await node.store.tasks.load([one for its in ids.values() for one in its])
    return {key: [found[one] for one in its if one in found] for key, its in ids.items()}


def _is_clear(runs: Sequence[Task], most: int) -> bool:
    """Whether earlier runs would change nothing, or there are none."""
    statuses = [task.state.status for task in runs]
    return len(runs) <= most or SUCCESS in statuses or count_failures(statuses) >= most


def _last_failed(runs: Iterable[Task]) -> TaskId:
    return next(task.id for task in runs if count_failures([task.state.status]))


async def _tell(node: Node, config: TaskConfig) -> None:
    kind, at = EventKind.SCHEDULE_PAUSED, node.time.now()
    event = Event(kind=kind, at=at, tenant_id=config.tenant_id, task_type=config.type)
    try:
        await node.coordinator.signals.publish([event])
    except CoordinatorUnavailableError as exc:  # an event is a hint: the config says the same
        log.warning("schedule.pause_not_told", task_type=config.type, error=str(exc))
