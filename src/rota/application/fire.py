"""Firing schedules: a duty of the leader.

It is woken when the next target is due, at least once a second, and asks the store alone what the time is: the leader's
own clock may be an hour wrong. What becomes of a target is decided in the domain and written by the store in one
transaction with the task and the next fire time, while that is still the one the decision began from. So two leaders at
once, or one that dies anywhere in here, fire nothing twice and leave nothing out; a task that was written and not
queued is found by reconciliation.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from rota.application import metrics
from rota.application.calendars import calendars_of_all
from rota.application.failing import pause_failing
from rota.application.node import Node
from rota.application.reign import Reign
from rota.application.steer import SteerTasks
from rota.application.submit import announce
from rota.domain.errors import ConflictError, FencedError, InvalidError, NotFoundError
from rota.domain.firing import (
    Decision,
    Decisions,
    Firing,
    LastRun,
    firing_failed,
    firing_of,
    skip_unreadable,
    task_for,
)
from rota.domain.ids import TaskId
from rota.domain.schedule import Occurrence, Overlap, Schedule
from rota.domain.task import PENDING, Task
from rota.domain.task_config import TaskConfig, UnreadableConfig

LONGEST_SLEEP = timedelta(seconds=1)  # a new schedule, or a clock that was set, is noticed by then
SHORTEST_SLEEP = timedelta(milliseconds=5)
MOST_AT_ONCE = 500  # occurrences that are written in one go; a long catch-up of one config may be more
READ_AHEAD = 4  # times as many configs are read in one go
IN_FLIGHT = 3  # batches that are written or announced while the next one is prepared
SLICE = 50  # configs that are decided upon in one go: some 2 ms, in which the loop does nothing else

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class FireSchedules:
    """Turn what is due into tasks. One for a process; called again and again while it leads."""

    node: Node
    most: int = MOST_AT_ONCE
    _next_at: datetime | None = field(default=None, init=False)

    def pause(self) -> timedelta:
        """How long there is nothing to do, as far as was known at the last call."""
        if self._next_at is None:
            return LONGEST_SLEEP
        return min(max(self._next_at - self.node.time.now(), SHORTEST_SLEEP), LONGEST_SLEEP)

    async def __call__(self, reign: Reign) -> None:
        schedules = self.node.store.schedules
        self._next_at = None
        while due := await schedules.list_due(self.most * READ_AHEAD):
            await self.node.time.sync()  # after the list: all of it is due by the time known now
            try:
                await self._fire(due, reign)
            except ExceptionGroup as failures:  # of several that fail at once, that the reign is over counts most
                fenced, others = failures.split(FencedError)
                raise (fenced or others or failures).exceptions[0] from failures
        self._next_at = await schedules.find_next()

    async def _fire(self, due: Sequence[TaskConfig | UnreadableConfig], reign: Reign) -> None:
        """Prepare and write in turns: the store works on one batch while the next one is made."""
        now, room = self.node.time.now(), asyncio.Semaphore(IN_FLIGHT)
        readable = await pause_failing(self.node, [one for one in due if isinstance(one, TaskConfig)])
        looked_at: list[TaskConfig | UnreadableConfig] = [one for one in due if isinstance(one, UnreadableConfig)]
        looked_at += readable
        last = await self._find_last_runs(readable)
        decisions = Decisions(now, await calendars_of_all(self.node.store.calendars, readable))
        async with asyncio.TaskGroup() as writing:
            part: list[Firing] = []
            weight = 0
            for place, config in enumerate(looked_at):
                firing = await self._prepare(config, decisions, last=last, reign=reign)
                if part and weight + firing.weight > self.most:
                    await room.acquire()
                    writing.create_task(self._write(part, decisions.now, reign=reign, room=room))
                    part, weight = [], 0
                part.append(firing)
                weight += firing.weight
                if place % SLICE == SLICE - 1:
                    await self.node.clock.sleep(timedelta(0))
            await room.acquire()
            writing.create_task(self._write(part, decisions.now, reign=reign, room=room))

    async def _write(self, part: Sequence[Firing], now: datetime, *, reign: Reign, room: asyncio.Semaphore) -> None:
        try:
            reign.check()
            answers = await self.node.store.schedules.fire(part)
            noted = [one for answer in answers for one in answer]
            ids = {one.task_id for one in noted}
            self._count(noted, now)
            await announce(self.node, [task for firing in part for task in firing.tasks if task.id in ids])
        finally:
            room.release()

    async def _prepare(
        self,
        config: TaskConfig | UnreadableConfig,
        decisions: Decisions,
        *,
        last: Mapping[TaskId, LastRun],
        reign: Reign,
    ) -> Firing:
        """What to write about one config. One that is broken must not hold up the others."""
        if isinstance(config, UnreadableConfig):
            log.error("schedule.unreadable", task_type=config.type, tenant=config.tenant_id, error=config.problem)
            return skip_unreadable(config, decisions.now)
        run = LastRun() if config.last_run is None else last.get(config.last_run, LastRun())
        try:
            decision = decisions.about(config, run)
            firing = firing_of(config, decision, tasks=self._make_tasks(config, decision, now=decisions.now))
        except InvalidError as exc:
            log.warning("schedule.failed", task_type=config.type, tenant=config.tenant_id, error=str(exc))
            return firing_failed(config, decisions.now, problem=str(exc))
        if decision.ends_last_run and config.last_run is not None:
            reign.check()
            await self._end(config, config.last_run)
        return firing

    def _make_tasks(self, config: TaskConfig, decision: Decision, *, now: datetime) -> list[Task]:
        targets = [plan.target for plan in decision.plans if plan.fires]
        pairs = zip(targets, self.node.ids.take(len(targets)), strict=True)
        return [task_for(config, target, task_id=TaskId(task_id), now=now) for target, task_id in pairs]

    async def _find_last_runs(self, due: Sequence[TaskConfig]) -> Mapping[TaskId, LastRun]:
        """Where the last runs stand of those configs whose next one depends on it."""
        asked = [config for config in due if config.last_run is not None and _looks_back(config.schedule)]
        ids = [config.last_run for config in asked if config.last_run is not None]
        live = await self.node.store.tasks.find_live(ids)
        found = {one.id: LastRun(is_live=True, has_begun=one.state.status is not PENDING) for one in live}
        waiting = [config.last_run for config in asked if config.schedule and config.schedule.after_end is not None]
        ended = await self.node.store.tasks.load([one for one in waiting if one is not None and one not in found])
        return found | {one: LastRun(ended_at=task.state.completed_at) for one, task in ended.items()}

    async def _end(self, config: TaskConfig, task_id: TaskId) -> None:
        is_hard = config.schedule is not None and config.schedule.overlap is Overlap.KILL_RUNNING
        steer, reason = SteerTasks(self.node), "the next run is due"
        try:
            await steer.cancel(task_id, config.tenant_id, reason=reason, is_hard=is_hard)
        except (ConflictError, NotFoundError):  # it has ended meanwhile
            log.debug("schedule.nothing_to_cancel", task_id=task_id)

    def _count(self, noted: Sequence[Occurrence], now: datetime) -> None:
        results = Counter(one.reason.partition(":")[0] or "fired" for one in noted)
        for result, number in results.items():
            self.node.collector.add(metrics.SCHEDULE_TARGETS, result, amount=number)
        for one in noted:
            if one.task_id is not None:
                late = max((now - one.fire_at).total_seconds(), 0.0)
                self.node.collector.observe(metrics.SCHEDULE_LATENESS_SECONDS, value=late)


def _looks_back(schedule: Schedule | None) -> bool:
    is_free = (Overlap.ALLOW, Overlap.QUEUE_ALL)
    return schedule is not None and (schedule.after_end is not None or schedule.overlap not in is_free)
