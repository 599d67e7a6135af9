"""Terms and node slots in memory."""

from datetime import timedelta

from rota.application.ports.store import SlotLease
from rota.domain.errors import ConflictError
from rota.domain.ids import NODE_SLOTS, NodeId
from rota.infrastructure.store.memory.state import HeldSlot, MemoryState


class MemoryTermStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def begin(self, node_id: NodeId) -> int:
        self._state.term += 1
        return self._state.term

    async def confirm(self, number: int) -> bool:
        return number == self._state.term

    async def find_last(self) -> int:
        return self._state.term


class MemorySlotStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def lease(self, node_id: NodeId, ttl: timedelta) -> SlotLease:
        now, slots = self._state.clock.now(), self._state.slots
        own = [slot for slot, held in enumerate(slots) if held.node_id == node_id]
        free = [slot for slot, held in enumerate(slots) if held.until <= now]
        if own or free:
            old = slots[(own or free)[0]]
            lease = old.lease.followed(old.until)
            slots[lease.slot] = HeldSlot(lease, node_id, until=now + ttl)
            return lease
        if len(slots) >= NODE_SLOTS:
            raise ConflictError(f"all {NODE_SLOTS} node slots are leased")
        lease = SlotLease(len(slots), floor=0)
        slots.append(HeldSlot(lease, node_id, until=now + ttl))
        return lease

    async def renew(self, node_id: NodeId, lease: SlotLease, *, ttl: timedelta) -> bool:
        now, slots = self._state.clock.now(), self._state.slots
        held = slots[lease.slot] if lease.slot < len(slots) else None
        if held is None or (held.lease, held.node_id) != (lease, node_id) or held.until <= now:
            return False
        slots[lease.slot] = HeldSlot(lease, node_id, until=now + ttl)
        return True
