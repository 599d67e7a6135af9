"""A scheduler and a worker in miniature, to drive a coordinator as the engine does, with a set in place of the store.

The set grants each task once at a time, as the store's compare-and-set would. What the loops do when the coordinator
is away is what the engine does: nothing is decided, and the step is tried again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count

from rota.application.ports.coordinator import Coordinator
from rota.application.ports.system import Clock
from rota.domain.attempt import Attempt
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.priority import LEVELS, NORMAL
from rota.domain.queue import QueueEntry
from rota.domain.worker import Heartbeat, Worker

ORDER = tuple(reversed(LEVELS))
TTL = timedelta(seconds=3)
TRUST_S = 2.5
RENEW_EVERY_S = 1.0
BEAT_EVERY = timedelta(seconds=1)
LEASE = timedelta(seconds=4)
QUEUE_AGAIN_EVERY_S = 2.0  # whatever still waits: the comparison of store and queue
MISSED_AFTER_S = 1.0  # an attempt that was granted and is nowhere to be found is handed over again
BATCH = 100


class TaskSet:
    """Which tasks wait, are granted, and are done."""

    def __init__(self) -> None:
        self.waiting: set[TaskId] = set()
        self.granted: dict[Attempt, float] = {}  # with the time of the grant
        self._changed = asyncio.Event()
        self._ids = count(1 << 40)

    def add(self, number: int) -> list[TaskId]:
        ids = [TaskId(next(self._ids)) for _ in range(number)]
        self.waiting.update(ids)
        return ids

    def grant(self, task_id: TaskId, worker_id: WorkerId, *, at: float) -> Attempt | None:
        if task_id not in self.waiting:
            return None
        self.waiting.remove(task_id)
        attempt = Attempt(task_id, 1, worker_id)
        self.granted[attempt] = at
        return attempt

    def finish(self, attempt: Attempt) -> None:
        self.granted.pop(attempt, None)
        self._changed.set()

    async def wait_until_done(self) -> None:
        while self.waiting or self.granted:
            self._changed.clear()
            await self._changed.wait()


class Scheduler:
    def __init__(self, node: Coordinator, tasks: TaskSet, *, clock: Clock, name: str) -> None:
        self._node = node
        self._tasks = tasks
        self._clock = clock
        self._node_id = NodeId(name)
        self._generations = count()
        self._queue_again_at = 0.0

    async def step(self) -> None:
        """One try to lead; returns when it is over."""
        asked_at = self._clock.monotonic()
        lease = await self._node.election.campaign(self._node_id, TTL)
        if lease is None:
            await self._node.election.wait_for_vacancy(timedelta(seconds=0.5))
            return
        trusted_until = asked_at + TRUST_S
        while (now := self._clock.monotonic()) < trusted_until:
            if now > trusted_until - TRUST_S + RENEW_EVERY_S:
                try:
                    is_mine = await self._node.election.renew(self._node_id, lease, ttl=TTL)
                except CoordinatorUnavailableError:
                    is_mine = True  # unknown: trust runs out by itself
                else:
                    trusted_until = now + TRUST_S
                if not is_mine:
                    return
            await self._dispatch()

    async def _dispatch(self) -> None:
        queue = self._node.queue
        if await queue.find_generation() is None:
            await queue.rebuild(f"{self._node_id}-{next(self._generations)}", self._read_waiting())
        await queue.wait_for_work(timedelta(seconds=0.2))
        workers = await self._node.pool.list_alive()
        if workers:
            taken = await queue.take(BATCH, order=ORDER)
            await self._assign(taken.task_ids, workers)
            await self._hand_over_again()
            await self._queue_again()

    async def _assign(self, task_ids: Sequence[TaskId], workers: Sequence[Worker]) -> None:
        now = self._clock.monotonic()
        grants = [self._tasks.grant(one, workers[one % len(workers)].id, at=now) for one in task_ids]
        await self._node.deliveries.assign([attempt for attempt in grants if attempt is not None])

    async def _hand_over_again(self) -> None:
        before = self._clock.monotonic() - MISSED_AFTER_S
        missed = [attempt for attempt, at in self._tasks.granted.items() if at < before]
        for worker_id in {attempt.worker_id for attempt in missed}:
            known = await self._node.deliveries.list_assigned(worker_id) + await self._node.deliveries.held(worker_id)
            lost = [attempt for attempt in missed if attempt.worker_id == worker_id and attempt not in known]
            await self._node.deliveries.assign(lost)

    async def _queue_again(self) -> None:
        now = self._clock.monotonic()
        if now >= self._queue_again_at:
            self._queue_again_at = now + QUEUE_AGAIN_EVERY_S
            await self._node.queue.push([QueueEntry(task_id, NORMAL) for task_id in self._tasks.waiting])

    async def _read_waiting(self) -> AsyncIterator[Sequence[QueueEntry]]:
        yield [QueueEntry(task_id, NORMAL) for task_id in sorted(self._tasks.waiting)]


class MiniWorker:
    def __init__(self, node: Coordinator, tasks: TaskSet, *, clock: Clock, worker_id: WorkerId) -> None:
        self._node = node
        self._tasks = tasks
        self._clock = clock
        self._worker = Worker(id=worker_id, name=f"worker-{worker_id}", capacity=1000)

    async def beat(self) -> None:
        if not await self._node.pool.heartbeat(self._worker.id, Heartbeat(0), lease=LEASE):
            await self._node.pool.register(self._worker, LEASE)
        await self._adopt()
        await self._clock.sleep(BEAT_EVERY)

    async def work(self) -> None:
        await self._finish(await self._node.deliveries.take(self._worker.id, BATCH, wait=timedelta(seconds=1)))

    async def _adopt(self) -> None:
        await self._finish(await self._node.deliveries.held(self._worker.id))

    async def _finish(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self._tasks.finish(attempt)
        await self._node.deliveries.acknowledge(attempts)


@asynccontextmanager
async def running(*steps: Callable[[], Awaitable[None]], clock: Clock) -> AsyncIterator[None]:
    """Each step again and again, until the end of the context."""
    loops = [asyncio.create_task(_keep(step, clock)) for step in steps]
    try:
        yield
    finally:
        for loop in loops:
            loop.cancel()
        ended = await asyncio.gather(*loops, return_exceptions=True)
    failures = [failure for failure in ended if not isinstance(failure, asyncio.CancelledError)]
    assert not failures, f"a loop ended by itself: {failures}"


async def _keep(step: Callable[[], Awaitable[None]], clock: Clock) -> None:
    while True:
        try:
            await step()
        except CoordinatorUnavailableError:
            await clock.sleep(timedelta(milliseconds=50))
