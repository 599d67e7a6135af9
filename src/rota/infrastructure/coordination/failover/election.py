"""Who leads, on the side in use.

A lease is prolonged and ended on the side where it was won, and nowhere else. If that side is away a renewal raises, as
everywhere: the leader steps down when its trust runs out, and campaigns anew on the side then in use.

A node that lost its way to the primary must not depose, again and again, a leader that is well: each would find the
other's term newer, and neither would ever get on with its work. So a leader on the primary leaves a mark on the
fallback with every renewal, for as long as its lease; while it is there, nobody campaigns on the fallback. The mark is
a hint as well: where it is missed, the store's term ends the older reign. A leader whose renewal the primary leaves
unanswered takes its mark away, or a cluster that lost Redis would wait for that lease with nothing to do.

Each side numbers its leases for itself, and the same number may come from both. What is given out is the side's own
number if it is above all given out before, and else the next above; so a number means one lease of one side.
"""

from collections import OrderedDict
from datetime import timedelta

from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.ids import NodeId, TaskId
from rota.infrastructure.coordination.failover.switch import Side, Switch

PRIMARY_IS_LED = TaskId(2)  # a cancel request for a task that cannot be: ids carry the time in their upper bits
AT_ONCE = timedelta(0)
LEASES_REMEMBERED = 100  # a node asks for its last one; the others are for a late resignation


class FailoverElection:
    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._leases: OrderedDict[int, tuple[Side, int]] = OrderedDict()  # by the number given out
        self._last = 0
        self._marked_until = float("-inf")  # by the monotonic clock: until then the mark can only be our own

    async def campaign(self, node_id: NodeId, ttl: timedelta) -> int | None:
        async def act(side: Side) -> int | None:
            if side is self._switch.fallback and await side.coordinator.signals.find_cancelled([PRIMARY_IS_LED]):
                return None
            asked_at = self._switch.clock.monotonic()
            number = await side.coordinator.election.campaign(node_id, ttl)
            if number is None:
                return None
            await self._leave_mark(side, ttl, asked_at=asked_at)
            return self._remember(side, number)

        return await self._switch.call(act)

    async def renew(self, node_id: NodeId, lease: int, *, ttl: timedelta) -> bool:
        side, number = self._find(lease)
        asked_at = self._switch.clock.monotonic()
        try:
            is_mine = await self._switch.ask(side, lambda its: its.coordinator.election.renew(node_id, number, ttl=ttl))
        except CoordinatorUnavailableError:
            if side is self._switch.primary and self._switch.clock.monotonic() < self._marked_until:
                await self._mark(AT_ONCE)
            raise
        if is_mine:
            await self._leave_mark(side, ttl, asked_at=asked_at)
        return is_mine

    async def resign(self, node_id: NodeId, lease: int) -> None:
        side, number = self._find(lease)
        if not self._switch.may_ask(side):  # it runs out by itself: whoever is to lead here must not wait for that
            raise CoordinatorUnavailableError(f"the {side.name} is away")
        await self._switch.ask(side, lambda its: its.coordinator.election.resign(node_id, number))

    async def find_leader(self) -> NodeId | None:
        return await self._switch.call(lambda side: side.coordinator.election.find_leader())

    async def wait_for_vacancy(self, wait: timedelta) -> bool:
        return await self._switch.wait(lambda side, left: side.coordinator.election.wait_for_vacancy(left), wait)

    async def _leave_mark(self, side: Side, ttl: timedelta, *, asked_at: float) -> None:
        """Tell those who see the fallback only that the primary is led, if so."""
        if side is self._switch.primary:
            self._marked_until = asked_at + ttl.total_seconds()
            await self._mark(ttl)

    async def _mark(self, ttl: timedelta) -> None:
        await self._switch.spare(
            self._switch.fallback, lambda its: its.coordinator.signals.request_cancel([PRIMARY_IS_LED], ttl=ttl)
        )

    def _remember(self, side: Side, number: int) -> int:
        self._last = max(number, self._last + 1)
        self._leases[self._last] = (side, number)
        if len(self._leases) > LEASES_REMEMBERED:
            self._leases.popitem(last=False)
        return self._last

    def _find(self, lease: int) -> tuple[Side, int]:
        return self._leases.get(lease, (self._switch.active, lease))
