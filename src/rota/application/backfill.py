"""Backfill: the runs of past targets, made up for on request.

A backfill has a name, and each of its targets makes one task under it, however often it is asked for: whoever lost
count asks again. What may have fired so long ago that it is not on record any more runs only where everything is asked
for. It is done page by page, in an order that can be told, so that whoever asks decides how many run at once by waiting
for those of a page before asking for the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from rota.application.audit import Actor
from rota.application.calendars import calendars_of
from rota.application.node import Node
from rota.application.ports.store import Added
from rota.application.retain import Retention
from rota.application.submit import SubmitTasks
from rota.domain.checks import check_instant, check_name, check_number
from rota.domain.errors import InvalidError, NotFoundError
from rota.domain.firing import target_at
from rota.domain.ids import TaskId, TenantId
from rota.domain.schedule import Schedule
from rota.domain.submission import Submission, check_enabled, wish_for
from rota.domain.task_config import TaskConfig
from rota.domain.timetable import Planned, SkipReason, Timetable

MOST_TARGETS = 10_000  # of one backfill
MOST_PAGE = 1_000
SLICE = 200  # targets in one go: some 5 ms
TOO_OLD = "older than task.retention, so that nobody knows whether it fired: --all (only_missing=false) runs it"
_TICK = timedelta(microseconds=1)


class Order(StrEnum):
    OLDEST = "oldest"
    NEWEST = "newest"


class Action(StrEnum):
    """What becomes of a target of a backfill."""

    RUN = "run"  # a task was made; in a dry run: would be
    REPEAT = "repeat"  # this backfill made its task before
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Which targets of a type are made up for, and how."""

    begin: datetime
    end: datetime  # the first moment that is not in it
    name: str = "backfill"
    order: Order = Order.OLDEST
    only_missing: bool = True  # leave out what fired in its time, or will
    payload: Any = None  # None: that of the schedule, or of the config
    is_dry: bool = False

    def __post_init__(self) -> None:
        check_instant("begin", self.begin)
        check_instant("end", self.end)
        check_name("name", self.name, longest=63)
        if self.begin >= self.end:
            raise InvalidError("end", "must be later than begin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What became of one target."""

    fire_at: datetime
    action: Action
    task_id: TaskId | None = None
    reason: str = ""  # of a skip


@dataclass(frozen=True, slots=True)
class Place:
    """How far a backfill is: by time, so that targets which a changed schedule brings or takes away shift nothing."""

    last: datetime  # the target that was dealt with last
    total: int

    def __post_init__(self) -> None:
        check_instant("cursor", self.last)
        check_number("cursor", self.total, least=0, most=MOST_TARGETS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    total: int  # targets in the whole range, when it was begun
    made: Sequence[Made]
    next_place: Place | None  # None: that was the last page


@dataclass(slots=True)
class Backfill:
    node: Node
    submit: SubmitTasks
    retention: Retention = field(default_factory=Retention)

    def tune(self, retention: Retention) -> None:
        """Things are kept for so long from now on."""
        self.retention = retention

    async def __call__(
        self, key: tuple[TenantId, str], wanted: Range, *, place: Place | None, limit: int, actor: Actor | None = None
    ) -> Page:
        """Make the tasks of one page of the targets, or with `is_dry` say which they would be.

        The first page is from no place; what the whole range has is listed for that one alone."""
        check_number("limit", limit, least=1, most=MOST_PAGE)
        if wanted.end > self.node.time.now():
            raise InvalidError("end", "must not lie in the future: the schedule itself fires what is to come")
        config = await self.node.store.configs.find(*key)
        if config is None:
            raise NotFoundError("task config", key[1])
        check_enabled(config)  # a dry run, too, promises nothing that would be refused
        if config.schedule is None:
            raise NotFoundError("schedule", config.type)
        table = await self._find_table(config, config.schedule)
        last, most = (None, MOST_TARGETS) if place is None else (place.last, limit)
        targets = await self._list_targets(table, wanted, last=last, most=most + 1)
        if place is None and len(targets) > most:
            problem = f"leaves more than {most} targets since begin; make up for a shorter range first"
            raise InvalidError("end", problem)
        total = len(targets) if place is None else place.total
        page = [table.judge(Planned(target=at, due_at=at)) for at in targets[:limit]]
        judged = await self._without_fired(config, page, table=table) if wanted.only_missing else page
        made = await self._run(config, judged, wanted=wanted, actor=actor)
        following = Place(page[-1].target, total) if len(targets) > limit else None
        return Page(total=total, made=made, next_place=following)

    async def _find_table(self, config: TaskConfig, schedule: Schedule) -> Timetable:
        if schedule.after_end is not None:
            raise InvalidError("type", "has a schedule that waits for the end of its runs: no target was missed")
        calendars = await calendars_of(self.node.store.calendars, config.tenant_id, schedule=schedule)
        return Timetable(schedule, seed=config.type, calendars=calendars)

    async def _list_targets(
        self, table: Timetable, wanted: Range, *, last: datetime | None, most: int
    ) -> Sequence[datetime]:
        """So many targets of the range, in the order wanted, that come after the last one."""
        is_oldest = wanted.order is Order.OLDEST
        step = table.next if is_oldest else table.previous
        targets: list[datetime] = []
        at = step(last or (wanted.begin - _TICK if is_oldest else wanted.end))
        while at is not None and wanted.begin <= at < wanted.end and len(targets) < most:
            targets.append(at)
            if len(targets) % SLICE == 0:
                await self.node.clock.sleep(timedelta(0))
            at = step(at)
        return targets

    async def _without_fired(
        self, config: TaskConfig, page: Sequence[Planned], *, table: Timetable
    ) -> Sequence[Planned]:
        known = await self.node.store.schedules.find_occurrences(
            config.tenant_id, config.type, times=[one.target for one in page]
        )
        since = self.retention.occurrences_since(self.node.time.now())  # asked after: meanwhile some may be deleted
        reasons = {one.target: TOO_OLD for one in page if one.target < since and one.target not in known}
        reasons |= {at: "fired in its time" for at, one in known.items() if one.task_id is not None}
        if config.can_fire and config.next_fire_at is not None:  # jitter, or a leader that is behind
            pending = target_at(table, config, seen_at=config.next_fire_at)
            reasons |= {one.target: "the schedule is still to fire it" for one in page if one.target >= pending}
        return [
            replace(one, reason=SkipReason.COALESCED, detail=reasons[one.target])
            if one.target in reasons and one.fires
            else one
            for one in page
        ]

    async def _run(
        self, config: TaskConfig, page: Sequence[Planned], *, wanted: Range, actor: Actor | None
    ) -> Sequence[Made]:
        firing = [plan.target for plan in page if plan.fires]
        wishes = [wish_for(config, target, backfill=wanted.name, payload=wanted.payload) for target in firing]
        if wanted.is_dry:
            added = await self._find_added(wishes)
        else:
            added = await self.submit.submit_many(wishes, actor=actor) if wishes else []
        answers = dict(zip(firing, added, strict=True))
        return [_made(plan, answers.get(plan.target)) for plan in page]

    async def _find_added(self, wishes: Sequence[Submission]) -> Sequence[Added | None]:
        """The tasks that were made of these wishes before."""
        keys = [wish.idempotency_key or "" for wish in wishes]
        known = await self.node.store.tasks.find_by_keys(wishes[0].tenant_id, keys) if wishes else {}
        return [Added(known[key], is_repeat=True) if key in known else None for key in keys]


def _made(plan: Planned, added: Added | None) -> Made:
    if not plan.fires:
        return Made(fire_at=plan.target, action=Action.SKIP, reason=plan.detail)
    if added is None:
        return Made(fire_at=plan.target, action=Action.RUN)
    action = Action.REPEAT if added.is_repeat else Action.RUN
    return Made(fire_at=plan.target, action=action, task_id=added.task_id)
