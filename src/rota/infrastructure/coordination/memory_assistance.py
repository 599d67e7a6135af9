"""Schedulers that dispatch at once, inside one process: for tests and the simulation. See `memory.py`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from rota.application.ports.coordinator import Holder
from rota.domain.ids import NodeId, TaskId, WorkerId

if TYPE_CHECKING:
    from rota.infrastructure.coordination.memory import MemoryState


@dataclass(frozen=True, slots=True)
class _Seat:
    node_id: NodeId
    ttl: timedelta
    until: float


@dataclass(frozen=True, slots=True)
class _Place:
    seat: int
    number: int


@dataclass(slots=True)
class Sharing:
    """What a lost memory loses of this."""

    seats: dict[int, _Seat] = field(default_factory=dict)
    places: dict[WorkerId, dict[str, _Place]] = field(default_factory=dict)
    handed: dict[WorkerId, int] = field(default_factory=dict)  # when something was last assigned or reserved
    passed: dict[TaskId, None] = field(default_factory=dict)  # in order


class MemoryAssistance:
    def __init__(self, state: "MemoryState") -> None:
        self._state = state

    async def join(self, node_id: NodeId, ttl: timedelta) -> int:
        self._state.last_lease += 1
        self._sharing.seats[self._state.last_lease] = _Seat(node_id, ttl, self._state.end_of(ttl))
        return self._state.last_lease

    async def renew(self, node_id: NodeId, seat: int) -> bool:
        found = list_seats(self._state).get(seat)
        if found is None:
            return False
        self._sharing.seats[seat] = _Seat(node_id, found.ttl, self._state.end_of(found.ttl))
        return True

    async def leave(self, node_id: NodeId, seat: int) -> None:
        self._sharing.seats.pop(seat, None)

    async def list_present(self) -> list[NodeId]:
        return sorted({seat.node_id for seat in list_seats(self._state).values()})

    async def reserve(
        self, holder: Holder, places: Mapping[WorkerId, int], *, since: int
    ) -> frozenset[WorkerId] | None:
        if holder.seat not in list_seats(self._state):
            return None
        sharing = self._sharing
        won = frozenset(worker_id for worker_id in places if sharing.handed.get(worker_id, 0) <= since)
        for worker_id in won:
            sharing.places.setdefault(worker_id, {})[holder.name] = _Place(holder.seat, places[worker_id])
            self._state.note_handed(worker_id)
        return won

    async def release(self, holder: Holder, worker_ids: Sequence[WorkerId]) -> None:
        for worker_id in worker_ids:
            self._sharing.places.get(worker_id, {}).pop(holder.name, None)

    async def pass_on(self, task_ids: Sequence[TaskId]) -> None:
        self._sharing.passed.update(dict.fromkeys(task_ids))
        self._state.ring_work()

    async def take_passed(self, limit: int) -> list[TaskId]:
        taken = list(self._sharing.passed)[:limit]
        for task_id in taken:
            del self._sharing.passed[task_id]
        return taken

    async def wait_for_work(self, wait: timedelta) -> bool:
        return await self._state.assistants.wait(wait)

    @property
    def _sharing(self) -> Sharing:
        return self._state.memory.sharing


def list_seats(state: "MemoryState") -> dict[int, _Seat]:
    """Those that are not over; the others are forgotten."""
    now, sharing = state.clock.monotonic(), state.memory.sharing
    sharing.seats = {number: seat for number, seat in sharing.seats.items() if seat.until > now}
    return sharing.seats


def count_places(state: "MemoryState") -> dict[WorkerId, dict[str, int]]:
    """What is reserved where, by those whose seats are not over."""
    seats = list_seats(state)
    found = {
        worker_id: {name: place.number for name, place in holders.items() if place.seat in seats}
        for worker_id, holders in state.memory.sharing.places.items()
    }
    return {worker_id: holders for worker_id, holders in found.items() if holders}
