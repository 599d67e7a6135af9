"""Firing schedules: a duty of the leader.

It is woken when the next target is due, at least once a second, and asks the store alone what the time is: the leader's
own clock may be an hour wrong. What becomes of a target is decided in the domain and written by the store in one
transaction with the task and the next fire time, while that is still the one the decision began from. So two leaders at
once, or one that dies anywhere in here, fire nothing twice and leave nothing out; a task that was written and not
queued is found by reconciliation.

Most of it is decided before its time (`look_ahead.py`), so that it is only written then.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import cast

import structlog

from rota.application import metrics
from rota.application.announce import announce_runs, announce_tasks
from rota.application.calendars import calendars_of_all
from rota.application.failing import pause_failing
from rota.application.look_ahead import Decided, LookAhead
from rota.application.node import Node
from rota.application.ports.store import fire_key_of
from rota.application.reign import Reign
from rota.application.steer import SteerTasks
from rota.application.task_group import Begin, task_group
from rota.domain.broken import firing_failed, skip_unreadable
from rota.domain.decisions import Decisions
from rota.domain.errors import ConflictError, FencedError, InvalidError, NotFoundError
from rota.domain.firing import (
    NEVER_RAN,
    Firing,
    LastRun,
    Run,
    due_of,
    firing_of,
    looks_back,
)
from rota.domain.ids import TaskId
from rota.domain.schedule import Occurrence, Overlap
from rota.domain.task import PENDING, Task, TaskState
from rota.domain.task_config import TaskConfig, UnreadableConfig

LONGEST_SLEEP = timedelta(seconds=1)  # a new schedule, or a clock that was set, is noticed by then
SHORTEST_SLEEP = timedelta(milliseconds=5)
MOST_AT_ONCE = 1000  # occurrences that are written in one go; a long catch-up of one config may be more
READ_AT_ONCE = 2000  # configs
IN_FLIGHT = 4  # batches that are written or announced while the next one is prepared
SLICE = 50  # configs that are decided upon in one go: some 2 ms, in which the loop does nothing else

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class FireSchedules:
    """Turn what is due into tasks. One for a process; called again and again while it leads."""

    node: Node
    most: int = MOST_AT_ONCE
    _ahead: LookAhead = field(init=False)
    _room: asyncio.Semaphore = field(init=False)
    _reign: Reign | None = field(default=None, init=False)
    _next_at: datetime | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._ahead = LookAhead(self.node)
        self._room = asyncio.Semaphore(IN_FLIGHT)

    def pause(self) -> timedelta:
        """How long there is nothing to do, as far as was known at the last call."""
        longest = self.node.loops.guard(LONGEST_SLEEP)
        if self._next_at is None:
            return longest
        return min(max(self._next_at - self.node.time.now(), SHORTEST_SLEEP), longest)

    async def __call__(self, reign: Reign) -> None:
        if reign is not self._reign:  # what was decided in another one may be long past
            self._ahead.clear()
            self._reign = reign
        self._next_at = None
        try:
            await self._fire(reign)
        except ExceptionGroup as failures:  # of several that fail at once, that the reign is over counts most
            fenced, others = failures.split(FencedError)
            raise (fenced or others or failures).exceptions[0] from failures
        self._next_at = await self.node.store.schedules.find_next()
        await self._ahead(self._next_at)

    async def _fire(self, reign: Reign) -> None:
        while True:
            if self._ahead.has_due():
                await self.node.time.sync()
                async with task_group() as begin:
                    await self._hand_over(self._batches([], self._ahead.take_due()), begin, reign=reign)
            due = await self._list_due()
            if not due:
                return
            if not self._ahead.has_due():  # else their time has come just now, and they need not be decided upon again
                await self._sweep(due, reign)

    async def _list_due(self) -> list[TaskConfig | UnreadableConfig]:
        due = await self.node.store.schedules.list_due(READ_AT_ONCE)
        if not due:
            return due
        await self.node.time.sync()  # after the list: all of it is due by the time known now, unless the clock was set
        now = self.node.time.now()
        return [one for one in due if due_of(one) <= now]

    async def _sweep(self, due: list[TaskConfig | UnreadableConfig], reign: Reign) -> None:
        by = self.node.time.now()
        async with task_group() as begin:
            while due:
                skipped, decided = await self._decide(due, reign, now=by)
                await self._hand_over(self._batches(skipped, decided), begin, reign=reign)
                # While it is written, the next page is read.
                due = await self._list_behind(due[-1], by=by) if len(due) == READ_AT_ONCE else []

    async def _list_behind(
        self, last: TaskConfig | UnreadableConfig, *, by: datetime
    ) -> list[TaskConfig | UnreadableConfig]:
        return await self.node.store.schedules.list_due(READ_AT_ONCE, by=by, after=fire_key_of(last))

    async def _decide(
        self, due: Sequence[TaskConfig | UnreadableConfig], reign: Reign, *, now: datetime
    ) -> tuple[list[Firing], list[Decided]]:
        readable = await pause_failing(self.node, [one for one in due if isinstance(one, TaskConfig)])
        skipped = [_skip(one, now) for one in due if isinstance(one, UnreadableConfig)]
        last = await self._find_last_runs(readable)
        decisions = Decisions(now, await calendars_of_all(self.node.store.calendars, readable))
        decided: list[Decided] = []
        for place, config in enumerate(readable):
            run = NEVER_RAN if config.last_run is None else last.get(config.last_run, NEVER_RAN)
            try:
                decision = decisions.about(config, run)
            except InvalidError as exc:  # one that is broken must not hold up the others
                skipped.append(_fail(config, exc, now=now))
                continue
            if decision.ends_last_run and config.last_run is not None:
                reign.check()
                await self._end(config, config.last_run)
            decided.append((config, decision))
            if place % SLICE == SLICE - 1:
                await self.node.clock.sleep(timedelta(0))
        return skipped, decided

    async def _hand_over(self, batches: Iterable[Sequence[Firing]], begin: Begin, *, reign: Reign) -> None:
        """Make and write firings in turns: the store works on one batch while the next one is made."""
        for part in batches:
            await self._room.acquire()
            # Not by the write itself: one that is cancelled before it begins would never give its room back.
            begin(self._write(part, reign)).add_done_callback(lambda _: self._room.release())

    def _batches(self, skipped: Sequence[Firing], decided: Iterable[Decided]) -> Iterator[Sequence[Firing]]:
        now, part, weight = self.node.time.now(), list(skipped), sum(one.weight for one in skipped)
        waiting: list[Decided] = []
        for one in decided:
            added = len(one[1].plans) or 1
            if weight and weight + added > self.most:
                yield [*part, *self._make(waiting, now)]
                part, waiting, weight = [], [], 0
            waiting.append(one)
            weight += added
        if weight:
            yield [*part, *self._make(waiting, now)]

    def _make(self, decided: Sequence[Decided], now: datetime) -> Iterator[Firing]:
        """With ids that are taken together: a row of them without a gap is named by its ends."""
        taken = self.node.ids.take(sum([len(decision.targets) for _, decision in decided]))
        ids = iter(cast("list[TaskId]", taken))  # to name each takes as long as to make its run
        for config, decision in decided:
            try:
                yield firing_of(config, decision, task_ids=list(islice(ids, len(decision.targets))), now=now)
            except InvalidError as exc:
                yield _fail(config, exc, now=now)

    async def _write(self, part: Sequence[Firing], reign: Reign) -> None:
        reign.check()
        now = self.node.time.now()
        answers = await self.node.store.schedules.fire(part)
        self._count(part, answers, now=now)
        runs, tasks = list[Run](), list[Task]()
        for firing, noted in zip(part, answers, strict=True):
            if not isinstance(firing, Run):
                ids = {one.task_id for one in noted}
                tasks += [task for task in firing.tasks if task.id in ids]
            elif noted:
                runs.append(firing)
        await announce_runs(self.node, runs)
        await announce_tasks(self.node, tasks)

    async def _find_last_runs(self, due: Sequence[TaskConfig]) -> Mapping[TaskId, LastRun]:
        """Where the last runs stand of those configs whose next one depends on it."""
        asked = [config for config in due if config.last_run is not None and looks_back(config.schedule)]
        ids = [config.last_run for config in asked if config.last_run is not None]
        live = await self.node.store.tasks.find_live(ids)
        found = {one.id: _stands(one.state) for one in live}
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

    def _count(self, part: Sequence[Firing], answers: Sequence[Sequence[Occurrence]], *, now: datetime) -> None:
        """Most of a batch have the same time, and no reason: that is looked at once."""
        for reason, number in Counter([one.reason for noted in answers for one in noted]).items():
            self.node.collector.add(metrics.SCHEDULE_TARGETS, reason.partition(":")[0] or "fired", amount=number)
        # The first target of a firing was due when that was to look at it: its jitter has passed by then.
        due = [
            max(one.fire_at, firing.seen_at)
            for firing, noted in zip(part, answers, strict=True)
            for one in noted
            if one.task_id is not None
        ]
        for due_at, number in Counter(due).items():
            late = max((now - due_at).total_seconds(), 0.0)
            self.node.collector.observe(metrics.SCHEDULE_LATENESS_SECONDS, value=late, times=number)


def _stands(state: TaskState) -> LastRun:
    return LastRun(is_live=True, has_begun=state.status is not PENDING, was_tried=state.attempt > 0)


def _skip(config: UnreadableConfig, now: datetime) -> Firing:
    log.error("schedule.unreadable", task_type=config.type, tenant=config.tenant_id, error=config.problem)
    return skip_unreadable(config, now)


def _fail(config: TaskConfig, problem: InvalidError, *, now: datetime) -> Firing:
    log.warning("schedule.failed", task_type=config.type, tenant=config.tenant_id, error=str(problem))
    return firing_failed(config, now, problem=str(problem))
