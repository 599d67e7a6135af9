"""Coordination inside one process: for `rota dev`, tests and the simulation.

`MemoryState` is what all nodes share, as they would share a server; its `forget` is that server losing its memory. All
time is the injected clock's, so leases and waits run as well on a virtual one. Nothing here awaits between reading and
writing, which is what makes each call atomic on an event loop; one state belongs to one loop.
"""

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

from rota.application.ports.coordinator import NO_WAIT, Coordinator
from rota.application.ports.system import Clock
from rota.domain.attempt import Attempt
from rota.domain.events import Event, Told
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.priority import LEVELS
from rota.domain.queue import MOST_BROUGHT, DueMove, QueueDepths, QueueEntry, Taken, WorkerLoads
from rota.domain.task import LiveTask
from rota.domain.worker import Heartbeat, Worker
from rota.infrastructure.coordination.event_buffer import REMEMBERED, EventBuffer, find_number
from rota.infrastructure.coordination.memory_assistance import MemoryAssistance, Sharing, count_places
from rota.infrastructure.coordination.memory_locks import Held, MemoryLocks
from rota.infrastructure.instants import to_us

EVENT_ID = "m"


class Bell:
    """Wakes who waits. A ring that nobody heard is kept for the next to come, once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[asyncio.Future[bool], None] = {}  # in the order they came
        self._is_rung = False

    def ring(self) -> None:
        self._is_rung = not self._wake_one()

    def ring_all(self) -> None:
        """Wake everyone who waits now; nothing is kept."""
        while self._wake_one():
            pass

    def hush(self) -> None:
        self._is_rung = False

    async def wait(self, wait: timedelta) -> bool:
        """Whether it rang before the wait was over."""
        if self._is_rung:
            self._is_rung = False
            return True
        if wait <= timedelta(0):
            return False
        heard: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[heard] = None
        sleeper = asyncio.ensure_future(self._clock.sleep(wait))
        sleeper.add_done_callback(partial(_tell_over, heard))
        try:
            return await heard  # and nothing after it: who is woken goes on at once
        except asyncio.CancelledError:
            if not heard.cancelled() and heard.result():
                self.ring()  # it rang for someone who has left: pass it on
            raise
        finally:
            sleeper.cancel()
            self._waiting.pop(heard, None)  # whoever rang has taken it out

    def _wake_one(self) -> bool:
        while self._waiting:
            heard = next(iter(self._waiting))
            del self._waiting[heard]
            if not heard.done():  # else its wait is just over, or was cancelled
                heard.set_result(True)
                return True
        return False


def _tell_over(heard: asyncio.Future[bool], _sleeper: asyncio.Future[None]) -> None:
    if not heard.done():
        heard.set_result(False)


@dataclass(frozen=True, slots=True)
class _Lease:
    node_id: NodeId
    number: int
    until: float


@dataclass(frozen=True, slots=True)
class _Member:
    worker: Worker
    until: float
    beat: Heartbeat | None = None


@dataclass(slots=True)
class _Queues:
    """The tasks that wait; a rebuild starts from empty ones."""

    ready: dict[int, deque[TaskId]] = field(default_factory=lambda: {level: deque() for level in LEVELS})
    added: dict[TaskId, LiveTask] = field(default_factory=dict)  # what some of them brought along
    delayed: list[tuple[datetime, int, TaskId]] = field(default_factory=list)  # in order
    due: dict[tuple[int, TaskId], datetime] = field(default_factory=dict)  # the same entries, to find them by
    building: str | None = None
    generation: str | None = None


@dataclass(slots=True)
class _Memory:
    """Everything that a lost memory loses."""

    lease: _Lease | None = None
    workers: dict[WorkerId, _Member] = field(default_factory=dict)
    queues: _Queues = field(default_factory=_Queues)
    assigned: dict[WorkerId, dict[Attempt, None]] = field(default_factory=dict)  # sets, oldest first
    in_flight: dict[WorkerId, set[Attempt]] = field(default_factory=dict)
    cancelled: dict[TaskId, float] = field(default_factory=dict)  # with the end of the request
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    sharing: Sharing = field(default_factory=Sharing)
    locks: dict[str, Held] = field(default_factory=dict)


class MemoryState:
    """What the nodes of one process share."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.memory = _Memory()
        self.last_lease = 0  # survives `forget`: a number is never used twice
        self.last_fence = 0  # so does this one
        self.last_event = to_us(clock.now())  # so does this one; above what this process used before it was restarted
        self.changes = 0  # and this: of the pool
        self.handed = 0  # and this: how often something was assigned or reserved
        self.work = Bell(clock)
        self.assistants = Bell(clock)
        self.vacancy = Bell(clock)
        self.deliveries: dict[WorkerId, Bell] = {}
        self.listeners: set[EventBuffer] = set()

    def forget(self) -> None:
        """Lose everything, like a server that was flushed: those who wait or listen stay connected."""
        self.memory = _Memory()
        self.last_event += 1  # so that nobody who comes back seems to have missed nothing
        for bell in (self.work, self.assistants, *self.deliveries.values()):
            bell.hush()

    def ring_work(self) -> None:
        self.work.ring()
        self.assistants.ring()

    def note_handed(self, worker_id: WorkerId) -> None:
        self.handed += 1
        self.memory.sharing.handed[worker_id] = self.handed

    def bell_of(self, worker_id: WorkerId) -> Bell:
        return self.deliveries.setdefault(worker_id, Bell(self.clock))

    async def let_others_go_on(self) -> None:
        """Those who were woken first: whatever the caller does next is less urgent than what they wait for."""
        await self.clock.sleep(NO_WAIT)

    def end_of(self, duration: timedelta) -> float:
        return self.clock.monotonic() + duration.total_seconds()


class MemoryElection:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def campaign(self, node_id: NodeId, ttl: timedelta) -> int | None:
        if self._find_lease() is not None:
            return None
        self._state.last_lease += 1
        self._state.memory.lease = _Lease(node_id, self._state.last_lease, self._state.end_of(ttl))
        return self._state.last_lease

    async def renew(self, node_id: NodeId, lease: int, *, ttl: timedelta) -> bool:
        current = self._find_lease()
        if current is None or (current.node_id, current.number) != (node_id, lease):
            return False
        self._state.memory.lease = replace(current, until=self._state.end_of(ttl))
        return True

    async def resign(self, node_id: NodeId, lease: int) -> None:
        current = self._find_lease()
        if current is not None and (current.node_id, current.number) == (node_id, lease):
            self._state.memory.lease = None
            self._state.vacancy.ring_all()

    async def find_leader(self) -> NodeId | None:
        current = self._find_lease()
        return None if current is None else current.node_id

    async def wait_for_vacancy(self, wait: timedelta) -> bool:
        return await self._state.vacancy.wait(wait)

    def _find_lease(self) -> _Lease | None:
        lease = self._state.memory.lease
        return lease if lease is not None and lease.until > self._state.clock.monotonic() else None


class MemoryWorkerPool:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def register(self, worker: Worker, lease: timedelta) -> None:
        self._state.memory.workers[worker.id] = _Member(worker, self._state.end_of(lease))
        self._state.changes += 1

    async def heartbeat(self, worker_id: WorkerId, beat: Heartbeat, *, lease: timedelta) -> bool:
        members = self._list_members()
        if worker_id not in members:
            return False
        worker = replace(members[worker_id].worker, load=beat.load)
        members[worker_id] = _Member(worker, self._state.end_of(lease), beat)
        return True

    async def remove(self, worker_ids: Sequence[WorkerId]) -> None:
        memory = self._state.memory
        self._state.changes += 1
        for worker_id in worker_ids:
            for known in (memory.workers, memory.assigned, memory.in_flight, memory.sharing.places):
                known.pop(worker_id, None)
            bell = self._state.deliveries.pop(worker_id, None)
            if bell is not None:
                bell.ring_all()  # or a take that still waits would never hear of a later assign

    async def list_alive(self) -> list[Worker]:
        return [member.worker for _, member in sorted(self._list_members().items())]

    async def list_beats(self) -> dict[WorkerId, Heartbeat]:
        members = self._list_members().items()
        return {worker_id: member.beat for worker_id, member in members if member.beat is not None}

    def _list_members(self) -> dict[WorkerId, _Member]:
        """Those whose lease runs; the others are forgotten."""
        now, memory = self._state.clock.monotonic(), self._state.memory
        memory.workers = {worker_id: member for worker_id, member in memory.workers.items() if member.until > now}
        return memory.workers


class MemoryTaskQueue:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def push(self, entries: Sequence[QueueEntry]) -> None:
        queues = self._state.memory.queues
        next_due = queues.delayed[0][0] if queues.delayed else None
        for entry in entries:
            if entry.due_at is None:
                queues.ready[entry.priority].append(entry.task_id)
                if entry.added is None:
                    queues.added.pop(entry.task_id, None)  # it may have changed since it brought itself along
                elif len(queues.added) < MOST_BROUGHT:
                    queues.added[entry.task_id] = entry.added
            else:
                self._delay(entry, entry.due_at)
        has_ready = any(entry.due_at is None for entry in entries)
        if has_ready or (queues.delayed and (next_due is None or queues.delayed[0][0] < next_due)):
            self._state.ring_work()
            await self._state.let_others_go_on()

    async def take(self, limit: int, *, order: Sequence[int], wait: timedelta = NO_WAIT) -> Taken:
        is_woken = bool(wait) and await self._state.work.wait(wait)
        queues = self._state.memory.queues
        taken: list[TaskId] = []
        for level in order:
            count = min(limit - len(taken), len(queues.ready[level]))
            taken.extend(queues.ready[level].popleft() for _ in range(count))
        heads = {level: waiting[0] for level, waiting in queues.ready.items() if waiting}
        added = {task_id: queues.added.pop(task_id) for task_id in taken if task_id in queues.added}
        return Taken(tuple(taken), heads, added, self._state.changes, is_woken)

    async def wait_for_work(self, wait: timedelta) -> bool:
        return await self._state.work.wait(wait)

    async def wake(self) -> None:
        self._state.ring_work()

    async def move_due(self, now: datetime, limit: int) -> DueMove:
        queues = self._state.memory.queues
        due = [entry for entry in queues.delayed[:limit] if entry[0] <= now]
        del queues.delayed[: len(due)]
        for _, priority, task_id in due:
            del queues.due[priority, task_id]
            queues.ready[priority].append(task_id)
        if due:
            self._state.ring_work()
        return DueMove(len(due), queues.delayed[0][0] if queues.delayed else None)

    async def discard(self, entries: Sequence[QueueEntry]) -> None:
        for entry in entries:
            self._discard(entry)

    async def depths(self) -> QueueDepths:
        memory = self._state.memory
        return QueueDepths(
            ready={level: len(waiting) for level, waiting in memory.queues.ready.items() if waiting},
            delayed=len(memory.queues.delayed),
            assigned=_lengths(memory.assigned),
            in_flight=_lengths(memory.in_flight),
            reserved=count_places(self._state),
            as_of=self._state.handed,
        )

    async def loads(self) -> WorkerLoads:
        return await self.depths()

    async def find_generation(self) -> str | None:
        return self._state.memory.queues.generation

    async def rebuild(self, generation: str, pages: AsyncIterator[Sequence[QueueEntry]]) -> None:
        self._state.memory.queues = _Queues(building=generation)
        self._state.memory.sharing.passed.clear()
        async for page in pages:
            await self.push(page)
        queues = self._state.memory.queues
        if queues.building == generation:  # else it was lost, or begun again by another, in the meantime
            queues.building, queues.generation = None, generation

    def _delay(self, entry: QueueEntry, due_at: datetime) -> None:
        self._discard(entry)
        insort(self._state.memory.queues.delayed, (due_at, entry.priority, entry.task_id))
        self._state.memory.queues.due[entry.priority, entry.task_id] = due_at

    def _discard(self, entry: QueueEntry) -> None:
        queues = self._state.memory.queues
        due_at = queues.due.pop((entry.priority, entry.task_id), None)
        if due_at is not None:
            del queues.delayed[bisect_left(queues.delayed, (due_at, entry.priority, entry.task_id))]


class MemoryDeliveries:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def assign(self, attempts: Sequence[Attempt]) -> None:
        assigned, in_flight = self._state.memory.assigned, self._state.memory.in_flight
        new = [attempt for attempt in attempts if attempt not in in_flight.get(attempt.worker_id, set())]
        for attempt in new:
            assigned.setdefault(attempt.worker_id, {})[attempt] = None
        for worker_id in dict.fromkeys(attempt.worker_id for attempt in new):
            self._state.note_handed(worker_id)
            self._state.bell_of(worker_id).ring()
        await self._state.let_others_go_on()

    async def take(self, worker_id: WorkerId, limit: int, *, wait: timedelta) -> list[Attempt]:
        taken = self._take(worker_id, limit)
        if taken or not await self._state.bell_of(worker_id).wait(wait):
            return taken
        return self._take(worker_id, limit)

    async def acknowledge(self, attempts: Sequence[Attempt]) -> None:
        assigned, in_flight = self._state.memory.assigned, self._state.memory.in_flight
        for attempt in attempts:
            in_flight.get(attempt.worker_id, set()).discard(attempt)
            waiting = assigned.get(attempt.worker_id, {})
            if attempt in waiting:
                del waiting[attempt]
                self._hush_if_empty(attempt.worker_id)
        if attempts:
            self._state.ring_work()

    async def list_assigned(self, worker_id: WorkerId) -> list[Attempt]:
        return list(self._state.memory.assigned.get(worker_id, {}))

    async def held(self, worker_id: WorkerId) -> list[Attempt]:
        in_flight = self._state.memory.in_flight.get(worker_id, set())
        return sorted(in_flight, key=lambda attempt: (attempt.task_id, attempt.number))

    def _take(self, worker_id: WorkerId, limit: int) -> list[Attempt]:
        waiting = self._state.memory.assigned.get(worker_id, {})
        taken = list(islice(waiting, limit))
        for attempt in taken:
            del waiting[attempt]
        self._state.memory.in_flight.setdefault(worker_id, set()).update(taken)
        if taken:
            self._hush_if_empty(worker_id)
        return taken

    def _hush_if_empty(self, worker_id: WorkerId) -> None:
        if not self._state.memory.assigned.get(worker_id):
            self._state.bell_of(worker_id).hush()  # or the next take would be woken to find nothing


class MemorySignals:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def request_cancel(self, task_ids: Sequence[TaskId], *, ttl: timedelta) -> None:
        now, cancelled = self._state.clock.monotonic(), self._state.memory.cancelled
        while cancelled and next(iter(cancelled.values())) <= now:
            del cancelled[next(iter(cancelled))]
        for task_id in task_ids:
            cancelled.pop(task_id, None)  # to the end: the oldest request stays the first
            cancelled[task_id] = self._state.end_of(ttl)

    async def find_cancelled(self, task_ids: Sequence[TaskId]) -> frozenset[TaskId]:
        now, cancelled = self._state.clock.monotonic(), self._state.memory.cancelled
        return frozenset(task_id for task_id in task_ids if cancelled.get(task_id, now) > now)

    async def publish(self, events: Sequence[Event]) -> None:
        last = self._state.last_event
        self._state.last_event += len(events)
        self._state.memory.events.extend(events)
        for told in _number(events, after=last) if self._state.listeners else ():
            for listener in self._state.listeners:
                listener.put(told)

    @asynccontextmanager
    async def subscribe(self, *, after: str | None = None) -> AsyncIterator[AsyncIterator[Told]]:
        listener = EventBuffer(() if after is None else self._recall(after))
        self._state.listeners.add(listener)
        try:
            yield listener
        finally:
            self._state.listeners.remove(listener)

    def _recall(self, after: str) -> list[Told]:
        known, last = self._state.memory.events, self._state.last_event
        number = find_number(after, EVENT_ID)
        if number is None or not known or not last - len(known) <= number <= last:
            return [Told(f"{EVENT_ID}{last}", None)]
        return list(_number(islice(known, number - (last - len(known)), None), after=number))


def memory_coordinator(clock: Clock) -> Coordinator:
    """A coordinator of its own, empty."""
    return join_memory(MemoryState(clock))


def join_memory(state: MemoryState) -> Coordinator:
    """One node's view of a shared state."""
    return Coordinator(
        election=MemoryElection(state),
        pool=MemoryWorkerPool(state),
        queue=MemoryTaskQueue(state),
        deliveries=MemoryDeliveries(state),
        signals=MemorySignals(state),
        locks=MemoryLocks(state),
        assistance=MemoryAssistance(state),
    )


def _number(events: Iterable[Event], *, after: int) -> Iterator[Told]:
    """As listeners get them: the first comes right after the one with this number."""
    for number, event in enumerate(events, start=after + 1):
        yield Told(f"{EVENT_ID}{number}", event)


def _lengths(attempts: Mapping[WorkerId, Collection[Attempt]]) -> dict[WorkerId, int]:
    return {worker_id: len(some) for worker_id, some in attempts.items() if some}
