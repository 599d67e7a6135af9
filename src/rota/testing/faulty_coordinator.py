"""A coordinator that fails to order, around one that works. Operations are named `part.method`: `queue.push`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TypeVar

from rota.application.ports.coordinator import (
    NO_WAIT,
    Assistance,
    Coordinator,
    Deliveries,
    Election,
    Holder,
    Locks,
    Signals,
    TaskQueue,
    WorkerPool,
)
from rota.domain.attempt import Attempt
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event, Told
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.queue import DueMove, QueueDepths, QueueEntry, Taken, WorkerLoads
from rota.domain.worker import Heartbeat, Worker
from rota.testing.faults import Faults

T = TypeVar("T")


def faulty_coordinator(inner: Coordinator, faults: Faults) -> Coordinator:
    """The same coordinator, failing as planned."""
    return Coordinator(
        election=FaultyElection(inner.election, faults),
        pool=FaultyWorkerPool(inner.pool, faults),
        queue=FaultyTaskQueue(inner.queue, faults),
        deliveries=FaultyDeliveries(inner.deliveries, faults),
        signals=FaultySignals(inner.signals, faults),
        locks=FaultyLocks(inner.locks, faults),
        assistance=None if inner.assistance is None else FaultyAssistance(inner.assistance, faults),
    )


class FaultyElection:
    def __init__(self, inner: Election, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def campaign(self, node_id: NodeId, ttl: timedelta) -> int | None:
        return await _around(self._faults, "election.campaign", call=lambda: self._inner.campaign(node_id, ttl))

    async def renew(self, node_id: NodeId, lease: int, *, ttl: timedelta) -> bool:
        return await _around(self._faults, "election.renew", call=lambda: self._inner.renew(node_id, lease, ttl=ttl))

    async def resign(self, node_id: NodeId, lease: int) -> None:
        await _around(self._faults, "election.resign", call=lambda: self._inner.resign(node_id, lease))

    async def find_leader(self) -> NodeId | None:
        return await _around(self._faults, "election.find_leader", call=self._inner.find_leader)

    async def wait_for_vacancy(self, wait: timedelta) -> bool:
        return await _around(self._faults, "election.wait_for_vacancy", call=lambda: self._inner.wait_for_vacancy(wait))


class FaultyLocks:
    def __init__(self, inner: Locks, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def take(self, name: str, owner: str, *, ttl: timedelta) -> int | None:
        return await _around(self._faults, "locks.take", call=lambda: self._inner.take(name, owner, ttl=ttl))

    async def renew(self, name: str, owner: str, *, fence: int, ttl: timedelta) -> bool:
        return await _around(
            self._faults, "locks.renew", call=lambda: self._inner.renew(name, owner, fence=fence, ttl=ttl)
        )

    async def release(self, name: str, owner: str, *, fence: int) -> bool:
        return await _around(self._faults, "locks.release", call=lambda: self._inner.release(name, owner, fence=fence))


class FaultyWorkerPool:
    def __init__(self, inner: WorkerPool, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def register(self, worker: Worker, lease: timedelta) -> None:
        await _around(self._faults, "pool.register", call=lambda: self._inner.register(worker, lease))

    async def heartbeat(self, worker_id: WorkerId, beat: Heartbeat, *, lease: timedelta) -> bool:
        return await _around(
            self._faults, "pool.heartbeat", call=lambda: self._inner.heartbeat(worker_id, beat, lease=lease)
        )

    async def remove(self, worker_ids: Sequence[WorkerId]) -> None:
        await _around(self._faults, "pool.remove", call=lambda: self._inner.remove(worker_ids))

    async def list_alive(self) -> list[Worker]:
        return await _around(self._faults, "pool.list_alive", call=self._inner.list_alive)

    async def list_beats(self) -> dict[WorkerId, Heartbeat]:
        return await _around(self._faults, "pool.list_beats", call=self._inner.list_beats)


class FaultyTaskQueue:
    def __init__(self, inner: TaskQueue, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def push(self, entries: Sequence[QueueEntry]) -> None:
        await _around(self._faults, "queue.push", call=lambda: self._inner.push(entries))

    async def take(self, limit: int, *, order: Sequence[int], wait: timedelta = NO_WAIT) -> Taken:
        return await _around(self._faults, "queue.take", call=lambda: self._inner.take(limit, order=order, wait=wait))

    async def wait_for_work(self, wait: timedelta) -> bool:
        return await _around(self._faults, "queue.wait_for_work", call=lambda: self._inner.wait_for_work(wait))

    async def wake(self) -> None:
        await _around(self._faults, "queue.wake", call=self._inner.wake)

    async def move_due(self, now: datetime, limit: int) -> DueMove:
        return await _around(self._faults, "queue.move_due", call=lambda: self._inner.move_due(now, limit))

    async def discard(self, entries: Sequence[QueueEntry]) -> None:
        await _around(self._faults, "queue.discard", call=lambda: self._inner.discard(entries))

    async def depths(self) -> QueueDepths:
        return await _around(self._faults, "queue.depths", call=self._inner.depths)

    async def loads(self) -> WorkerLoads:
        return await _around(self._faults, "queue.loads", call=self._inner.loads)

    async def find_generation(self) -> str | None:
        return await _around(self._faults, "queue.find_generation", call=self._inner.find_generation)

    async def rebuild(self, generation: str, pages: AsyncIterator[Sequence[QueueEntry]]) -> None:
        await _around(self._faults, "queue.rebuild", call=lambda: self._inner.rebuild(generation, pages))


class FaultyDeliveries:
    def __init__(self, inner: Deliveries, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def assign(self, attempts: Sequence[Attempt]) -> None:
        await _around(self._faults, "deliveries.assign", call=lambda: self._inner.assign(attempts))

    async def take(self, worker_id: WorkerId, limit: int, *, wait: timedelta) -> list[Attempt]:
        return await _around(
            self._faults, "deliveries.take", call=lambda: self._inner.take(worker_id, limit, wait=wait)
        )

    async def acknowledge(self, attempts: Sequence[Attempt]) -> None:
        await _around(self._faults, "deliveries.acknowledge", call=lambda: self._inner.acknowledge(attempts))

    async def list_assigned(self, worker_id: WorkerId) -> list[Attempt]:
        return await _around(
            self._faults, "deliveries.list_assigned", call=lambda: self._inner.list_assigned(worker_id)
        )

    async def held(self, worker_id: WorkerId) -> list[Attempt]:
        return await _around(self._faults, "deliveries.held", call=lambda: self._inner.held(worker_id))


class FaultySignals:
    def __init__(self, inner: Signals, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def request_cancel(self, task_ids: Sequence[TaskId], *, ttl: timedelta) -> None:
        await _around(
            self._faults, "signals.request_cancel", call=lambda: self._inner.request_cancel(task_ids, ttl=ttl)
        )

    async def find_cancelled(self, task_ids: Sequence[TaskId]) -> frozenset[TaskId]:
        return await _around(self._faults, "signals.find_cancelled", call=lambda: self._inner.find_cancelled(task_ids))

    async def publish(self, events: Sequence[Event]) -> None:
        await _around(self._faults, "signals.publish", call=lambda: self._inner.publish(events))

    @asynccontextmanager
    async def subscribe(self, *, after: str | None = None) -> AsyncIterator[AsyncIterator[Told]]:
        async with self._inner.subscribe(after=after) as events:
            await _around(self._faults, "signals.subscribe", call=_nothing)
            yield events


class FaultyAssistance:
    def __init__(self, inner: Assistance, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def join(self, node_id: NodeId, ttl: timedelta) -> int:
        return await _around(self._faults, "assistance.join", call=lambda: self._inner.join(node_id, ttl))

    async def renew(self, node_id: NodeId, seat: int) -> bool:
        return await _around(self._faults, "assistance.renew", call=lambda: self._inner.renew(node_id, seat))

    async def leave(self, node_id: NodeId, seat: int) -> None:
        await _around(self._faults, "assistance.leave", call=lambda: self._inner.leave(node_id, seat))

    async def list_present(self) -> list[NodeId]:
        return await _around(self._faults, "assistance.list_present", call=self._inner.list_present)

    async def reserve(
        self, holder: Holder, places: Mapping[WorkerId, int], *, since: int
    ) -> frozenset[WorkerId] | None:
        return await _around(
            self._faults, "assistance.reserve", call=lambda: self._inner.reserve(holder, places, since=since)
        )

    async def release(self, holder: Holder, worker_ids: Sequence[WorkerId]) -> None:
        await _around(self._faults, "assistance.release", call=lambda: self._inner.release(holder, worker_ids))

    async def pass_on(self, task_ids: Sequence[TaskId]) -> None:
        await _around(self._faults, "assistance.pass_on", call=lambda: self._inner.pass_on(task_ids))

    async def take_passed(self, limit: int) -> list[TaskId]:
        return await _around(self._faults, "assistance.take_passed", call=lambda: self._inner.take_passed(limit))

    async def wait_for_work(self, wait: timedelta) -> bool:
        return await _around(self._faults, "assistance.wait_for_work", call=lambda: self._inner.wait_for_work(wait))


def _around(faults: Faults, operation: str, *, call: Callable[[], Awaitable[T]]) -> Awaitable[T]:
    return faults.around(operation, call, unavailable=CoordinatorUnavailableError)


async def _nothing() -> None:
    """A subscription leaves no effect behind."""
