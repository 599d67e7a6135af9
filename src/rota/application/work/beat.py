"""Being known: this worker joins the store's registry and the coordinator's pool, and says that it lives to both.

Both are told on their own, so that one that is away does not make the worker look dead to the other. The store decides
who this worker is: an incarnation that the store has retired is over, whatever still runs of it. Its attempts belong to
others by then; they are stopped, nothing is reported, and the worker starts over under a new id. A pool that has merely
forgotten the worker is joined again: every attempt in hand is compared with the store, and handed over once more, so
that the coordinator knows what fills this worker before it is given anything new.

A worker that neither of the two hears for a lease stops what it runs (`lease.py`), as nobody can tell it to. While the
store gives no answer nothing that is handed over could be begun: the pool is told that there is no room here, or a
worker that is merely cut off from the store would look idle, and be given all the work. It is told the same while it
gives no answer itself: it may hear this worker all the same, and nothing that it hands over would arrive.

What operators ask of this incarnation stands in its record, with which the store answers each heartbeat; one is sent at
once when a signal says that there is something new (`cancel.py`). While the event loop of all this is held up,
`deputy.py` speaks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from rota.application import metrics
from rota.application.loop import Loops
from rota.application.ports.store import WorkerRecord
from rota.application.work.cancel import find_foreign
from rota.application.work.hands import Hands, Stop
from rota.application.work.intake import Intake
from rota.application.work.lease import Lease, Witness
from rota.application.work.nudge import Nudge
from rota.application.work.running import Running
from rota.application.work.settings import WorkerPorts
from rota.application.work.settle import Settler
from rota.application.work.standing import Standing
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event, EventKind
from rota.domain.ids import WorkerId
from rota.domain.worker import MAX_CAPACITY, Heartbeat, Worker

BEATS_PER_WORD = 5  # a pool whose server failed over may have forgotten the last word about a worker, not the worker
BEATS_UNHEARD = 2  # so many without an answer of the store, or of the pool, and a worker takes nothing new

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Presence:
    """The two loops that keep this worker known."""

    ports: WorkerPorts
    standing: Standing
    hands: Hands
    running: Running
    intake: Intake
    settler: Settler
    loops: Loops
    lease: Lease
    lasts: timedelta  # what the pool is asked for
    every: timedelta
    pool_nudge: Nudge
    registry_nudge: Nudge
    sign: Callable[[], None]  # the deputy hears who this is
    _joining: Worker | None = None
    _is_joining_unheard: bool = False  # the pool has not answered yet
    _in_pool: Worker | None = None  # as they know it
    _in_registry: Worker | None = None
    _heard_at: float = float("-inf")  # the store, by the monotonic clock
    _pool_heard_at: float = float("-inf")  # and the pool
    _tell_again_at: float = float("-inf")  # by the same

    @property
    def incarnation(self) -> WorkerId | None:
        """Who this worker is, or is about to be."""
        worker = self.standing.worker or self._joining
        return None if worker is None else worker.id

    async def beat_registry(self) -> None:
        """Tell the store, and hear from it whether this incarnation still counts and what operators ask of it."""
        worker = self.standing.worker
        if worker is None:
            await self._join()
        else:
            if worker != self._in_registry:
                await self.ports.store.workers.register(self._loaded(worker))
                self._in_registry = worker
            sent_at = self.ports.clock.monotonic()
            records = await self.ports.store.workers.seen({worker.id: self.hands.load})
            self._hear()
            await self._follow(worker, records, sent_at=sent_at)
        await self.registry_nudge.wait(self.loops.until_tick(self.every))

    async def beat_pool(self) -> None:
        """Tell the coordinator, and adopt what it thinks is in flight here."""
        worker = self.standing.worker
        if worker is not None:
            await self._beat_pool(worker)
        await self.pool_nudge.wait(self.loops.until_tick(self.every))

    def compose_beat(self, worker_id: WorkerId) -> Heartbeat:
        """What an incarnation says of itself now."""
        held = self.hands.list_held(worker_id)[:MAX_CAPACITY]
        return Heartbeat(
            load=self.hands.load,
            completed=self.running.completed,
            held=frozenset((attempt.task_id, attempt.number) for attempt in held),
        )

    async def _join(self) -> None:
        if self.standing.is_leaving:
            return
        if self._joining is None:
            self._joining = self.standing.compose(WorkerId(self.ports.ids.next()))
            self.sign()  # once it is registered the leader may find it dead, and give it work
        worker = self._joining
        await self.ports.store_time.sync()  # no attempt may begin before its deadline can be known
        # The store first: an incarnation that is given work must be one that the leader can find dead.
        sent_at = self.ports.clock.monotonic()
        await self.ports.store.workers.register(worker)
        self._hear()
        # If the pool heard this before and its answer got lost, it gives work to one that will not hear of it.
        told = replace(worker, is_draining=True) if self._is_joining_unheard else worker
        self._is_joining_unheard = True
        await self.ports.coordinator.pool.register(told, self.lasts)
        self._is_joining_unheard = False
        self.lease.renew(Witness.REGISTRY, sent_at)
        await self.ports.coordinator.queue.wake()  # something may be waiting for a worker like this one
        self._joining = None
        self._pool_heard_at = self.ports.clock.monotonic()
        self._in_pool, self._in_registry = told, worker
        self.standing.join(worker)
        if told is not worker:
            self.pool_nudge.give()
        log.info("worker.online", worker_id=worker.id, name=worker.name, capacity=worker.capacity)
        self.settler.tell([self._event(EventKind.WORKER_ONLINE, worker.id)])

    async def _beat_pool(self, worker: Worker) -> None:
        pool = self.ports.coordinator.pool
        began_at = self.ports.clock.monotonic()
        told = self._as_told(worker)
        if told != self._in_pool or began_at >= self._tell_again_at or self.standing.is_misunderstood:
            await pool.register(self._loaded(told), self.lasts)
            self.standing.is_misunderstood = False
            self._in_pool = told
            self._tell_again_at = began_at + BEATS_PER_WORD * self.every.total_seconds()
        sent_at = self.ports.clock.monotonic()
        is_known = await pool.heartbeat(worker.id, self.compose_beat(worker.id), lease=self.lasts)
        self._hear_pool()
        if is_known:
            self._note_heard(Witness.POOL, sent_at)
        self.ports.collector.observe(metrics.HEARTBEAT_SECONDS, value=self.ports.clock.monotonic() - began_at)
        if not is_known and not self.standing.is_leaving:
            await self._rejoin(worker)
        if self.standing.worker is not None:
            self.intake.adopt(await self.ports.coordinator.deliveries.held(worker.id))
        self.ports.collector.put(metrics.WORKER_LOAD, value=self.hands.load)
        self.ports.collector.put(metrics.WORKER_CAPACITY, value=self.standing.capacity)

    async def _follow(self, worker: Worker, records: Sequence[WorkerRecord], *, sent_at: float) -> None:
        """Whether it is still this one, and what operators ask of it."""
        if not records:
            await self._start_over(worker)
        elif self._is_present(worker):
            self._note_heard(Witness.REGISTRY, sent_at)
            self.standing.follow(records[0].orders)

    def _note_heard(self, witness: Witness, sent_at: float) -> None:
        was_held = self.lease.is_held
        self.lease.renew(witness, sent_at)
        if not was_held and self.lease.is_held:
            log.warning("worker.lease_regained", witness=witness.value)
            self.intake.freed.give()

    async def _rejoin(self, worker: Worker) -> None:
        """The pool does not know us: its lease ran out, it lost its memory, or we were removed."""
        if await self._find_record(worker.id) is None:
            await self._start_over(worker)
            return
        log.warning("worker.rejoined", worker_id=worker.id)
        foreign = await find_foreign(self.ports.store.tasks, list(self.hands.running.values()))
        for holding in foreign:
            self.running.stop(holding, Stop.FENCED)
        # What is in hand first, or the leader would take those slots for free ones.
        lost = {holding.attempt for holding in foreign}
        held = [attempt for attempt in self.hands.list_held(worker.id) if attempt not in lost]
        await self.ports.coordinator.deliveries.assign(held)
        await self.ports.coordinator.pool.register(self._loaded(self._as_told(worker)), self.lasts)

    def _hear(self) -> None:
        """The store has answered."""
        was_deaf, self._heard_at = self._is_long_ago(self._heard_at), self.ports.clock.monotonic()
        if was_deaf:
            self.pool_nudge.give()

    def _hear_pool(self) -> None:
        """The pool has answered. If it was told meanwhile that there is no room here, it is told otherwise at once."""
        was_deaf, self._pool_heard_at = self._is_long_ago(self._pool_heard_at), self.ports.clock.monotonic()
        if was_deaf:
            self.pool_nudge.give()

    def _is_long_ago(self, heard_at: float) -> bool:
        return self.ports.clock.monotonic() - heard_at > BEATS_UNHEARD * self.every.total_seconds()

    def _as_told(self, worker: Worker) -> Worker:
        """As the pool is to know it: one that cannot hear the store, or the pool itself, takes nothing new."""
        is_deaf = self._is_long_ago(min(self._heard_at, self._pool_heard_at))
        return replace(worker, is_draining=True) if is_deaf else worker

    async def _start_over(self, worker: Worker) -> None:
        if not self._is_present(worker):
            return  # the other loop saw it first
        log.warning("worker.fenced", worker_id=worker.id, running=len(self.hands.running))
        self.standing.end()
        self.hands.taken.clear()
        self.running.stop_all(Stop.FENCED)
        try:
            await self.ports.coordinator.pool.remove([worker.id])
        except CoordinatorUnavailableError as exc:
            log.warning("worker.remove_failed", worker_id=worker.id, error=str(exc))

    async def _find_record(self, worker_id: WorkerId) -> WorkerRecord | None:
        """What the store has about an incarnation; None when it has retired."""
        found = await self.ports.store.workers.list_all(alive_only=True, after=WorkerId(worker_id - 1), limit=1)
        return found[0] if found and found[0].worker.id == worker_id else None

    def _is_present(self, worker: Worker) -> bool:
        return self.standing.worker is not None and self.standing.worker.id == worker.id

    def _loaded(self, worker: Worker) -> Worker:
        return replace(worker, load=self.hands.load)

    def _event(self, kind: EventKind, worker_id: WorkerId) -> Event:
        return Event(kind=kind, at=self.ports.store_time.now(), worker_id=worker_id)
