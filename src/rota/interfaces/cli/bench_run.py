"""One run of `rota bench`: a few tasks alone, then many in batches, then what the server has recorded of them.

All rates and waits are those of the server's own record, so neither the network nor this program is in them, but for
the rate at which this client created. Whatever ends a run before its time, what is left of it is cancelled.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import accumulate
from typing import TYPE_CHECKING

import click

from rota.domain.errors import InvalidError, NotFoundError, RotaError, UnavailableError
from rota.domain.waiting import Reason
from rota.interfaces.cli.bench_left import CREATED, ENDED, MARK, PAGE, READ, TYPE, Leftovers, Tell, count_tasks
from rota.interfaces.cli.errors import NOT_ASKED, CheckFailedError

if TYPE_CHECKING:
    from rota.client.blocking import Client
    from rota.client.sync_wire import SyncClock
    from rota.sdk.views import TaskView

PAYLOAD = {"filler": "a hundred bytes or so, as an ordinary task has them; nobody reads what is written here"}
LONE = 20  # tasks that are submitted one after the other, each when the one before has ended
PATIENCE = timedelta(seconds=10)  # for the first of all: longer than a cluster takes to find a new leader
MOST_SKEW = timedelta(hours=1)  # between the clock of the store and that of the node that numbers tasks
NEARLY_ALL = 0.8  # of the places of all workers, which were taken at once
MUCH_SLOWER = 3  # times as long as alone: then it is not for want of places that tasks wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How long something took, for most and for nearly all."""

    p50: timedelta
    p99: timedelta

    @classmethod
    def of(cls, waits: Iterable[timedelta]) -> "Spread":
        ranked = sorted(waits) or [timedelta(0)]
        return cls(p50=ranked[len(ranked) // 2], p99=ranked[min(len(ranked) * 99 // 100, len(ranked) - 1)])


class NobodyError(Exception):
    """No worker runs the tasks of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """What there was of a run when its time was over, by the server's record after the rest was cancelled."""

    lone: int  # that had ended, of those that are run one after the other
    created: int = 0  # of the many
    ended: int | None = 0  # of those, in time and not cancelled; None: the server does not tell
    seconds: float = 0.0  # from the first create to the last result


class GaveUpError(Exception):
    """The time of a run was over before its tasks had ended."""

    def __init__(self, found: Unfinished) -> None:
        super().__init__()
        self.found = found


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a run found of the `tasks` that the server has on record; one has started when a worker was given it."""

    tasks: int
    batch: int
    succeeded: int
    others: int | None  # tasks that stood in the queues or ran when it began; None: the server does not tell
    workers: int  # that ran them …
    capacity: int | None  # … and how many tasks they hold at once, all together; None: the server does not tell
    limited_by_capacity: bool  # whether tasks waited for one of these places, not for a machine that was busy
    created_per_second: float
    completed_per_second: float
    lone_start: Spread
    lone_result: Spread
    start: Spread
    result: Spread


@dataclass(slots=True)
class Run:
    """To be made once for each run."""

    client: "Client"
    clock: "SyncClock"
    tasks: int
    batch: int
    most: timedelta
    tell: Tell
    _mark: str = field(default_factory=lambda: secrets.token_hex(6))
    _until: float = 0.0
    _begun: float = 0.0  # to create the many
    _has_begun: bool = False
    _others: int | None = None
    _lone: list["TaskView"] = field(default_factory=list)
    _created: int = 0

    def __call__(self) -> Figures:
        """Measure; `GaveUpError` when it takes longer than it may, `NobodyError` where nothing runs."""
        self._others = self._count_others()
        if self._others:
            told = f"{count_tasks(self._others)} stood in the queues or ran before this"
            click.echo(f"note: {told}: what is measured is what they leave", err=True)
        self._until = self.clock.monotonic() + self.most.total_seconds()
        try:
            with self._cleaning_up():
                return self._measure()
        except TimeoutError:
            raise GaveUpError(self._look_back()) from None

    def _measure(self) -> Figures:
        self._lone.append(self._probe())
        while len(self._lone) < LONE:
            self._lone.append(self._run_one())
        seconds, ends = self._create()
        for created, task_id in ends:  # the last of each batch: those before it have ended too, or nearly so
            self.client.tasks.wait(task_id, self._left())
            self.tell(ENDED, created)
        many = [
            task if task.status.is_final else self.client.tasks.wait(task.id, self._left()) for task in self._list()
        ]
        if not many:
            problem = f"the server has none of the {count_tasks(self.tasks)} on record any more"
            raise CheckFailedError(problem, fix=f"rota task ls --type {TYPE}")
        capacity = self._find_capacity(many)
        is_limit = capacity is not None and lacks_places(self._lone, many, capacity=capacity)
        found = _figures(self, self._lone, many=many, seconds=seconds)
        return replace(found, capacity=capacity, limited_by_capacity=is_limit)

    def _count_others(self) -> int | None:
        try:
            queues = self.client.queues()
        except RotaError as error:
            if error.code in NOT_ASKED:
                raise
            return None  # it is there to explain the others, and they are worth more
        return sum(level.ready for level in queues.items) + queues.assigned + queues.running

    def _look_back(self) -> Unfinished:
        """Asked after the rest was cancelled, so that nothing ends between one count and the other; what ended while
        it was cancelled came too late."""
        found = Unfinished(lone=len(self._lone), created=self._created)
        if not self._created:
            return found
        try:
            listed = self._list()
        except RotaError:  # that time is over is worth more
            return replace(found, ended=None)
        if not listed:
            return found
        last = min(task.created_at for task in listed) + timedelta(seconds=self._until - self._begun)
        ran = [task for task in listed if task.status != "CANCELLED"]
        ended = [task for task in ran if task.completed_at is not None and task.completed_at <= last]
        return replace(found, ended=len(ended), seconds=_seconds(listed, ended=ended))

    def _probe(self) -> "TaskView":
        """The first task, which shows whether there is anybody to run it."""
        self._has_begun = True  # whoever interrupts may come between the task and its answer
        try:
            handle = self.client.submit(TYPE, PAYLOAD, metadata={MARK: self._mark})
        except RotaError as error:
            self._has_begun = isinstance(error, UnavailableError) and error.code not in NOT_ASKED
            if isinstance(error, InvalidError) and error.field == "type":
                self._check_type()
            raise
        patience = min(PATIENCE, self._left())
        try:
            return handle.wait(patience)
        except TimeoutError:
            found = self.client.tasks.explain(handle.id)
        problem = f"{TYPE} did not run within {patience.total_seconds():.0f} s: {found.sentence}"
        raise NobodyError(problem) if found.reason == Reason.NO_WORKER else CheckFailedError(problem, fix="rota top")

    def _check_type(self) -> None:
        """Why the server does not take it, where that is not what it said."""
        try:
            config = self.client.configs.get(TYPE)
        except NotFoundError as error:
            raise NobodyError(f"no worker of this installation has ever had {TYPE}") from error
        if not config.enabled:
            raise CheckFailedError(
                f"{TYPE} is paused: no new task of it is taken", fix=f"rota config-type resume {TYPE}"
            )

    def _run_one(self) -> "TaskView":
        return self.client.submit(TYPE, PAYLOAD, metadata={MARK: self._mark}).wait(self._left())

    def _create(self) -> tuple[float, list[tuple[int, str]]]:
        """How long it took; and for each batch how many there were by then, and its last task."""
        ends: list[tuple[int, str]] = []
        self._begun, created = self.clock.monotonic(), 0
        while created < self.tasks:
            self._left()
            payloads = [PAYLOAD] * min(self.batch, self.tasks - created)
            handles = self.client.submit_many(TYPE, payloads, metadata={MARK: self._mark})
            created += len(handles)
            self._created = created
            ends.append((created, handles[-1].id))
            self.tell(CREATED, created)
        return self.clock.monotonic() - self._begun, ends

    def _list(self) -> list["TaskView"]:
        """All tasks of the batches that are on record."""
        known = {task.id for task in self._lone}
        since = self._lone[0].created_at - MOST_SKEW  # only so that the server need not look through all it has
        listed = self.client.tasks.list(page_size=PAGE, type=TYPE, metadata={MARK: self._mark}, created_after=since)
        found = list["TaskView"]()
        for task in listed:
            if task.id not in known:
                found.append(task)
                if len(found) % PAGE == 0:
                    self.tell(READ, len(found))
        return found

    def _find_capacity(self, ran: Sequence["TaskView"]) -> int | None:
        ids = {task.worker_id for task in ran}
        try:
            return sum(worker.capacity for worker in self.client.workers.list() if worker.id in ids) or None
        except RotaError:  # it is there to explain the others, and they are worth more
            return None

    def _left(self) -> timedelta:
        left = self._until - self.clock.monotonic()
        if left <= 0:
            raise TimeoutError
        return timedelta(seconds=left)

    @contextmanager
    def _cleaning_up(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._has_begun:
                Leftovers(self.client, self._mark, self.tell).cancel()
            raise


def lacks_places(lone: Sequence["TaskView"], many: Sequence["TaskView"], *, capacity: int) -> bool:
    """Whether tasks waited for places of workers that had time for more.

    So it is where nearly all places were taken at some moment, most tasks waited longer for one than they then held it,
    and held it hardly longer than a task that is alone. On a busy machine they hold it for many times as long, and
    where the scheduler or the creator is what is slow, places stay free.
    """
    alone, held = (Spread.of(_held(tasks)).p50 for tasks in (lone, many))
    waited = Spread.of(_waits(many, "started_at")).p50
    return waited > held and held <= alone * MUCH_SLOWER and _most_at_once(many) >= capacity * NEARLY_ALL


def _held(tasks: Iterable["TaskView"]) -> Iterator[timedelta]:
    for task in tasks:
        if task.started_at is not None and task.completed_at is not None:
            yield task.completed_at - task.started_at


def _most_at_once(tasks: Iterable["TaskView"]) -> int:
    ran = [task for task in tasks if task.started_at is not None and task.completed_at is not None]
    steps = sorted([*((task.started_at, 1) for task in ran), *((task.completed_at, -1) for task in ran)])
    return max(accumulate(step for _, step in steps), default=0)


def _seconds(many: Sequence["TaskView"], *, ended: Iterable["TaskView"]) -> float:
    """From the first create to the last result."""
    ends = [task.completed_at for task in ended if task.completed_at is not None]
    return (max(ends) - min(task.created_at for task in many)).total_seconds() if ends else 0.0


def _figures(run: Run, lone: Sequence["TaskView"], *, many: Sequence["TaskView"], seconds: float) -> Figures:
    whole = _seconds(many, ended=many)
    return Figures(
        tasks=len(many),
        batch=run.batch,
        others=run._others,
        succeeded=sum(task.status == "SUCCESS" for task in many),
        workers=len({task.worker_id for task in many} - {None}),
        capacity=None,
        limited_by_capacity=False,
        created_per_second=len(many) / max(seconds, 1e-6),
        completed_per_second=len(many) / max(whole, 1e-6),
        lone_start=Spread.of(_waits(lone, "started_at")),
        lone_result=Spread.of(_waits(lone, "completed_at")),
        start=Spread.of(_waits(many, "started_at")),
        result=Spread.of(_waits(many, "completed_at")),
    )


def _waits(tasks: Iterable["TaskView"], until: str) -> Iterator[timedelta]:
    for task in tasks:
        moment = getattr(task, until)
        if moment is not None:
            yield moment - task.created_at
