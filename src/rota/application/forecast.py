"""What the schedules of a tenant would fire between two moments, and how much work that is.

Bounded: so many targets are looked at, in slices between which others get their turn, and those of all schedules in
the order of time: where that is not enough, the answer is whole up to a moment and says so. What has a fixed pace is
not looked at but counted. The work of a run is guessed from the last one of its schedule that has ended.
"""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace

from rota.application.calendars import calendars_of_all
from rota.application.node import Node
from rota.domain.checks import EARLIEST, check_instant, check_number
from rota.domain.errors import InvalidError, NotFoundError
from rota.domain.firing import NO_CALENDARS, Calendars, due_of, target_at
from rota.domain.ids import TaskId, TenantId
from rota.domain.schedule import MAX_RUNS, Schedule
from rota.domain.task import Task
from rota.domain.task_config import TaskConfig
from rota.domain.timetable import Planned, SkipReason, Timetable

MOST_LOOKED_AT = 50_000  # targets, for one answer: about a second of work
MOST_PASSED = 10_000  # before it begins, of schedules that have so many runs left; nobody else's answer ends there
MOST_BUCKETS = 1_000
MOST_TYPES = 1_000  # that an answer lists
LONGEST = timedelta(days=366)
PAGE = 500
WAITS_FOR_END = "waits for the end of each run"  # nobody knows when that will be
LOOKED_BACK = 10  # runs, for one that has ended
MANY_LEFT = "has more runs until then than are looked at"  # so that nobody knows how many are left
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

    def end_of(self, place: int) -> datetime:
        return self.end if place == self.buckets - 1 else self.begin + (place + 1) * self.width


@dataclass(slots=True)
class Load:
    """How many runs begin, and how long they will work together as far as that is known."""

    runs: int = 0
    work: timedelta = timedelta(0)
    unknown: int = 0  # of these runs, of which nobody knows how long they take
    is_unsure: bool = False  # of some schedule nobody knows what it fires then


@dataclass(slots=True, kw_only=True)
class TypeLoad:
    """What one schedule would fire."""

    type: str
    runs: int = 0
    first: datetime | None = None
    last: datetime | None = None
    run_takes: timedelta | None = None  # as long as the last run that ended took; None: nobody knows
    is_complete: bool = True  # whether all of the time was looked at


@dataclass(slots=True)
class Forecast:
    span: Span
    buckets: list[Load]
    types: list[TypeLoad] = field(default_factory=list)  # those that fire, or may, by type
    unforeseen: dict[str, str] = field(default_factory=dict)  # why nothing, or not all, can be said about a schedule
    left_out: list[str] = field(default_factory=list)  # schedules beyond MOST_TYPES; about as many at most
    known_until: datetime | None = None  # from here on runs are missing; None: none are
    looked_at: int = 0
    passed: int = 0

    @property
    def is_complete(self) -> bool:
        return self.known_until is None and not self.left_out

    @property
    def has_room(self) -> bool:
        return max(len(self.types), len(self.unforeseen)) < MOST_TYPES

    def is_known(self, place: int) -> bool:
        """Whether nothing is missing in a bucket."""
        is_in_time = self.known_until is None or self.span.end_of(place) <= self.known_until
        is_sure = not self.buckets[place].is_unsure and (bool(self.types) or not self.unforeseen)
        return is_in_time and not self.left_out and is_sure

    def leave_unsure(self, task_type: str, reason: str) -> None:
        """Nobody knows what this one fires."""
        self.unforeseen[task_type] = reason
        for bucket in self.buckets:
            bucket.is_unsure = True

    def add(self, load: TypeLoad, place: int, *, runs: int = 1) -> None:
        bucket = self.buckets[place]
        bucket.runs += runs
        if load.run_takes is None:
            bucket.unknown += runs
        else:
            bucket.work += runs * load.run_takes
        load.runs += runs


@dataclass(slots=True, kw_only=True)
class _Walk:
    """A schedule whose targets are looked at one by one."""

    load: TypeLoad
    table: Timetable
    at: datetime  # the next one
    left: int  # runs

    def step(self, made: Forecast) -> datetime | None:
        """Look at a target. The answer is the following one; None: there is none in this time."""
        judged = self.table.judge(Planned(target=self.at, due_at=self.at))
        self.left -= judged.fires
        if self.at >= made.span.begin:
            self._note(made, judged)
        following = self.table.next(self.at) if self.left else None
        if following is None or following >= made.span.end:
            return None
        self.at = following
        return following

    def _note(self, made: Forecast, judged: Planned) -> None:
        if judged.reason is SkipReason.ERROR:
            made.unforeseen.setdefault(self.load.type, judged.detail)
            made.buckets[made.span.place(self.at)].is_unsure = True
        if judged.fires:
            made.add(self.load, made.span.place(self.at))
            self.load.first, self.load.last = self.load.first or self.at, self.at


@dataclass(frozen=True, slots=True)
class ForecastSchedules:
    node: Node

    async def __call__(self, tenant_id: TenantId, span: Span) -> Forecast:
        """What would fire, if nothing changed and every run began in time."""
        if span.end <= self.node.time.now():
            raise InvalidError("end", "lies in the past: what became of past targets is told by their occurrences")
        made = Forecast(span, [Load() for _ in range(span.buckets)])
        walks: list[_Walk] = []
        async for page in self._pages(tenant_id, types=span.types):
            takes = await self._find_takes(page)
            calendars = (await calendars_of_all(self.node.store.calendars, page)).get(tenant_id, NO_CALENDARS)
            for config in page:
                if made.has_room:
                    load = TypeLoad(type=config.type, run_takes=takes.get(config.type))
                    walks.extend(_begin(made, config, load=load, calendars=calendars))
                    await self.node.clock.sleep(timedelta(0))  # it may have counted runs in every bucket
                else:
                    made.left_out.append(config.type)
            if len(made.left_out) >= MOST_TYPES:
                break
        await self._walk(made, walks)
        made.types = [load for load in made.types if load.runs or not load.is_complete]
        return made

    async def _walk(self, made: Forecast, walks: Sequence[_Walk]) -> None:
        """Look at the targets of all, the earliest first."""
        coming = [(walk.at, number) for number, walk in enumerate(walks)]
        heapify(coming)
        while coming:
            at, number = coming[0]
            is_before = at < made.span.begin
            if is_before and made.passed == MOST_PASSED:
                made.leave_unsure(walks[number].load.type, MANY_LEFT)
                heappop(coming)
                continue
            if made.looked_at == MOST_LOOKED_AT:
                made.known_until = at
                for _, cut in coming:
                    walks[cut].load.is_complete = False
                return
            following = walks[number].step(made)
            if following is None:
                heappop(coming)
            else:
                heapreplace(coming, (following, number))
            made.passed += is_before
            made.looked_at += not is_before
            if (made.passed + made.looked_at) % SLICE == 0:
                await self.node.clock.sleep(timedelta(0))

    async def _pages(self, tenant_id: TenantId, *, types: Collection[str]) -> AsyncIterator[Sequence[TaskConfig]]:
        """The configs that fire, by type."""
        if types:
            named = [await self._get(tenant_id, name) for name in sorted(types)]
            yield [one for one in named if _fires(one)]
            return
        after = ""
        while page := await self.node.store.configs.list_page(tenant_id, after=after, limit=PAGE):
            yield [one for one in page if _fires(one)]
            after = page[-1].type

    async def _get(self, tenant_id: TenantId, name: str) -> TaskConfig:
        config = await self.node.store.configs.find(tenant_id, name)
        if config is None:
            raise NotFoundError("task config", name)
        return config

    async def _find_takes(self, configs: Sequence[TaskConfig]) -> Mapping[str, timedelta]:
        """How long the last run of each took that has ended."""
        last = {one.type: one.last_run for one in configs if one.last_run is not None}
        takes = await self._load_takes({name: [task_id] for name, task_id in last.items()})
        going = [one for one in configs if one.type in last and one.type not in takes]
        return {**takes, **await self._find_earlier(going)}

    async def _find_earlier(self, configs: Sequence[TaskConfig]) -> Mapping[str, timedelta]:
        """The same of those whose last run goes on, or never began: as a run before it took."""
        if not configs:
            return {}
        since = {(one.tenant_id, one.type): EARLIEST for one in configs}
        noted = await self.node.store.schedules.list_runs(since, limit=LOOKED_BACK)
        runs = {name: [one.task_id for one in found if one.task_id is not None] for (_, name), found in noted.items()}
        return await self._load_takes(runs)

    async def _load_takes(self, runs: Mapping[str, Sequence[TaskId]]) -> Mapping[str, timedelta]:
        """By type, as long as the first of its runs took that has ended."""
        ids = [one for its in runs.values() for one in its]
        found = await self.node.store.tasks.load(ids) if ids else {}
        takes = {name: [_took(found[one]) for one in its if one in found] for name, its in runs.items()}
        ended = {name: [one for one in its if one is not None] for name, its in takes.items()}
        return {name: its[0] for name, its in ended.items() if its}


def _took(run: Task) -> timedelta | None:
    begun, ended = run.state.started_at, run.state.completed_at
    return None if begun is None or ended is None else ended - begun


def _begin(made: Forecast, config: TaskConfig, *, load: TypeLoad, calendars: Calendars) -> Iterator[_Walk]:
    """Count what a schedule fires where that can be reckoned; else the walk that finds out."""
    schedule = config.schedule
    if schedule is None or schedule.after_end is not None:
        made.unforeseen[config.type] = WAITS_FOR_END
        return
    try:
        table = Timetable(schedule, seed=config.type, calendars=calendars)
    except InvalidError as exc:
        made.leave_unsure(config.type, exc.problem)
        return
    begin = target_at(table, config, seen_at=due_of(config))  # what was before has fired
    if schedule.max_runs is None:  # else each run before the span is one less in it
        begin = max(begin, made.span.begin)
    first, left = table.next(begin - _TICK), _left(schedule, config.runs)
    if first is None or first >= made.span.end or not left:
        return
    made.types.append(load)
    if table.pace is not None:
        _reckon(made, load, first=first, table=table, left=left)
    else:
        yield _Walk(load=load, table=table, at=first, left=left)


def _reckon(made: Forecast, load: TypeLoad, *, first: datetime, table: Timetable, left: int) -> None:
    """Count what fires at a fixed pace, bucket by bucket: a year of seconds takes no longer than an hour of them."""
    span, pace = made.span, table.pace or _TICK
    passed = max(-((first - span.begin) // pace), 0)
    first, left = first + passed * pace, left - passed
    end = min(span.end, table.schedule.end_at or span.end)
    whole = min(left, -((first - end) // pace))
    if whole <= 0:
        return
    place = span.place(first)
    while load.runs < whole:
        passed = max(-((first - span.end_of(place)) // pace), 0)
        made.add(load, place, runs=min(passed, whole) - load.runs)
        place += 1
    load.first, load.last = first, first + (whole - 1) * pace


def _fires(config: TaskConfig) -> bool:
    schedule = config.schedule
    return schedule is not None and config.next_fire_at is not None and config.can_fire


def _left(schedule: Schedule, runs: int) -> int:
    return MAX_RUNS if schedule.max_runs is None else max(schedule.max_runs - runs, 0)
