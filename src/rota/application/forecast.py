"""What the schedules of a tenant would fire between two moments, and how much work that is.

Bounded: so many targets are looked at, in slices between which others get their turn; an answer that is not complete
says so. The work of a run is guessed from the last one of its schedule.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rota.application.calendars import calendars_of_all
from rota.application.node import Node
from rota.domain.checks import check_instant, check_number
from rota.domain.errors import InvalidError, NotFoundError
from rota.domain.firing import NO_CALENDARS, Calendars, due_of, target_at
from rota.domain.ids import TenantId
from rota.domain.schedule import MAX_RUNS, Schedule
from rota.domain.task_config import TaskConfig
from rota.domain.timetable import Planned, SkipReason, Timetable

MOST_LOOKED_AT = 50_000  # targets, for one answer: about a second of work
MOST_BUCKETS = 1_000
MOST_TYPES = 1_000  # that an answer lists
LONGEST = timedelta(days=366)
PAGE = 500
SLICE = 200  # targets in one go: some 5 ms
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What a forecast is asked about."""

    begin: datetime
    end: datetime
    buckets: int = 24
    types: frozenset[str] = frozenset()  # none: all

    def __post_init__(self) -> None:
        check_instant("begin", self.begin)
        check_instant("end", self.end)
        check_number("buckets", self.buckets, least=1, most=MOST_BUCKETS)
        if not timedelta(0) < self.end - self.begin <= LONGEST:
            raise InvalidError("end", f"must be later than begin, by {LONGEST.days} days at most")

    @property
    def width(self) -> timedelta:
        """How long one bucket is."""
        return max((self.end - self.begin) / self.buckets, _TICK)

    def place(self, at: datetime) -> int:
        return min((at - self.begin) // self.width, self.buckets - 1)


@dataclass(slots=True)
class Load:
    """How many runs begin, and how long they will work together as far as that is known."""

    runs: int = 0
    work: timedelta = timedelta(0)


@dataclass(slots=True, kw_only=True)
class TypeLoad:
    """What one schedule would fire."""

    type: str
    runs: int = 0
    first: datetime | None = None
    last: datetime | None = None
    run_takes: timedelta | None = None  # as long as the last run took; None: nobody knows


@dataclass(slots=True)
class Forecast:
    span: Span
    buckets: list[Load]
    types: list[TypeLoad] = field(default_factory=list)  # those that fire, by type
    unforeseen: list[str] = field(default_factory=list)  # schedules about which nothing can be said
    is_complete: bool = True
    looked_at: int = 0

    @property
    def has_room(self) -> bool:
        return self.looked_at < MOST_LOOKED_AT and max(len(self.types), len(self.unforeseen)) < MOST_TYPES

    def add(self, load: TypeLoad, targets: Sequence[datetime]) -> None:
        for target in targets:
            bucket = self.buckets[self.span.place(target)]
            bucket.runs += 1
            bucket.work += load.run_takes or timedelta(0)
        if targets:
            load.runs, load.first, load.last = len(targets), targets[0], targets[-1]
            self.types.append(load)


@dataclass(frozen=True, slots=True)
class ForecastSchedules:
    node: Node

    async def __call__(self, tenant_id: TenantId, span: Span) -> Forecast:
        """What would fire, if nothing changed and every run began in time."""
        for name in span.types:
            if await self.node.store.configs.find(tenant_id, name) is None:
                raise NotFoundError("task config", name)
        made = Forecast(span, [Load() for _ in range(span.buckets)])
        async for page in self._pages(tenant_id, types=span.types):
            takes = await self._find_takes(page)
            calendars = await calendars_of_all(self.node.store.calendars, page)
            for config in page:
                if not made.has_room:
                    made.is_complete = False
                    return made
                load = TypeLoad(type=config.type, run_takes=takes.get(config.type))
                await self._add(made, config, load=load, calendars=calendars.get(tenant_id, NO_CALENDARS))
        return made

    async def _pages(self, tenant_id: TenantId, *, types: Collection[str]) -> AsyncIterator[Sequence[TaskConfig]]:
        """The configs that fire, by type."""
        after = ""
        while page := await self.node.store.configs.list_page(tenant_id, after=after, limit=PAGE):
            yield [one for one in page if _fires(one) and (not types or one.type in types)]
            after = page[-1].type

    async def _find_takes(self, configs: Sequence[TaskConfig]) -> Mapping[str, timedelta]:
        ids = [one.last_run for one in configs if one.last_run is not None]
        runs = (await self.node.store.tasks.load(ids)).values() if ids else ()
        return {
            run.spec.type: run.state.completed_at - run.state.started_at
            for run in runs
            if run.state.completed_at is not None and run.state.started_at is not None
        }

    async def _add(self, made: Forecast, config: TaskConfig, *, load: TypeLoad, calendars: Calendars) -> None:
        schedule = config.schedule
        if schedule is None or schedule.after_end is not None:
            made.unforeseen.append(config.type)
            return
        try:
            table = Timetable(schedule, seed=config.type, calendars=calendars)
        except InvalidError:  # firing says what is wrong
            made.unforeseen.append(config.type)
            return
        first = max(made.span.begin, target_at(table, config, seen_at=due_of(config)))  # what was before has fired
        targets, is_known = await self._list_targets(made, table, first=first, left=_left(schedule, config.runs))
        if not is_known:
            made.unforeseen.append(config.type)
        made.add(load, targets)

    async def _list_targets(
        self, made: Forecast, table: Timetable, *, first: datetime, left: int
    ) -> tuple[list[datetime], bool]:
        """The targets that fire from then on, and whether its calendars know all of the time."""
        targets: list[datetime] = []
        is_known = True
        at = table.next(first - _TICK)
        while at is not None and at < made.span.end and len(targets) < left:
            if not made.has_room:
                made.is_complete = False
                break
            judged = table.judge(Planned(target=at, due_at=at))
            is_known = is_known and judged.reason is not SkipReason.ERROR
            if judged.fires:
                targets.append(at)
            made.looked_at += 1
            if made.looked_at % SLICE == 0:
                await self.node.clock.sleep(timedelta(0))
            at = table.next(at)
        return targets, is_known


def _fires(config: TaskConfig) -> bool:
    schedule = config.schedule
    return schedule is not None and config.next_fire_at is not None and config.can_fire


def _left(schedule: Schedule, runs: int) -> int:
    return MAX_RUNS if schedule.max_runs is None else max(schedule.max_runs - runs, 0)
