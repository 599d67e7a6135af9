"""Holding a lock by name while a block of a program runs.

The lock is asked for again and again while another holds it, and prolonged three times within its ttl. It is trusted
until the moment its last renewal was *asked* for, plus the ttl, less a tenth of it: until then nobody else can have it,
as long as the clocks of node and coordinator run about equally fast and the coordinator keeps its memory. Whoever must
be sure passes the fence on to what the lock protects (`ports.coordinator.Locks`).

A `Lock` is entered as often as one likes, by one block at a time: the others wait for their turn in this process before
one of them asks the coordinator. Each entry is a `Hold` of its own, another owner, which the coordinator keeps apart
from all others.

What each failure does:

- A renewal has no answer: it is asked for again, until the trust runs out.
- The lock is over, or the trust runs out: the block is cancelled where it waits, and `LockLostError` raised instead. A
  block that computes without waiting hears of it when it ends.
- The answer to a taking comes too late to be trusted: the lock is given back, and taken anew while there is time.
- A taking has no answer, or is cancelled before it has: that is raised, and the lock may be held for a ttl by nobody.
- The release fails: the lock runs out by itself.
- The process dies or is paused: the same. Woken, it finds its trust ended.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType

import structlog

from rota.application.node import Node
from rota.domain.checks import check_duration
from rota.domain.errors import ConflictError, LockLostError, UnavailableError
from rota.domain.lock import check_lock
from rota.domain.term import Term

LEAST_TTL = timedelta(seconds=1)  # etcd counts in seconds, and a renewal has to come in time
RENEWALS = 3  # within a ttl
MARGIN = 10  # one part in so many of the ttl: more than the clocks of node and coordinator differ over it
ASK_AGAIN = timedelta(
    seconds=1
)  # at most, while another holds it; chance makes it shorter, so that those who wait spread
SHORTEST_WATCH = timedelta(milliseconds=1)  # a rest of trust too small for a timer must not spin
RELEASE_WITHIN = timedelta(seconds=5)

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Lock:
    """Enter it to hold the lock, which gives the fence; leave it to give the lock back. It is not reentrant."""

    node: Node
    name: str
    ttl: timedelta
    most: timedelta | None = None  # to wait for the lock; None: as long as it takes
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _hold: "Hold | None" = field(default=None, init=False)  # of the block whose turn it is

    def __post_init__(self) -> None:
        check_lock(self.name, self.node.id)
        check_duration("ttl", self.ttl, least=LEAST_TTL)

    async def __aenter__(self) -> int:
        if self._hold is not None and self._hold.block is asyncio.current_task():
            raise ConflictError(f"lock {self.name} is held by this task already, which would wait for itself")
        most = None if self.most is None else self.most.total_seconds()
        until = None if most is None else self.node.clock.monotonic() + most
        try:
            async with asyncio.timeout(most):
                await self._turn.acquire()
        except TimeoutError:
            raise _not_free(self.name) from None
        try:
            hold = Hold(node=self.node, name=self.name, ttl=self.ttl, until=until)
            fence = await hold.begin()
        except BaseException:
            self._turn.release()
            raise
        self._hold = hold
        return fence

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        hold, self._hold = self._hold, None
        assert hold is not None  # noqa: S101 who leaves has entered
        try:
            await hold.end(error)
        finally:
            self._turn.release()


@dataclass(slots=True, kw_only=True, eq=False)
class Hold:
    """One holding of a lock, for one block."""

    node: Node
    name: str
    ttl: timedelta
    until: float | None  # when to wait no longer for the lock
    block: "asyncio.Task[object]" = field(init=False)
    _owner: str = field(init=False)
    _term: Term = field(init=False)  # the fence, and how long it is trusted
    _told_to_end: int = field(init=False)
    _keeper: "asyncio.Task[None]" = field(init=False)
    _loss: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._owner = f"{self.node.id}/{self.node.ids.next()}"

    async def begin(self) -> int:
        await self._take()
        block = asyncio.current_task()
        assert block is not None  # noqa: S101 a lock is awaited with a time limit, which takes a task
        self.block, self._told_to_end = block, block.cancelling()
        self._keeper = asyncio.create_task(self._keep(), name=f"lock {self.name}")
        log.debug("lock.taken", name=self.name, owner=self._owner, fence=self._term.number)
        return self._term.number

    async def end(self, error: BaseException | None) -> None:
        """Give the lock back; what the block raised, if it did, is covered up by a loss that was the reason alone."""
        is_ours = bool(self._loss) and self.block.uncancel() <= self._told_to_end
        if not self._loss:
            self._keeper.cancel()
        await asyncio.wait([self._keeper])
        await self._release()
        if self._loss and (error is None or (is_ours and isinstance(error, asyncio.CancelledError))):
            raise LockLostError(self.name, fence=self._term.number, problem=self._loss) from error

    async def _take(self) -> None:
        clock = self.node.clock
        while True:
            asked_at = clock.monotonic()
            fence = await self.node.coordinator.locks.take(self.name, self._owner, ttl=self.ttl)
            if fence is not None:
                self._term = self._trust(fence, asked_at)
                if self._term.is_trusted(clock.monotonic()):
                    return
                await self._release()
            left = None if self.until is None else timedelta(seconds=self.until - clock.monotonic())
            if left is not None and left <= timedelta(0):
                raise _not_free(self.name)
            pause = ASK_AGAIN * (0.5 + self.node.random.chance() / 2)
            await clock.sleep(pause if left is None else min(pause, left))

    async def _keep(self) -> None:
        """Until the lock is lost; then the block is told to end, before a renewal that hangs is wound down."""
        parts = [asyncio.ensure_future(part) for part in (self._renew(), self._watch())]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            ended = next(part for part in parts if part.done())
            failure = ended.exception()
            self._tell(ended.result() if failure is None else type(failure).__name__)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    def _tell(self, loss: str) -> None:
        log.warning("lock.lost", name=self.name, owner=self._owner, fence=self._term.number, reason=loss)
        self._loss = loss
        self.block.cancel()

    async def _renew(self) -> str:
        """Prolong the lock again and again; returns why that is no longer possible."""
        clock, pause = self.node.clock, self.ttl / RENEWALS
        while True:
            await clock.sleep(pause)
            asked_at, pause = clock.monotonic(), self.ttl / RENEWALS
            try:
                locks, fence = self.node.coordinator.locks, self._term.number
                if not await locks.renew(self.name, self._owner, fence=fence, ttl=self.ttl):
                    return "it ran out, or the coordinator lost its memory"
                self._term = self._trust(fence, asked_at)
            except UnavailableError as exc:
                log.info("lock.asks_again", name=self.name, fence=self._term.number, error=str(exc))
                pause = min(pause, ASK_AGAIN) / 2

    async def _watch(self) -> str:
        """Wait for the trust to run out, however long a renewal hangs."""
        clock = self.node.clock
        while self._term.is_trusted(clock.monotonic()):
            left = timedelta(seconds=self._term.trusted_until - clock.monotonic())
            await clock.sleep(max(left, SHORTEST_WATCH))
        return "it was not renewed in time"

    async def _release(self) -> None:
        """Give back exactly this holding. If that fails it runs out by itself."""
        try:
            async with asyncio.timeout(RELEASE_WITHIN.total_seconds()):
                await self.node.coordinator.locks.release(self.name, self._owner, fence=self._term.number)
        except (UnavailableError, TimeoutError) as exc:
            log.warning("lock.release_failed", name=self.name, fence=self._term.number, error=str(exc))

    def _trust(self, fence: int, asked_at: float) -> Term:
        ttl = self.ttl.total_seconds()
        return Term.won(fence, asked_at=asked_at, ttl=ttl, margin=ttl / MARGIN)


def _not_free(name: str) -> TimeoutError:
    return TimeoutError(f"lock {name} was not free in time")
