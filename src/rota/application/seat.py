"""This node's seat among the schedulers that dispatch at once, and for how long it may act beside the leader.

A seat is a lease of the coordinator. With every renewal the store is asked which term is the newest, so a seat proves
both of them reachable, as the renewal of a leader does: what is granted beside the leader is granted under its term,
and only until the moment the renewal was *asked* for, plus the lease, less a margin. The store's own condition is the
fence all the same: a task that was granted in a later term is granted in no earlier one.

No seat outlasts a change of role. A leader that cannot give back its places, or whose reservation is carried out after
it has, leaves them to its seat, which nobody prolongs from then on.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import structlog

from rota.application.elect import ElectionSettings
from rota.application.loop import Loops
from rota.application.ports.coordinator import Assistance, Coordinator, Holder
from rota.application.ports.store import TermStore
from rota.application.reign import Reign
from rota.domain.errors import FencedError, UnavailableError
from rota.domain.ids import NodeId
from rota.domain.term import Term

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Seat:
    """There is one while the process lives, whoever leads."""

    assistance: Assistance
    coordinator: Coordinator
    terms: TermStore
    loops: Loops
    node_id: NodeId
    settings: ElectionSettings
    generation: str | None = field(default=None, init=False)  # of the coordinator's memory, as it was last seen
    _number: int | None = field(default=None, init=False)
    _former: deque[int] = field(default_factory=lambda: deque(maxlen=3), init=False)  # the older ones run out
    _reign: Reign | None = field(default=None, init=False)
    _keeping: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def run(self) -> None:
        """Until cancelled; then the seat is given up, and with it whatever places are still reserved."""
        try:
            await self.loops.keep("seat", self.keep, every=self.settings.renew_every)
        finally:
            await self._leave()

    async def keep(self) -> int:
        """Take a seat or prolong it, and learn under whose term to act. Says which seat it is."""
        async with self._keeping:
            asked_at = self.loops.clock.monotonic()
            number = self._number
            if number is None or not await self.assistance.renew(self.node_id, number):
                self._number = None  # should the next call fail
                self._number = number = await self.assistance.join(self.node_id, self.settings.ttl)
                log.info("seat.taken", node_id=self.node_id, seat=number)
            self.generation = await self.coordinator.queue.find_generation()
            ttl, margin = self.settings.ttl.total_seconds(), self.settings.margin.total_seconds()
            term = Term.won(await self.terms.find_last(), asked_at=asked_at, ttl=ttl, margin=margin)
            self._reign = Reign(term, self.loops.clock)
            return number

    async def holder(self, name: str) -> Holder:
        """One who reserves places with this seat; takes it first if there is none."""
        return Holder(name, await self.keep() if self._number is None else self._number)

    def lose(self, holder: Holder) -> None:
        """The coordinator says that the seat is over: the next one to need it takes another."""
        if self._number == holder.seat:
            self._number = None

    @contextmanager
    def leading(self) -> Iterator[None]:
        """This node leads meanwhile: with a seat of its own for that, and with another one before and after."""
        self._turn_away()
        try:
            yield
        finally:
            self._turn_away()

    def find_reign(self) -> Reign | None:
        """Under which term this node may act beside the leader now; None: it may not, or nobody has ever led."""
        if self._reign is None or not self._reign.number:
            return None
        with suppress(FencedError):
            self._reign.check()
            return self._reign
        return None

    def _turn_away(self) -> None:
        """From this seat. It is not given up: what was reserved with it may be about to be filled."""
        number, self._number = self._number, None
        if number is not None:
            self._former.append(number)

    async def _leave(self) -> None:
        """If that fails they run out by themselves."""
        self._turn_away()
        try:
            async with asyncio.timeout(self.settings.stop_within.total_seconds()):
                while self._former:
                    await self.assistance.leave(self.node_id, self._former.pop())
        except (UnavailableError, TimeoutError) as exc:
            log.warning("seat.leave_failed", node_id=self.node_id, error=str(exc))
