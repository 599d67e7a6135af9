"""Numbers about the cluster, for consoles and the command line.

What they cost, with a million tasks in the store:

- **Depths** are counted by the coordinator: on Redis the length of a list each, on SQL one pass over the index of what
  waits. The age of a level is that of its first task: ten ids, read from the queue and looked up by their key.
- **Tasks by type** are counted over the oldest of those that live, a bounded number (`backlog.py`).
- **Tasks by state.** Those that have ended are never counted, however many there are: each end adds to one of a few
  counters. Those that live are, in one pass over their narrow rows.
- **Rates** are differences of two such counts. No index could give them: ids are ordered by when a task was made, not
  by when it ended, and an index by end would burden each task. The counters of ends only grow, and what has been made
  is what lives and what has ended, so two looks tell all three rates. Where nobody has asked for a minute there is only
  one look; another follows a second later.

An answer is shared by all who ask within a second of it (tasks by type: five), and for ten times as long as it took.
So the figures never keep the store busy for more than a tenth of the time, whatever there is to count and however many
look at them.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar, cast

from rota.__about__ import __version__
from rota.application.attend import ALIVE_FOR
from rota.application.backlog import Backlog, count_backlog
from rota.application.node import Node
from rota.application.ports.system import Clock
from rota.domain.errors import CoordinatorUnavailableError, UnavailableError
from rota.domain.ids import NodeId, TaskId, TenantId
from rota.domain.priority import LEVELS
from rota.domain.task import FAILED, SUCCESS, TIMEOUT, WAITING, TaskStatus

KEPT = timedelta(seconds=1)
BACKLOG_KEPT = timedelta(seconds=5)  # it is the dearest: thousands of rows, and every open overview asks for it
REST = 10  # times as long as an answer took
RATE_WINDOW = timedelta(minutes=1)
FIRST_WINDOW = timedelta(seconds=1)
MOST_TENANTS = 1000  # whose answers are kept

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFigures:
    """One level of priority: what is ready, and how long the first has waited."""

    priority: int
    ready: int = 0
    oldest_age_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    items: tuple[LevelFigures, ...]  # the most urgent first
    delayed: int
    assigned: int  # handed to a worker that has not taken it yet
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFigures:
    """Counts by state, and what happened lately in one tenant."""

    tasks: Mapping[TaskStatus, int]
    created_per_second: float
    completed_per_second: float
    failed_per_second: float
    window_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFigures:
    id: NodeId
    roles: tuple[str, ...]
    is_leader: bool
    version: str
    address: str
    started_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFigures:
    leader: NodeId | None
    term: int
    nodes: tuple[NodeFigures, ...]
    store: str
    coordinator: str
    version: str
    now: datetime
    store_seconds: float  # how long the answer to one question took
    coordinator_seconds: float | None  # None: there was none


class Figures:
    """One for a process. `store` and `coordinator` say what kind these are."""

    def __init__(self, node: Node, *, store: str = "", coordinator: str = "") -> None:
        self._node = node
        self._kinds = (store, coordinator)
        self._queues = _Kept(node.clock, self._measure_queues)
        self._cluster = _Kept(node.clock, self._measure_cluster)
        self._backlog = _Kept(node.clock, self._measure_backlog, kept=BACKLOG_KEPT)
        self._tenants: OrderedDict[TenantId, _Kept[TaskFigures]] = OrderedDict()

    async def queues(self) -> QueueFigures:
        """What waits, by priority. Without a coordinator it is not known: `CoordinatorUnavailableError`."""
        return await self._queues.get()

    async def backlog(self) -> Backlog:
        """What waits and runs of each type, of every tenant."""
        return await self._backlog.get()

    async def stats(self, tenant_id: TenantId) -> TaskFigures:
        """Tasks by state, and how many were made and ended lately."""
        kept = self._tenants.get(tenant_id)
        if kept is None:
            rates = _Rates(self._node, tenant_id)
            kept = self._tenants[tenant_id] = _Kept(self._node.clock, rates.measure, rates.prepare)
        self._tenants.move_to_end(tenant_id)
        if len(self._tenants) > MOST_TENANTS:
            self._tenants.popitem(last=False)
        return await kept.get()

    async def cluster(self) -> ClusterFigures:
        """Who leads, and which processes live. While no coordinator answers, nobody is known to lead."""
        return await self._cluster.get()

    async def _measure_queues(self) -> QueueFigures:
        depths = await self._node.coordinator.queue.depths()
        heads = (await self._node.coordinator.queue.take(0, order=LEVELS)).heads
        ages = await self._find_ages(heads)
        return QueueFigures(
            items=tuple(
                LevelFigures(priority=level, ready=depths.ready.get(level, 0), oldest_age_seconds=ages.get(level))
                for level in reversed(LEVELS)
            ),
            delayed=depths.delayed,
            assigned=sum(depths.assigned.values()),
            running=sum(depths.in_flight.values()),
        )

    async def _find_ages(self, heads: Mapping[int, TaskId]) -> dict[int, float]:
        """How long each first task has been due. What has ended meanwhile is only still in the queue."""
        live = await self._node.store.tasks.find_live(list(heads.values()))
        due_at = {task.id: task.state.due_at for task in live if task.state.status in WAITING}
        now = self._node.time.now()
        return {
            level: max((now - due_at[head]).total_seconds(), 0.0) for level, head in heads.items() if head in due_at
        }

    async def _measure_backlog(self) -> Backlog:
        """With what the leader has set aside: no worker takes it or has room, or a limit holds it back. What comes into
        the queue or leaves it while the tasks are counted was not."""
        queued_before = await self._count_ready()
        found = await count_backlog(self._node.store.tasks, self._node.time.now())
        queued = await self._count_ready()
        if not found.is_complete or queued is None or queued_before is None:
            return found
        return replace(found, set_aside=max(found.ready - max(queued, queued_before), 0))

    async def _count_ready(self) -> int | None:
        """How much is in the queue; None: there was no answer."""
        try:
            return sum((await self._node.coordinator.queue.depths()).ready.values())
        except CoordinatorUnavailableError:
            return None

    async def _measure_cluster(self) -> ClusterFigures:
        store, coordinator = self._kinds
        leader, coordinator_seconds = await self._find_leader()
        began_at = self._node.clock.monotonic()
        term = await self._node.store.terms.find_last()
        store_seconds = self._node.clock.monotonic() - began_at
        now = self._node.time.now()
        records = await self._node.store.nodes.list_alive(since=now - ALIVE_FOR)
        return ClusterFigures(
            leader=leader,
            term=term,
            nodes=tuple(
                NodeFigures(
                    id=record.node.id,
                    roles=record.node.roles,
                    is_leader=record.node.id == leader,
                    version=record.node.version,
                    address=record.node.address,
                    started_at=record.started_at,
                    seen_at=record.seen_at,
                )
                for record in records
            ),
            store=store,
            coordinator=coordinator,
            version=__version__,
            now=now,
            store_seconds=store_seconds,
            coordinator_seconds=coordinator_seconds,
        )

    async def _find_leader(self) -> tuple[NodeId | None, float | None]:
        """Who leads, and how long it took to learn that; without an answer neither is known."""
        began_at = self._node.clock.monotonic()
        try:
            leader = await self._node.coordinator.election.find_leader()
        except CoordinatorUnavailableError:
            return None, None
        return leader, self._node.clock.monotonic() - began_at


async def _nothing() -> None:
    pass


@dataclass(slots=True)
class _Kept(Generic[T]):
    """An answer for all who ask at about the same time; those who come while it is made wait for it."""

    clock: Clock
    make: Callable[[], Awaitable[T]]
    prepare: Callable[[], Awaitable[None]] = _nothing  # what it takes is no burden
    kept: timedelta = KEPT
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _answer: T | None = None
    _problem: UnavailableError | None = None
    _until: float = 0.0

    async def get(self) -> T:
        async with self._lock:
            if self.clock.monotonic() >= self._until:
                await self._renew()
            if self._problem is not None:
                raise self._problem
            return cast(T, self._answer)

    async def _renew(self) -> None:
        """Ask once. That there was no answer counts for all who wait, or each would wait for its own."""
        rest = 0.0
        try:
            await self.prepare()
            began_at = self.clock.monotonic()
            self._answer, self._problem = await self.make(), None
            rest = (self.clock.monotonic() - began_at) * REST
        except UnavailableError as exc:
            self._problem = exc
        self._until = self.clock.monotonic() + max(self.kept.total_seconds(), rest)


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    tasks: Mapping[TaskStatus, int]
    created: int
    completed: int
    failed: int


@dataclass(slots=True)
class _Rates:
    """The samples of one tenant that are not older than the window, but for one."""

    node: Node
    tenant_id: TenantId
    _samples: deque[_Sample] = field(default_factory=deque)

    async def prepare(self) -> None:
        """See to it that there is a sample to compare with: of the last minute, and not of this very moment."""
        if not self._samples or self._samples[-1].at < self._window_start():
            self._samples = deque([await self._take()])
        passed = timedelta(seconds=self.node.clock.monotonic() - self._samples[-1].at)
        if passed < FIRST_WINDOW:
            await self.node.clock.sleep(FIRST_WINDOW - passed)

    async def measure(self) -> TaskFigures:
        last = await self._take()
        self._samples.append(last)
        while self._samples[1].at <= self._window_start():
            self._samples.popleft()
        first = self._samples[0]
        window = last.at - first.at
        return TaskFigures(
            tasks=last.tasks,
            created_per_second=max(last.created - first.created, 0) / window,
            completed_per_second=(last.completed - first.completed) / window,
            failed_per_second=(last.failed - first.failed) / window,
            window_seconds=window,
        )

    async def _take(self) -> _Sample:
        at = self.node.clock.monotonic()
        tasks = await self.node.store.tasks.count_by_status(self.tenant_id)
        ended = await self.node.store.tasks.count_ended(self.tenant_id)
        live = sum(number for status, number in tasks.items() if not status.is_final)
        return _Sample(
            at=at,
            tasks=tasks,
            created=live + sum(ended.values()),
            completed=ended.get(SUCCESS, 0),
            failed=ended.get(FAILED, 0) + ended.get(TIMEOUT, 0),
        )

    def _window_start(self) -> float:
        return self.node.clock.monotonic() - RATE_WINDOW.total_seconds()
