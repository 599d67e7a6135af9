"""Terms and node slots in memory."""

from datetime import timedelta

from rota.application.ports.store import SlotLease
from rota.domain.errors import ConflictError
from rota.domain.ids import NODE_SLOTS, NodeId, first_id_at
from rota.infrastructure.store.memory.state import HeldSlot, MemoryState


class MemoryTermStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def begin(self, node_id: NodeId) -> int:
        self._state.term += 1
        return self._state.term

    async def confirm(self, number: int) -> bool:
        return number == self._state.term


class MemorySlotStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def lease(self, node_id: NodeId, ttl: timedelta) -> SlotLease:
        now, slots = self._state.clock.now(), self._state.slots
        own = [slot for slot, held in enumerate(slots) if held.node_id == node_id]
        free = [slot for slot, held in enumerate(slots) if held.until <= now]
        taken = HeldSlot(node_id, now + ttl)
        if own or free:
            slot = (own or free)[0]
            floor = first_id_at(slots[slot].until)
            slots[slot] = taken
            return SlotLease(slot, floor)
        if len(slots) >= NODE_SLOTS:
            raise ConflictError(f"all {NODE_SLOTS} node slots are leased")
        slots.append(taken)
        return SlotLease(len(slots) - 1, floor=0)

    async def renew(self, node_id: NodeId, slot: int, *, ttl: timedelta) -> bool:
        now = self._state.clock.now()
        if slot >= len(self._state.slots):
            return False
        held = self._state.slots[slot]
        if held.node_id != node_id or held.until <= now:
            return False
        self._state.slots[slot] = HeldSlot(node_id, now + ttl)
        return True
