"""Who leads: at most one node at a time, and never one that has lost touch with the coordinator or the store.

A node campaigns for the coordinator's lease. The winner asks the store for a term, a number greater than all before,
and leads while it can trust that term: until the moment it *asked* for its lease, plus the lease, less a margin. Every
renewal asks both the coordinator (is the lease still mine?) and the store (is the term still the newest, and can you be
written?). One that says no, or twice in a row nothing, ends the reign, and so does a trust that runs out meanwhile.

What each failure does:

- The leader dies or is paused: its lease runs out, a standby wins it. When the paused one wakes, its trust has ended on
  its own clock: whatever asks its `Reign` is refused.
- The answer to a campaign is lost: nobody leads until that lease has run out. One that comes too late is given back.
- The store cannot be reached: the coordinator alone is no reason to lead. Step down, campaign again later.
- The duties end, for whatever reason: resign, so that a leader is never one in name only.
- The node is told to stop (cancellation): the duties end, then the lease is given back, which wakes the standbys.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from rota.application import metrics
from rota.application.loop import FatalError, Loops
from rota.application.ports.coordinator import Election
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.store import TermStore
from rota.application.ports.system import Clock, Random
from rota.application.reign import Reign
from rota.domain.errors import FencedError, UnavailableError
from rota.domain.ids import NodeId
from rota.domain.term import Term

SHORTEST_WATCH = timedelta(milliseconds=1)  # a rest of trust too small for a timer must not spin

log = structlog.get_logger(__name__)

Lead = Callable[[Reign], Awaitable[None]]


async def _tell_nobody(_: Reign) -> None:
    """Nothing is kept of a reign."""


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """How long a silent leader is waited for, and how soon a standby notices."""

    ttl: timedelta = timedelta(seconds=6)
    renew_every: timedelta = timedelta(seconds=2)
    margin: timedelta = timedelta(seconds=1)  # more than the clocks of node and coordinator differ over a lease
    standby_wait: timedelta = timedelta(seconds=1)  # at most; chance makes it shorter, so that standbys spread
    stop_within: timedelta = timedelta(seconds=5)  # for the duties to end, and again for the lease to be given back


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """This node's part in the election."""

    election: Election
    terms: TermStore
    clock: Clock
    random: Random
    collector: MetricsCollector
    node_id: NodeId
    settings: ElectionSettings = ElectionSettings()
    on_end: Lead = _tell_nobody  # told of each reign that is over, when its lease has been given back

    async def run(self, lead: Lead) -> None:
        """Campaign for ever, and call `lead` for each reign that is won; it is cancelled when the reign is over.

        Cancel this to stop: the duties end, and then the lease is given back."""
        self.collector.put(metrics.LEADER, value=0)
        loops = Loops(self.clock, self.random, self.collector)
        await loops.keep("elect", partial(self._compete, lead))

    async def _compete(self, lead: Lead) -> None:
        asked_at = self.clock.monotonic()
        lease = await self.election.campaign(self.node_id, self.settings.ttl)
        if lease is None:
            await self.election.wait_for_vacancy(self._soon())
            return
        reign: Reign | None = None
        try:
            # An answer that came too late must not begin a term: that would end the reign of whoever leads by now.
            if self._term(0, asked_at=asked_at).is_trusted(self.clock.monotonic()):
                reign = Reign(self._term(await self.terms.begin(self.node_id), asked_at=asked_at), self.clock)
                await self._reign(reign, lead, lease=lease)
        finally:
            await self._resign(lease)
            if reign is not None:
                await self.on_end(reign)
        await self.clock.sleep(self._soon())  # another node may do better

    async def _reign(self, reign: Reign, lead: Lead, *, lease: int) -> None:
        self.collector.add(metrics.ELECTIONS)
        self.collector.put(metrics.LEADER, value=1)
        log.info("leader.won", node_id=self.node_id, term=reign.number, lease=lease)
        parts = (self._renew(reign, lease), self._watch(reign), _fulfil(lead, reign))
        running, loss = [asyncio.ensure_future(part) for part in parts], ""
        try:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            ended = next(part for part in running if part in done)
            loss = _reason(ended)
            log.warning("leader.lost", node_id=self.node_id, term=reign.number, reason=loss, error=_error(ended))
        finally:
            reign.end(loss)
            self.collector.put(metrics.LEADER, value=0)
            await self._stop(running)
        if not ended.cancelled():
            with suppress(FencedError):  # that the reign is over
                ended.result()  # a failure is counted, and waited after, like that of every loop

    async def _renew(self, reign: Reign, lease: int) -> str:
        """Extend the trust again and again; returns why that is no longer possible."""
        asked_at = self.clock.monotonic()
        while True:
            passed = timedelta(seconds=self.clock.monotonic() - asked_at)
            await self.clock.sleep(max(self.settings.renew_every - passed, timedelta(0)))
            asked_at = self.clock.monotonic()
            if refused := await self._ask_twice(reign, lease):
                return refused
            reign.extend(self._term(reign.number, asked_at=asked_at))

    async def _ask_twice(self, reign: Reign, lease: int) -> str:
        """Why the reign is over, if it is. One answer that got lost is no reason: a network that loses a few would
        change leaders all the time. A second one says that this node is cut off."""
        try:
            return await self._ask(reign, lease)
        except UnavailableError as exc:
            log.info("leader.asks_again", node_id=self.node_id, term=reign.number, error=str(exc))
            return await self._ask(reign, lease)

    async def _ask(self, reign: Reign, lease: int) -> str:
        if not await self.election.renew(self.node_id, lease, ttl=self.settings.ttl):
            return "the lease is over"
        if not await self.terms.confirm(reign.number):
            return "a newer term began"
        return ""

    async def _watch(self, reign: Reign) -> str:
        """Wait for the trust to run out, however long a renewal hangs."""
        while True:
            try:
                left = reign.term.trusted_until - self.clock.monotonic()
            except FencedError:
                return "not renewed in time"
            await self.clock.sleep(max(timedelta(seconds=left), SHORTEST_WATCH))

    async def _stop(self, running: Sequence[asyncio.Future[str]]) -> None:
        for part in running:
            part.cancel()
        done, stuck = await asyncio.wait(running, timeout=self.settings.stop_within.total_seconds())
        for part in done:
            if not part.cancelled() and part.exception() is not None:
                log.warning("leader.part_failed", node_id=self.node_id, error=_reason(part))
        if stuck:
            raise FatalError(f"the duties of a leader did not stop within {self.settings.stop_within}")

    async def _resign(self, lease: int) -> None:
        """Give back exactly this lease. If that fails it runs out by itself."""
        try:
            async with asyncio.timeout(self.settings.stop_within.total_seconds()):
                await self.election.resign(self.node_id, lease)
        except (UnavailableError, TimeoutError) as exc:
            log.warning("leader.resign_failed", node_id=self.node_id, lease=lease, error=str(exc))
        else:
            log.info("leader.resigned", node_id=self.node_id, lease=lease)

    def _term(self, number: int, *, asked_at: float) -> Term:
        ttl, margin = self.settings.ttl.total_seconds(), self.settings.margin.total_seconds()
        return Term.won(number, asked_at=asked_at, ttl=ttl, margin=margin)

    def _soon(self) -> timedelta:
        return self.settings.standby_wait * (0.5 + self.random.chance() / 2)


async def _fulfil(lead: Lead, reign: Reign) -> str:
    await lead(reign)
    return "its duties ended"


def _reason(ended: asyncio.Future[str]) -> str:
    if ended.cancelled():
        return "its duties were cancelled"
    failure = ended.exception()
    return ended.result() if failure is None else type(failure).__name__


def _error(ended: asyncio.Future[str]) -> str | None:
    """What an exception says is for the log alone: it may name hosts, or have a statement in it."""
    failure = None if ended.cancelled() else ended.exception()
    return None if failure is None else str(failure)
