"""Ids for this node, under a slot that it leases from the store and keeps renewing.

When the lease may have run out (by this node's monotonic clock, counted from when it asked), no id is issued: the
caller gets `StoreUnavailableError` until a new slot is leased.

Ids follow the store's clock (`now`), as the times of tasks do: a node whose own clock is wrong issues none that are
hours behind those of the others, which reports have passed.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from rota.application.ports.store import SlotLease, SlotStore
from rota.application.ports.system import Clock
from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import NodeId, ids_left_after, next_id

SLOT_TTL = timedelta(seconds=60)
RENEW_EVERY = timedelta(seconds=15)
MARGIN = timedelta(seconds=5)  # more than the worst pause between checking the lease and using the id


class LeasedIds:
    def __init__(
        self,
        slots: SlotStore,
        clock: Clock,
        *,
        node_id: NodeId,
        now: Callable[[], datetime] | None = None,
        guard_every: timedelta = timedelta(0),
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._node_id = node_id
        self._now = now or clock.now
        self._ttl = max(SLOT_TTL, 4 * guard_every)
        self._lease: SlotLease | None = None
        self._valid_until = 0.0
        self._last = 0

    async def keep(self) -> None:
        """Lease a slot, or renew it; call it every `RENEW_EVERY`."""
        asked_at = self._clock.monotonic()
        if self._lease is None or not await self._slots.renew(self._node_id, self._lease, ttl=self._ttl):
            self._lease = None
            self._lease = await self._slots.lease(self._node_id, self._ttl)
            self._last = max(self._last, self._lease.floor)
        self._valid_until = asked_at + (self._ttl - MARGIN).total_seconds()

    def next(self) -> int:
        return self.take(1)[0]

    def take(self, number: int) -> list[int]:
        """So many ids, each greater than the one before."""
        if self._lease is None or self._clock.monotonic() >= self._valid_until:
            raise StoreUnavailableError(f"node {self._node_id} has no id slot: the store is needed to lease one")
        now, slot, taken = self._now(), self._lease.slot, list[int]()
        while len(taken) < number:
            first = next_id(self._last, now=now, slot=slot)
            in_a_row = min(ids_left_after(first) + 1, number - len(taken))
            taken += range(first, first + in_a_row)
            self._last = taken[-1]
        return taken
