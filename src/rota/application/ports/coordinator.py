"""The coordinator: fast and forgetful. It holds only hints that can be rebuilt from the store.

Rules of every method, which the contract suite checks on every adapter:

- Losing everything in it at any moment loses no task; a duplicate entry in it runs no task twice (the store's
  compare-and-set decides). So everything here may be repeated after an unknown outcome.
- What an adapter finds in its memory and cannot read (a newer release or a stranger wrote it) is left out, never an
  error: one strange entry must not hide the others.
- `CoordinatorUnavailableError` means the outcome is unknown.
- Leases (leader, workers) expire on the coordinator's own clock. What is due is decided by a time passed in, which
  the caller has from the store's clock.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from rota.domain.attempt import Attempt
from rota.domain.events import Event, Told
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.queue import DueMove, QueueDepths, QueueEntry, Taken, WorkerLoads
from rota.domain.worker import Heartbeat, Worker

NO_WAIT = timedelta(0)


class Election(Protocol):
    async def campaign(self, node_id: NodeId, ttl: timedelta) -> int | None:
        """Try once to become leader. The number of the lease won (strictly growing, never reused, also not after
        the coordinator lost its memory), or None while another node, or an earlier lease of this one, leads.
        Atomic."""
        ...

    async def renew(self, node_id: NodeId, lease: int, *, ttl: timedelta) -> bool:
        """Prolong exactly this lease. False when it is over: stop acting."""
        ...

    async def resign(self, node_id: NodeId, lease: int) -> None:
        """End exactly this lease and wake the standbys; a newer one is left alone."""
        ...

    async def find_leader(self) -> NodeId | None:
        """Who leads now, for people to see. Never a reason to act."""
        ...

    async def wait_for_vacancy(self, wait: timedelta) -> bool:
        """Block until a leader resigned (True) or the wait is over (False). A hint: campaign either way.

        Only a resignation counts: a lease that runs out wakes nobody, so let the wait be shorter than a lease."""
        ...


class WorkerPool(Protocol):
    async def register(self, worker: Worker, lease: timedelta) -> None:
        """Join the pool, or replace what is known of this worker (capacity, types, draining, load).

        Its last heartbeat is forgotten, but may be kept where the worker is known just so, with the same load.
        Atomic."""
        ...

    async def heartbeat(self, worker_id: WorkerId, beat: Heartbeat, *, lease: timedelta) -> bool:
        """Prolong the lease and report load, progress and what is held. Atomic.

        False when the pool does not know the worker: register again. An adapter may leave it unnoticed that somebody
        deleted a worker that has no news, until that one registers again by itself."""
        ...

    async def remove(self, worker_ids: Sequence[WorkerId]) -> None:
        """Leave the pool at once, and drop the queues of these workers."""
        ...

    async def list_alive(self) -> list[Worker]:
        """The workers whose lease runs, by id, with the load last reported. Cheap: what they hold is not read.

        A worker whose description cannot be read is left out: it gets no work, but it may still beat."""
        ...

    async def list_beats(self) -> dict[WorkerId, Heartbeat]:
        """The last heartbeat of each worker whose lease runs.

        One that has not sent any since it registered is not there: it has not said that it holds nothing."""
        ...


class TaskQueue(Protocol):
    async def push(self, entries: Sequence[QueueEntry]) -> None:
        """Queue tasks: ready ones (no due time) by priority, the others until `move_due` finds them due.

        A delayed task that is pushed again has only its last due time; a ready one may be there twice. Atomic.
        Wakes the scheduler when something is ready or the next due time has come closer. The wake follows the write and
        may be lost with the process: the scheduler's own slow poll is the net. What a ready entry brings along
        (`QueueEntry.added`) is given to whoever takes it, or forgotten."""
        ...

    async def take(self, limit: int, *, order: Sequence[int], wait: timedelta = NO_WAIT) -> Taken:
        """Take up to `limit` ids, exhausting the levels in the given order, each oldest first. Atomic.

        With a `wait`, it does so when `wait_for_work` would return: at the first wake, or when the wait is over. The
        wake may have been for something else, and then it brings nothing.

        `Taken.changes` is another number than before when a worker was registered or removed in between; one whose
        lease has run out is not counted.

        Levels that are not in the order are left, but their heads are shown too; a limit of 0 shows the heads only.
        How long a head has waited is not known here; the caller counts from when it first saw it
        (`rota.domain.priority.follow_heads`), never from the time in its id, which may be long before it was due."""
        ...

    async def wait_for_work(self, wait: timedelta) -> bool:
        """Block until something became ready or a worker got room (True), or the wait is over (False)."""
        ...

    async def wake(self) -> None:
        """Let one present or future `wait_for_work` return."""
        ...

    async def move_due(self, now: datetime, limit: int) -> DueMove:
        """Make up to `limit` delayed entries that are due by `now` ready. Atomic."""
        ...

    async def discard(self, entries: Sequence[QueueEntry]) -> None:
        """Forget delayed entries (cancelled, moved), by task and the priority they were pushed with.

        Ready ones are left: dispatch drops what no longer waits."""
        ...

    async def depths(self) -> QueueDepths:
        """How much waits where, now: in the queues, and at each worker of the pool that has entries.

        An adapter may also count a worker that left the pool and still has some. What it costs may grow with what
        waits."""
        ...

    async def loads(self) -> WorkerLoads:
        """The same without what waits in the queues, for every dispatch round: it costs no more if much waits."""
        ...

    async def find_generation(self) -> str | None:
        """The name of the present memory. None: it was lost, or never was; rebuild before trusting absence."""
        ...

    async def rebuild(self, generation: str, pages: AsyncIterator[Sequence[QueueEntry]]) -> None:
        """Empty the queues of waiting tasks, then push the pages as they come, then name the new memory.

        The pages are read after the queues were emptied, so nothing pushed in between can be lost. Not atomic: a
        rebuild that was interrupted, or whose memory was lost under way, leaves no generation and is done again.
        Deliveries are left alone."""
        ...


class Deliveries(Protocol):
    async def assign(self, attempts: Sequence[Attempt]) -> None:
        """Put granted attempts into their workers' queues and wake those workers. Atomic.

        An attempt that is already there keeps its place, and one in flight is not queued again: a repeat after an
        unknown outcome hands nothing over twice, unless the attempt was acknowledged in between."""
        ...

    async def take(self, worker_id: WorkerId, limit: int, *, wait: timedelta) -> list[Attempt]:
        """Take up to `limit` attempts from the worker's own queue, oldest first; waits while it is empty.

        What is taken stays in flight until acknowledged, and a take never brings what is in flight already: one call
        per attempt. An entry whose take was cut off is found by `held`. When two takes of one worker wait at once, one
        of them may return early with nothing, and so may one whose news was acknowledged before it looked. Atomic."""
        ...

    async def acknowledge(self, attempts: Sequence[Attempt]) -> None:
        """These attempts have ended and are recorded in the store: forget them, in flight or not even taken yet.

        So one that was cancelled or given up before its worker fetched it is not handed over any more. May be repeated.
        Wakes the scheduler. The wake follows the write and may be lost with the process, as that of a push."""
        ...

    async def list_assigned(self, worker_id: WorkerId) -> list[Attempt]:
        """The attempts in the worker's queue, oldest first: assigned and not yet taken.

        With `held` it tells what was never handed over from what the worker has not fetched yet. An attempt may be
        taken between the two calls, so ask here first."""
        ...

    async def held(self, worker_id: WorkerId) -> list[Attempt]:
        """The attempts in flight at the worker, by task: taken and not acknowledged."""
        ...


class Signals(Protocol):
    async def request_cancel(self, task_ids: Sequence[TaskId], *, ttl: timedelta) -> None:
        """Ask whoever runs these tasks to stop. Remembered for `ttl`."""
        ...

    async def find_cancelled(self, task_ids: Sequence[TaskId]) -> frozenset[TaskId]:
        """Those of the tasks whose cancellation was asked for.

        Who asks about the same tasks again may be told a moment late of what was asked for in between."""
        ...

    async def publish(self, events: Sequence[Event]) -> None:
        """Tell the listeners, in order. The last 10,000 or so are remembered for those who come back."""
        ...

    def subscribe(self, *, after: str | None = None) -> AbstractAsyncContextManager[AsyncIterator[Told]]:
        """Listen: every event published after the context was entered, in the publisher's order.

        `after` is the id of what was heard last, on this node or another: what has been published since then comes
        first, without gap or repeat. Ids look as `domain.events.EVENT_ID` says, with letters of each coordinator's own.
        When that is not remembered any more, or the id is not of this coordinator's making, a `Told` without an event
        comes first. A listener that falls far behind (ten thousand events or so) loses the oldest rather than hold up
        the others, and is told so in the same way. One that can hear no more gets `CoordinatorUnavailableError` in
        place of the next event: listen anew, after the last id."""
        ...


class Locks(Protocol):
    """Locks by name, for programs that use Rota; nothing in Rota relies on one.

    A lock is advice: it runs out on the coordinator's clock, and who held it may not know that yet, or have been
    paused. Losing the coordinator's memory ends all locks, and then two may believe for a while that they hold the
    same one. What makes it safe is the fence, a number above that of every earlier taking of the name: pass it on to
    what the lock protects, and let that refuse whoever comes with a smaller one than it has seen. Fences grow across a
    lost memory too, as far as the clock that they are drawn from is not set back; on an etcd that was replaced by an
    empty one they begin anew.

    A name is letters, digits and `_ . -`, up to 200, and an owner a text of up to 200; others raise `InvalidError`."""

    async def take(self, name: str, owner: str, *, ttl: timedelta) -> int | None:
        """Try once to take a lock: its fence, or None while another owner holds it.

        Atomic. May be repeated after an unknown outcome: the same owner gets a new fence, and what it held by an
        earlier one is over. It runs out on the coordinator's clock, not before its ttl."""
        ...

    async def renew(self, name: str, owner: str, *, fence: int, ttl: timedelta) -> bool:
        """Let exactly this holding last for `ttl` from now. False when it is over: stop. Atomic, may be repeated."""
        ...

    async def release(self, name: str, owner: str, *, fence: int) -> bool:
        """End exactly this holding; one that is newer, or another owner's, is left alone. False when it was over, as it
        is when a release is repeated. Atomic."""
        ...


@dataclass(frozen=True, slots=True)
class Holder:
    """Who reserves places: a name of its own, and the seat of its process, with which its places end."""

    name: str
    seat: int


class Assistance(Protocol):
    """What schedulers need that dispatch at once, beside a queue from which two never take the same entry.

    A scheduler has a seat while it lives. Before it grants anything to a worker it reserves places there, so that two
    of them never fill the same ones. What only the leader may grant, or can, is passed on to it."""

    async def join(self, node_id: NodeId, ttl: timedelta) -> int:
        """Take a seat, beside or instead of an earlier one of the same node; its number is never used again."""
        ...

    async def renew(self, node_id: NodeId, seat: int) -> bool:
        """Prolong a seat by the duration it was taken for. False when it is over: take another."""
        ...

    async def leave(self, node_id: NodeId, seat: int) -> None:
        """Give up a seat, and all places that are reserved with it."""
        ...

    async def list_present(self) -> list[NodeId]:
        """Who has a seat, in order. Places of one who is not there any more are free again."""
        ...

    async def reserve(
        self, holder: Holder, places: Mapping[WorkerId, int], *, since: int
    ) -> frozenset[WorkerId] | None:
        """Reserve places at workers, instead of those that this holder has there; says at which. Atomic for each.

        `since` is the `as_of` of the loads by which they were chosen: where anybody has reserved, or was assigned,
        anything since then, none are. None altogether: the seat is over, and so are all places reserved with it."""
        ...

    async def release(self, holder: Holder, worker_ids: Sequence[WorkerId]) -> None:
        """Give back what the holder has reserved at these workers. May be repeated."""
        ...

    async def pass_on(self, task_ids: Sequence[TaskId]) -> None:
        """Leave tasks that were taken from the queue to the leader, and wake it. Atomic."""
        ...

    async def take_passed(self, limit: int) -> list[TaskId]:
        """Take up to `limit` of the tasks that were passed on, oldest first. Atomic."""
        ...

    async def wait_for_work(self, wait: timedelta) -> bool:
        """As that of the queue, for those beside the leader: whatever wakes the leader wakes one of them as well."""
        ...


@dataclass(frozen=True, slots=True)
class Coordinator:
    """All of coordination, by concern. An adapter builds one; use cases take the parts they need."""

    election: Election
    pool: WorkerPool
    queue: TaskQueue
    deliveries: Deliveries
    signals: Signals
    locks: Locks
    assistance: Assistance | None = None  # None: the leader alone can dispatch
