"""What waits, on the side in use.

The two sides do not know of each other's entries. So after a switch the memory that is there is not trusted: it may be
that of an outage last week. Until a newer one is named, by this process or another, there is no generation, and the
leader rebuilds the queues from the store; that is how it finds what was queued in the other memory.

A process that has lost its way to the primary goes on pushing to the fallback while the leader is well on the primary.
So whoever takes also looks into the queues of the other side, once a second: those tasks need not wait for the slow
comparison of store and queue.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from rota.application.ports.coordinator import NO_WAIT
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.ids import TaskId, WorkerId
from rota.domain.queue import DueMove, QueueDepths, QueueEntry, Taken, WorkerLoads
from rota.infrastructure.coordination.failover.homes import Homes
from rota.infrastructure.coordination.failover.switch import Side, Switch

LOOK_EVERY = timedelta(seconds=1)


class FailoverTaskQueue:
    def __init__(self, switch: Switch, homes: Homes) -> None:
        self._switch = switch
        self._homes = homes
        self._moves = 0  # of the switch, when the memory was last looked at
        self._distrusted: str | None = None  # the generation found after that move
        self._take_strays_at = self._move_strays_at = float("-inf")

    async def push(self, entries: Sequence[QueueEntry]) -> None:
        await self._switch.call(lambda side: side.coordinator.queue.push(entries))

    async def take(self, limit: int, *, order: Sequence[int], wait: timedelta = NO_WAIT) -> Taken:
        strays = await self._take_strays(limit, order)
        if not strays:
            taken = await self._switch.wait(
                lambda side, left: side.coordinator.queue.take(limit, order=order, wait=left), wait
            )
            # A worker that is at home on the other side may leave there, and this side does not count that.
            return replace(taken, changes=None) if self._homes.is_anyone_at(self._switch.other) else taken
        number = limit - len(strays)
        try:
            taken = await self._switch.call(lambda side: side.coordinator.queue.take(number, order=order))
        except CoordinatorUnavailableError:
            return Taken(strays, {})  # they are in no queue any more: raising would lose them
        return replace(taken, task_ids=(*strays, *taken.task_ids), changes=None)

    async def wait_for_work(self, wait: timedelta) -> bool:
        return await self._switch.wait(lambda side, left: side.coordinator.queue.wait_for_work(left), wait)

    async def wake(self) -> None:
        await self._switch.call(lambda side: side.coordinator.queue.wake())

    async def move_due(self, now: datetime, limit: int) -> DueMove:
        async def act(side: Side) -> DueMove:
            return await side.coordinator.queue.move_due(now, limit)

        moment = self._switch.clock.monotonic()
        if moment >= self._move_strays_at:
            self._move_strays_at = moment + LOOK_EVERY.total_seconds()
            await self._switch.spare(self._switch.other, act)
        return await self._switch.call(act)

    async def discard(self, entries: Sequence[QueueEntry]) -> None:
        await self._switch.call(lambda side: side.coordinator.queue.discard(entries))

    async def depths(self) -> QueueDepths:
        """What waits in the queues in use, and what each worker has where it is at home."""
        here = await self._switch.call(lambda side: side.coordinator.queue.depths())
        loads = await self._bring_home(here)
        return replace(here, assigned=loads.assigned, in_flight=loads.in_flight)

    async def loads(self) -> WorkerLoads:
        return await self._bring_home(await self._switch.call(lambda side: side.coordinator.queue.loads()))

    async def _bring_home(self, here: WorkerLoads) -> WorkerLoads:
        """What each worker has where it is at home."""
        other = self._switch.other
        if not self._homes.is_anyone_at(other):
            return here
        there = await self._switch.spare(other, lambda side: side.coordinator.queue.loads()) or WorkerLoads()
        return WorkerLoads(
            assigned=self._merge(here.assigned, there.assigned, other=other),
            in_flight=self._merge(here.in_flight, there.in_flight, other=other),
        )

    async def find_generation(self) -> str | None:
        generation = await self._switch.call(lambda side: side.coordinator.queue.find_generation())
        if self._moves != self._switch.moves:
            self._moves, self._distrusted = self._switch.moves, generation
        return None if generation == self._distrusted else generation

    async def rebuild(self, generation: str, pages: AsyncIterator[Sequence[QueueEntry]]) -> None:
        """As everywhere, but never repeated on the fallback: the pages can be read only once.

        It raises, the switch moves, and the leader finds no generation and begins anew."""
        moves = self._switch.moves
        await self._switch.ask(self._switch.active, lambda side: side.coordinator.queue.rebuild(generation, pages))
        if moves == self._switch.moves:
            self._moves, self._distrusted = moves, None

    async def _take_strays(self, limit: int, order: Sequence[int]) -> tuple[TaskId, ...]:
        """What was queued on the side that is not in use."""
        moment = self._switch.clock.monotonic()
        if limit == 0 or moment < self._take_strays_at:
            return ()
        self._take_strays_at = moment + LOOK_EVERY.total_seconds()
        taken = await self._switch.spare(
            self._switch.other, lambda side: side.coordinator.queue.take(limit, order=order)
        )
        return () if taken is None else taken.task_ids

    def _merge(
        self, here: Mapping[WorkerId, int], there: Mapping[WorkerId, int], *, other: Side
    ) -> dict[WorkerId, int]:
        """Of each worker, what lies at its home."""
        counted = {worker_id: count for worker_id, count in here.items() if self._homes.find(worker_id) is not other}
        moved = {worker_id: count for worker_id, count in there.items() if self._homes.find(worker_id) is other}
        return counted | moved
