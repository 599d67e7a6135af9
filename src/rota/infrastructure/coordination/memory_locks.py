"""Locks by name inside one process: for `rota dev`, tests and the simulation. See `memory.py`.

Fences are the clock in microseconds, but always above the last one: what compares them may outlive the process.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from rota.domain.lock import check_lock
from rota.infrastructure.instants import to_us

if TYPE_CHECKING:
    from rota.infrastructure.coordination.memory import MemoryState


@dataclass(frozen=True, slots=True)
class Held:
    """One lock, and until when."""

    owner: str
    fence: int
    until: float


class MemoryLocks:
    def __init__(self, state: "MemoryState") -> None:
        self._state = state

    async def take(self, name: str, owner: str, *, ttl: timedelta) -> int | None:
        check_lock(name, owner)
        locks = self._drop_ended()
        if name in locks and locks[name].owner != owner:
            return None
        fence = self._state.last_fence = max(to_us(self._state.clock.now()), self._state.last_fence + 1)
        locks[name] = Held(owner, fence, self._state.end_of(ttl))
        return fence

    async def renew(self, name: str, owner: str, *, fence: int, ttl: timedelta) -> bool:
        found = self._find(name, owner, fence=fence)
        if found is None:
            return False
        self._state.memory.locks[name] = replace(found, until=self._state.end_of(ttl))
        return True

    async def release(self, name: str, owner: str, *, fence: int) -> bool:
        if self._find(name, owner, fence=fence) is None:
            return False
        del self._state.memory.locks[name]
        return True

    def _find(self, name: str, owner: str, *, fence: int) -> Held | None:
        check_lock(name, owner)
        found = self._drop_ended().get(name)
        return found if found is not None and (found.owner, found.fence) == (owner, fence) else None

    def _drop_ended(self) -> dict[str, Held]:
        now, memory = self._state.clock.monotonic(), self._state.memory
        memory.locks = {name: held for name, held in memory.locks.items() if held.until > now}
        return memory.locks
