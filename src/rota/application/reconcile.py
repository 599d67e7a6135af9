"""Comparing the store with the coordinator, both ways, and repairing what differs.

The coordinator's entries follow the store's rows by a moment, and a process may die in that moment. So whatever has
differed for longer than `SETTLED` is repaired, from the store's side, because that is the truth:

- a waiting task that is due and in no queue (its push was lost) is pushed;
- a deep queue that lacks tasks which are due for longer than its heads is rebuilt;
- an attempt that was granted and never handed over (its assignment was lost) is assigned again;
- an attempt in flight that the store knows nothing of any more, look after look (its acknowledgement was lost), is
  forgotten, unless its worker says that it still holds it: then it fills a slot, and the worker itself stops it;
- an attempt of a worker that has ended (it was granted in that very moment) is taken back;
- what a worker that has ended left behind (it could not take its leave) is cleared away.

Every repair is harmless where it was not needed: a task is granted once, and an attempt is taken once.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from rota.application import metrics
from rota.application.parking import MOST_PARKED
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.store import Store
from rota.application.ports.system import Clock
from rota.application.rebuild import RebuildQueues
from rota.application.registered import list_registered
from rota.application.reign import Reign
from rota.application.store_time import StoreTime
from rota.application.take_back import TakeBack, TypedStep, list_let_go, queue_entry, running_attempts
from rota.domain.attempt import Attempt
from rota.domain.ids import TaskId, WorkerId
from rota.domain.priority import LEVELS
from rota.domain.task import LiveTask, TaskState

SETTLED = timedelta(seconds=5)  # longer than any call between a row and its entry may take
LATE = timedelta(minutes=1)  # by how much a due task may be older than the heads of the queue
REBUILD_SELDOM = timedelta(minutes=10)
PAGE = 1000

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class ReconcileQueue:
    """Find due tasks that no queue holds. Looks that follow each other closely queue nothing twice.

    What was queued again is known by its version, not by its due time: a task that is handed back by a worker has one
    from long ago."""

    store: Store
    coordinator: Coordinator
    time: StoreTime
    clock: Clock
    collector: MetricsCollector
    rebuild: RebuildQueues
    batch: int = 5000
    _next_rebuild_at: float = field(default=float("-inf"), init=False)
    _term: int = field(default=0, init=False)
    _pushed: dict[tuple[TaskId, int], float] = field(default_factory=dict, init=False)  # when, by the monotonic clock

    async def __call__(self, reign: Reign, is_parked: Callable[[TaskId], bool]) -> bool:
        """Whether there is no backlog: then a look costs little, and queues no doubles."""
        ready = sum((await self.coordinator.queue.depths()).ready.values())
        if ready <= self.batch:
            due = await self._list_due(is_parked)
            settled = [live.state for live in due if live.state.due_at <= self.time.now() - SETTLED]
            await self._push(settled, reign, ready=ready)
            return not ready or not settled
        if longest_due := await self._find_first(is_parked) or await self._list_due(is_parked):
            await self._compare_heads(longest_due[0], reign)
        return False

    async def _find_first(self, is_parked: Callable[[TaskId], bool]) -> list[LiveTask]:
        """The longest due task, unless it is parked."""
        return [live for live in await self.store.tasks.list_due(1) if not is_parked(live.id)]

    async def _list_due(self, is_parked: Callable[[TaskId], bool]) -> list[LiveTask]:
        """The longest due tasks that are not parked; where all are, look behind them."""
        due = await self.store.tasks.list_due(self.batch)
        free = [live for live in due if not is_parked(live.id)]
        if free or len(due) < self.batch:
            return free
        due = await self.store.tasks.list_due(self.batch + MOST_PARKED)
        return [live for live in due if not is_parked(live.id)]

    async def _push(self, settled: Sequence[TaskState], reign: Reign, *, ready: int) -> None:
        """Queue what should have been taken by now. An empty queue lacks it for sure; a short one has few doubles.

        While all workers are busy, all of it may be in the queue: only what waits beyond its entries is a repair."""
        now, at = self.time.now(), self.clock.monotonic()
        self._forget_pushed(reign.number, at - SETTLED.total_seconds())
        missing = [state for state in settled if not ready or (state.id, state.version) not in self._pushed]
        if missing:
            reign.check()
            await self.coordinator.queue.push([queue_entry(state, now=now) for state in missing])
            self._pushed.update({(state.id, state.version): at for state in missing})
            if lacking := min(len(missing), max(len(settled) - ready, 0)):
                self._note("pushed", lacking)

    def _forget_pushed(self, term: int, until: float) -> None:
        """What was queued again by another reign, or longer ago than this, is queued once more if it still waits."""
        self._pushed = {key: at for key, at in self._pushed.items() if at > until} if term == self._term else {}
        self._term = term

    async def _compare_heads(self, longest_due: LiveTask, reign: Reign) -> None:
        """In a deep queue, what is due for longest must be near a head: else it, and maybe more, is missing."""
        if self.clock.monotonic() < self._next_rebuild_at:
            return
        taken = await self.coordinator.queue.take(0, order=LEVELS)
        heads = await self.store.tasks.find_live(list(taken.heads.values()))
        waiting = [live.state.due_at for live in heads if live.state.status.is_waiting]
        if waiting and longest_due.state.due_at < min(waiting) - LATE:
            self._next_rebuild_at = self.clock.monotonic() + REBUILD_SELDOM.total_seconds()
            await self.rebuild(reign)
            self._note("rebuilt", 1)

    def _note(self, what: str, count: int) -> None:
        self.collector.add(metrics.RECONCILED, what, amount=count)
        log.warning("reconciled", what=what, count=count)


@dataclass(slots=True, kw_only=True)
class ReconcileDeliveries:
    """Compare the attempts that run by the store's word with those that the workers were handed.

    What has ended by the store's word and is in flight is acknowledged in a moment, mostly. So it is left alone by the
    look that finds it, and the next one comes soon."""

    store: Store
    coordinator: Coordinator
    time: StoreTime
    collector: MetricsCollector
    take_back: TakeBack
    _found: frozenset[Attempt] = field(default=frozenset(), init=False)  # ended and in flight, by the last look

    async def __call__(self, reign: Reign) -> bool:
        """Whether to look again soon."""
        settled = await self._list_settled()
        pool = [worker.id for worker in await self.coordinator.pool.list_alive()]
        loads = await self.coordinator.queue.loads()
        leftovers: list[Attempt] = []
        for worker_id in pool:
            if worker_id in settled:
                await self._assign_again(worker_id, settled[worker_id], reign=reign)
            if worker_id in loads.in_flight:  # one answer for all says at whom there is nothing to look at
                leftovers += await self._list_leftover(worker_id)
        await self._forget(leftovers, reign)
        leftover = (loads.assigned.keys() | loads.in_flight.keys()) - set(pool)
        strangers = settled.keys() - set(pool)
        if strangers or leftover:
            registered = {record.worker.id for record in await list_registered(self.store.workers)}
            await self._take_back([live for one in strangers - registered for live in settled[one]], reign)
            await self._clear(sorted(leftover - registered), reign)
        return bool(leftovers)

    async def _list_settled(self) -> Mapping[WorkerId, Sequence[LiveTask]]:
        """The running attempts, by worker, that were granted long enough ago to have been handed over."""
        settled: dict[WorkerId, list[LiveTask]] = defaultdict(list)
        granted_before = self.time.now() - SETTLED
        after: TaskId | None = None
        while page := await self.store.tasks.list_running(after=after, limit=PAGE):
            for live in page:
                worker_id, started_at = live.state.worker_id, live.state.started_at
                if worker_id is not None and started_at is not None and started_at <= granted_before:
                    settled[worker_id].append(live)
            after = page[-1].id
        return settled

    async def _assign_again(self, worker_id: WorkerId, settled: Sequence[LiveTask], *, reign: Reign) -> None:
        # In this order: an attempt may be taken in between, and is then among those in flight.
        assigned = await self.coordinator.deliveries.list_assigned(worker_id)
        in_flight = await self.coordinator.deliveries.held(worker_id)
        known = {*assigned, *in_flight}
        missing = [one for one in running_attempts(live.state for live in settled) if one not in known]
        still = await self._list_current(missing)  # what ended meanwhile was acknowledged
        missing = [attempt for attempt in missing if attempt in still]
        if missing:
            reign.check()
            await self.coordinator.deliveries.assign(missing)
            self._note("assigned", len(missing), worker_id=worker_id)

    async def _list_leftover(self, worker_id: WorkerId) -> list[Attempt]:
        """What is in flight at a worker and, by the store's word, is not to run there any more."""
        in_flight = await self.coordinator.deliveries.held(worker_id)
        current = await self._list_current(in_flight)
        return [attempt for attempt in in_flight if attempt not in current]

    async def _forget(self, leftovers: Sequence[Attempt], reign: Reign) -> None:
        seen_twice = [attempt for attempt in leftovers if attempt in self._found]
        self._found = frozenset(leftovers)
        let_go = await list_let_go(self.coordinator.pool, seen_twice)
        if let_go:
            reign.check()
            await self.coordinator.deliveries.acknowledge(let_go)
            self._note("forgotten", len(let_go), workers=len({attempt.worker_id for attempt in let_go}))

    async def _clear(self, ended: Sequence[WorkerId], reign: Reign) -> None:
        """Drop the queues of workers that could not take their leave."""
        if ended:
            reign.check()
            await self.coordinator.pool.remove(ended)
            self._note("cleared", len(ended))

    async def _list_current(self, attempts: Sequence[Attempt]) -> Collection[Attempt]:
        """The attempts that the tasks of these are at now."""
        live = await self.store.tasks.find_live([attempt.task_id for attempt in attempts])
        return set(running_attempts(one.state for one in live))

    async def _take_back(self, orphans: Sequence[LiveTask], reign: Reign) -> None:
        now = self.time.now()
        lost = await self.take_back(reign, [TypedStep(live.type, live.state.lost(at=now)) for live in orphans])
        for one in lost:
            self.collector.add(metrics.ATTEMPTS_LOST, one.type)
        if lost:
            self._note("taken_back", len(lost))

    def _note(self, what: str, count: int, **fields: object) -> None:
        self.collector.add(metrics.RECONCILED, what, amount=count)
        log.warning("reconciled", what=what, count=count, **fields)
