"""Taking back what silent workers hold.

A worker is dead when all three are true: the coordinator's pool does not know it, the store has not seen it for longer
than a lease, and the leader is not blind. One of the first two alone is no evidence: a coordinator that lost its memory
knows nobody, and a store that was away has seen nobody. Live workers tell both every few seconds, so two heartbeats
after either is back, the truth is visible again; until then the leader is blind and judges nobody. One that stays
blind, because every other call of it fails, gives its reign up: the next one may see.

One that the store has retired and the pool still knows is a *ghost*: it spoke to the pool once more before it learnt of
its end, or its last word was late. That needs no waiting: it is removed, and what it was given is taken back. Whoever
left both in good order while the leader looked at one after the other is none: the pool is looked at once more.

One that took its leave handed back what it held. But a leader that had not heard of it yet may have granted it more in
that very moment: who is no longer registered is asked after for a while.

Being wrong is safe, only wasteful: the attempt number fences whatever a worker that was given up still reports.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from rota.application import metrics
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.store import Store, WorkerRecord
from rota.application.ports.system import Clock, Random
from rota.application.registered import list_registered
from rota.application.reign import Reign
from rota.application.store_time import StoreTime
from rota.application.take_back import STOP_KEPT, TakeBack, TypedStep, list_let_go, running_attempts, wake_for_deferred
from rota.domain.attempt import TimedOut
from rota.domain.conclusion import bounded, conclude
from rota.domain.errors import RotaError, UnavailableError
from rota.domain.events import Event, EventKind
from rota.domain.ids import WorkerId
from rota.domain.task import PROCESSING, Task, TaskState, Transition
from rota.domain.worker import Worker

HEARTBEAT_EVERY = timedelta(seconds=3)
WORKER_LEASE = timedelta(seconds=12)
BLIND_AT_MOST = 30.0  # seconds; five times what it takes to see again after one failure
ASKED_AFTER = 5  # looks, a second apart: a grant is on its way for less than that
SILENCE = timedelta(seconds=5)  # a worker ends an attempt at its deadline and reports; more than that takes
NO_TIME = timedelta(0)
NO_CALLBACK = TimedOut("no callback came before the attempt's timeout")
NO_HEARTBEAT = TimedOut("the heartbeats of whoever works on the attempt stopped")
CANCEL_HEARD = timedelta(seconds=1)  # at least, or the worker might not hear it
CANCEL_MARGIN = timedelta(seconds=1)  # the request must be over before the next attempt starts, or it would stop that

log = structlog.get_logger(__name__)


class BlindError(RotaError):
    """This leader cannot judge, and has not been able to for long: another node may do better."""

    code = "blind"


class Sight:
    """Whether silence means anything. Blind at first, and again after every call that failed."""

    def __init__(self, clock: Clock, *, settles_in: timedelta = 2 * HEARTBEAT_EVERY) -> None:
        self._clock = clock
        self._settles_in = settles_in.total_seconds()
        self._clear_at = self._blind_since = 0.0
        self.blur()

    @property
    def is_clear(self) -> bool:
        return self._clock.monotonic() >= self._clear_at

    def blur(self) -> None:
        now = self._clock.monotonic()
        if self.is_clear:
            self._blind_since = now
        self._clear_at = now + self._settles_in

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Around calls to store and coordinator: one without an answer blinds. `BlindError` when that goes on."""
        try:
            yield
        except UnavailableError as exc:
            self.blur()
            blind_for = self._clock.monotonic() - self._blind_since
            if blind_for > BLIND_AT_MOST:
                raise BlindError(f"calls have failed again and again for {blind_for:.0f} s") from exc
            raise


@dataclass(slots=True, kw_only=True)
class RecoverLostWorkers:
    """Give up the workers that are dead, and queue again what they ran, and what was granted to those that left."""

    store: Store
    coordinator: Coordinator
    time: StoreTime
    collector: MetricsCollector
    take_back: TakeBack
    lease: timedelta = WORKER_LEASE
    _asked_after: dict[WorkerId, int] = field(default_factory=dict, init=False)  # in how many more looks …
    _term: int = field(default=0, init=False)  # … of this reign: what an earlier one saw may be long ago

    async def __call__(self, reign: Reign, sight: Sight) -> bool:
        """Whether somebody was given up: what is just being granted to such a worker is to be looked for."""
        with sight.looking():
            # The pool first: whoever joins it has joined the registry before. And what is late is late by the time of
            # the look, however long it takes to act on it.
            in_pool = await self._list_in_pool()
            limit = self.time.now() - self.lease
            records = await list_registered(self.store.workers)
            absent = [one for one in records if one.worker.id not in in_pool]
            silent = [one.worker for one in absent if _is_older(one, limit)] if sight.is_clear else []
            ghosts = await self._confirm(_find_ghosts(in_pool, records))
            for worker in silent:
                await self._bury(worker, reign)
            for worker_id in ghosts:
                await self._dispel(worker_id, reign)
            for worker_id in self._list_departed(records, reign):
                await self._ask_after(worker_id, reign)
        return bool(silent or ghosts)

    async def _list_in_pool(self) -> set[WorkerId]:
        return {worker.id for worker in await self.coordinator.pool.list_alive()}

    async def _confirm(self, ghosts: list[WorkerId]) -> list[WorkerId]:
        """Those that the pool still knows, now that the registry was seen not to."""
        return sorted((await self._list_in_pool()).intersection(ghosts)) if ghosts else []

    def _list_departed(self, records: Sequence[WorkerRecord], reign: Reign) -> list[WorkerId]:
        """Those that were registered a moment ago and are not any more."""
        if reign.number != self._term:
            self._asked_after, self._term = {}, reign.number
        present = {record.worker.id for record in records}
        departed = {worker_id: looks for worker_id, looks in self._asked_after.items() if worker_id not in present}
        self._asked_after = {worker_id: looks - 1 for worker_id, looks in departed.items() if looks > 1}
        self._asked_after |= dict.fromkeys(present, ASKED_AFTER)
        return sorted(departed)

    async def _ask_after(self, departed: WorkerId, reign: Reign) -> None:
        if lost := await self._take_from(departed, reign):
            log.warning("worker.granted_after_leaving", worker_id=departed, attempts=lost, term=reign.number)

    async def _bury(self, worker: Worker, reign: Reign) -> None:
        now = self.time.now()
        lost = await self._take_from(worker.id, reign)
        reign.check()
        # Retired first: should the worker wake up between the two, it learns from the store that it has ended.
        await self.store.workers.retire([worker.id])
        await self.coordinator.pool.remove([worker.id])
        self.collector.add(metrics.WORKERS_LOST)
        log.warning("worker.lost", worker_id=worker.id, name=worker.name, attempts=lost, term=reign.number)
        event = Event(kind=EventKind.WORKER_OFFLINE, at=now, worker_id=worker.id)
        await self.coordinator.signals.publish([event])

    async def _dispel(self, ghost: WorkerId, reign: Reign) -> None:
        """Out of the pool, where its last word came after its end: it would be given work for a lease."""
        reign.check()
        await self.coordinator.pool.remove([ghost])
        lost = await self._take_from(ghost, reign)
        log.warning("worker.dispelled", worker_id=ghost, attempts=lost, term=reign.number)

    async def _take_from(self, worker_id: WorkerId, reign: Reign) -> int:
        now = self.time.now()
        held = await self.store.tasks.list_held(worker_id)
        lost = await self.take_back(reign, [TypedStep(live.type, live.state.lost(at=now)) for live in held])
        for one in lost:
            self.collector.add(metrics.ATTEMPTS_LOST, one.type)
        return len(lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSilentAttempts:
    """End attempts that are past their deadline by more than a worker takes to end and report them itself.

    A deferred one has no worker that would: it ends at its deadline, or when it is not heard of within its lease. A
    worker whose store was away delivers its results late, as callbacks come late; so nothing is ended while the leader
    is blind.
    """

    store: Store
    coordinator: Coordinator
    time: StoreTime
    random: Random
    take_back: TakeBack
    silence: timedelta = SILENCE
    batch: int = 500

    async def __call__(self, reign: Reign, sight: Sight) -> None:
        with sight.looking():
            overdue = await self._list_overdue()
            if overdue and sight.is_clear:
                await self._end(overdue, reign)

    async def _list_overdue(self) -> list[Task]:
        now = self.time.now()
        overdue = await self.store.tasks.list_overdue(self.batch)
        tasks = await self.store.tasks.load([live.id for live in overdue if self._is_silent(live.state, now)])
        return [task for task in tasks.values() if self._is_silent(task.state, now)]

    def _is_silent(self, state: TaskState, now: datetime) -> bool:
        silence = NO_TIME if state.is_deferred else self.silence
        return state.status is PROCESSING and state.due_at < now - silence

    async def _end(self, overdue: list[Task], reign: Reign) -> None:
        now = self.time.now()
        steps = [TypedStep(task.spec.type, self._time_out(task, now)) for task in overdue]
        ended = [one.step for one in await self.take_back(reign, steps)]
        for step in ended:
            log.warning("attempt.silent", task_id=step.task_id, attempt=step.before.attempt, status=step.after.status)
        await self._ask_to_stop([step for step in ended if step.after.status.is_final])
        await self._ask_to_stop([step for step in ended if step.after.status.is_waiting])
        await wake_for_deferred(self.coordinator.queue, ended)
        let_go = await list_let_go(self.coordinator.pool, running_attempts(step.before for step in ended))
        await self.coordinator.deliveries.acknowledge(let_go)

    async def _ask_to_stop(self, steps: list[Transition]) -> None:
        """A request names a task, not an attempt: where the next attempt may start soon, none is made."""
        ttls = {step.task_id: _cancel_ttl(step) for step in steps}
        wanted = {task_id: ttl for task_id, ttl in ttls.items() if ttl >= CANCEL_HEARD}
        if wanted:
            await self.coordinator.signals.request_cancel(list(wanted), ttl=min(wanted.values()))

    def _time_out(self, task: Task, at: datetime) -> Transition:
        step = conclude(task.state, _why(task), policy=task.spec.retry, at=at, chance=self.random.chance())
        return bounded(step, task.spec.end_by)


def _find_ghosts(in_pool: Collection[WorkerId], records: Sequence[WorkerRecord]) -> list[WorkerId]:
    return sorted(set(in_pool) - {record.worker.id for record in records})


def _is_older(record: WorkerRecord, limit: datetime) -> bool:
    return record.seen_at < limit


def _why(task: Task) -> TimedOut:
    state = task.state
    if not state.is_deferred:
        return TimedOut()
    deadline = (state.started_at or state.due_at) + task.spec.timeout
    return NO_HEARTBEAT if state.due_at < min(deadline, task.spec.end_by or deadline) else NO_CALLBACK


def _cancel_ttl(step: Transition) -> timedelta:
    if step.after.status.is_final:
        return STOP_KEPT
    return min(step.after.due_at - step.at - CANCEL_MARGIN, STOP_KEPT)
