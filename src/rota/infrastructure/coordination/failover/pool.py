"""The workers of both sides: those of the side in use, and those found on the other within the last second."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Generic, TypeVar

from rota.domain.ids import WorkerId
from rota.domain.worker import Heartbeat, Worker
from rota.infrastructure.coordination.failover.homes import Homes
from rota.infrastructure.coordination.failover.switch import Side, Switch

GLANCE_EVERY = timedelta(seconds=1)

T = TypeVar("T")


class FailoverWorkerPool:
    def __init__(self, switch: Switch, homes: Homes) -> None:
        self._switch = switch
        self._homes = homes
        self._other_alive: _Glance[Worker] = _Glance(switch)
        self._other_beats: _Glance[Heartbeat] = _Glance(switch)
        self._listed: frozenset[WorkerId] = frozenset()  # on the side in use, at the last look

    async def register(self, worker: Worker, lease: timedelta) -> None:
        async def act(side: Side) -> None:
            await side.coordinator.pool.register(worker, lease)
            self._homes.settle(worker.id, side)

        await self._switch.call(act)

    async def heartbeat(self, worker_id: WorkerId, beat: Heartbeat, *, lease: timedelta) -> bool:
        async def act(side: Side) -> bool:
            is_known = await side.coordinator.pool.heartbeat(worker_id, beat, lease=lease)
            if is_known:
                self._homes.settle(worker_id, side)
            return is_known

        return await self._switch.call(act)

    async def remove(self, worker_ids: Sequence[WorkerId]) -> None:
        async def act(side: Side) -> None:
            await side.coordinator.pool.remove(worker_ids)

        await self._switch.call(act)
        if worker_ids:
            await self._switch.spare(self._switch.other, act)
        self._homes.forget(worker_ids)
        for glance in (self._other_alive, self._other_beats):
            glance.forget()

    async def list_alive(self) -> list[Worker]:
        async def act(side: Side) -> dict[WorkerId, Worker]:
            alive = {worker.id: worker for worker in await side.coordinator.pool.list_alive()}
            self._homes.list_seen(side, alive)
            return alive

        here = await self._switch.call(act)
        if self._listed - here.keys():  # one that left took its leave on both sides: the last glance may not know yet
            self._other_alive.forget()
        self._listed = frozenset(here)
        found = self._merge(here, await self._other_alive.look(act))
        return [worker for _, worker in sorted(found.items())]

    async def list_beats(self) -> dict[WorkerId, Heartbeat]:
        async def act(side: Side) -> dict[WorkerId, Heartbeat]:
            return await side.coordinator.pool.list_beats()

        return self._merge(await self._switch.call(act), await self._other_beats.look(act))

    def _merge(self, here: Mapping[WorkerId, T], there: Mapping[WorkerId, T]) -> dict[WorkerId, T]:
        """What both say; of a worker that both know, what its home says."""
        other = self._switch.other
        moved = {worker_id: said for worker_id, said in there.items() if self._homes.find(worker_id) is other}
        return {**there, **here, **moved}


class _Glance(Generic[T]):
    """What the side that is not in use said last, asked for at most once a second."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._seen: dict[WorkerId, T] = {}
        self._side: Side | None = None
        self._until = float("-inf")

    async def look(self, act: Callable[[Side], Awaitable[dict[WorkerId, T]]]) -> dict[WorkerId, T]:
        side, now = self._switch.other, self._switch.clock.monotonic()
        if side is not self._side or now >= self._until:
            self._side, self._until = side, now + GLANCE_EVERY.total_seconds()
            self._seen = await self._switch.spare(side, act) or {}
        return self._seen

    def forget(self) -> None:
        self._side = None
