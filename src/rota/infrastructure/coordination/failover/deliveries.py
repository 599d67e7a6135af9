"""What is handed out, at each worker's home.

While a worker may have something on both sides, it takes from both, and what it holds is what both say: nothing that
was assigned on the side it left is forgotten. An attempt that was handed over on both is brought once.

Others are told what lies at its home only. What was assigned on the other side may never be fetched, because the worker
has lost its way there: it must look missing, so that the leader hands it over again.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

from rota.domain.attempt import Attempt
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.ids import WorkerId
from rota.infrastructure.coordination.failover.homes import Homes
from rota.infrastructure.coordination.failover.switch import Side, Switch

LOOK_EVERY = timedelta(seconds=1)
AT_ONCE = timedelta(0)
TAKEN_REMEMBERED = 10_000  # ten times what a worker may hold

T = TypeVar("T")


class FailoverDeliveries:
    def __init__(self, switch: Switch, homes: Homes) -> None:
        self._switch = switch
        self._homes = homes
        self._taken: OrderedDict[Attempt, Side] = OrderedDict()  # by this process, not acknowledged, oldest first
        self._look_at: dict[WorkerId, float] = {}  # when to look on the other side again

    async def assign(self, attempts: Sequence[Attempt]) -> None:
        """To each worker's home; if that has just fallen silent, to the side in use, where the worker soon comes."""
        for home, some in self._group_by_home(attempts).items():
            act = partial(_assign, attempts=some)
            try:
                await self._act_at(home, act)
            except CoordinatorUnavailableError:
                if home is self._switch.active:
                    raise
                await self._switch.call(act)

    async def take(self, worker_id: WorkerId, limit: int, *, wait: timedelta) -> list[Attempt]:
        async def act(side: Side, left: timedelta) -> list[Attempt]:
            strays = await self._take_strays(worker_id, limit)
            if strays:
                return strays
            attempts = await side.coordinator.deliveries.take(worker_id, limit, wait=left)
            self._homes.settle(worker_id, side)
            return self._note_taken(attempts, side)

        return await self._switch.wait(act, wait)

    async def acknowledge(self, attempts: Sequence[Attempt]) -> None:
        """At home, which must answer, and wherever else the attempts may lie, if that side can be asked."""
        for home, some in self._group_by_home(attempts).items():
            await self._act_at(home, partial(_acknowledge, attempts=some))
        for place, some in self._group(attempts, self._list_other_places).items():
            await self._switch.spare(place, partial(_acknowledge, attempts=some))
        for attempt in attempts:
            self._taken.pop(attempt, None)

    async def list_assigned(self, worker_id: WorkerId) -> list[Attempt]:
        home = self._homes.find(worker_id)
        return await self._act_at(home, lambda side: side.coordinator.deliveries.list_assigned(worker_id))

    async def held(self, worker_id: WorkerId) -> list[Attempt]:
        async def act(side: Side) -> list[Attempt]:
            return await side.coordinator.deliveries.held(worker_id)

        found = await self._act_at(self._homes.find(worker_id), act)
        for place in self._list_other_places(worker_id) if self._homes.is_own(worker_id) else ():
            found = found + (await self._switch.spare(place, act) or [])
        return sorted(set(found), key=lambda attempt: (attempt.task_id, attempt.number))

    async def _take_strays(self, worker_id: WorkerId, limit: int) -> list[Attempt]:
        """What was assigned on the side that is not in use, while some may be there."""
        other, now = self._switch.other, self._switch.clock.monotonic()
        if other not in self._homes.list_places(worker_id):
            self._look_at.pop(worker_id, None)
            return []
        if now < self._look_at.get(worker_id, now):
            return []
        self._look_at[worker_id] = now + LOOK_EVERY.total_seconds()
        strays = await self._switch.spare(
            other, lambda side: side.coordinator.deliveries.take(worker_id, limit, wait=AT_ONCE)
        )
        return self._note_taken(strays or (), other)

    def _note_taken(self, attempts: Sequence[Attempt], side: Side) -> list[Attempt]:
        """Those that were not brought from the other side before."""
        new = [attempt for attempt in attempts if self._taken.get(attempt, side) is side]
        for attempt in new:
            self._taken[attempt] = side
        while len(self._taken) > TAKEN_REMEMBERED:
            self._taken.popitem(last=False)
        return new

    async def _act_at(self, home: Side, act: Callable[[Side], Awaitable[T]]) -> T:
        return await (self._switch.call(act) if home is self._switch.active else self._switch.ask(home, act))

    def _list_other_places(self, worker_id: WorkerId) -> Sequence[Side]:
        return self._homes.list_places(worker_id)[1:]

    def _group_by_home(self, attempts: Sequence[Attempt]) -> Mapping[Side, Sequence[Attempt]]:
        if self._homes.are_all_here:
            return {self._switch.active: attempts} if attempts else {}
        return self._group(attempts, lambda worker_id: (self._homes.find(worker_id),))

    def _group(
        self, attempts: Sequence[Attempt], list_sides: Callable[[WorkerId], Sequence[Side]]
    ) -> Mapping[Side, list[Attempt]]:
        sides = {worker_id: list_sides(worker_id) for worker_id in {attempt.worker_id for attempt in attempts}}
        groups: dict[Side, list[Attempt]] = defaultdict(list)
        for attempt in attempts:
            for side in sides[attempt.worker_id]:
                groups[side].append(attempt)
        return groups


async def _assign(side: Side, *, attempts: Sequence[Attempt]) -> None:
    await side.coordinator.deliveries.assign(attempts)


async def _acknowledge(side: Side, *, attempts: Sequence[Attempt]) -> None:
    await side.coordinator.deliveries.acknowledge(attempts)
