"""Which of the two coordinators this process uses now.

- **Away.** A call that the primary leaves unanswered is repeated on the fallback, and from then on every call goes
  there at once. So one call is as slow as both deadlines together, and the others are as fast as the fallback.
- **Back.** In the background the primary is asked every second. When it has answered for three seconds in a row it is
  used again. It is asked for a *write*: a Redis that is full, or was demoted to a replica, still answers reads, and
  would be taken back only to fail at the next push.
- **Beside.** The side that is not in use may still hold something of interest. It is asked with `spare`: shortly, only
  if it answered last time, and its silence is no error.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import structlog

from rota.application import metrics
from rota.application.loop import Loops
from rota.application.ports.coordinator import Coordinator
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.ids import TaskId

PROBE_EVERY = timedelta(seconds=1)
STEADY_FOR = timedelta(seconds=3)  # the primary answers for this long before it is used again
IN_DOUBT_FOR = timedelta(minutes=1)  # after a switch, both sides may hold something that matters
SPARE_WITHIN = timedelta(seconds=1)
SPARE_PAUSE = timedelta(seconds=1)  # after a silence of the side that is not in use
SLICE = timedelta(seconds=1)  # a longer wait looks this often whether the switch has moved
PROBE_MARK = TaskId(1)  # ids carry the time in their upper bits: this one is never issued
PROBE_KEPT = timedelta(seconds=1)

T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One of the two coordinators; compared by identity."""

    name: str
    coordinator: Coordinator


async def probe(coordinator: Coordinator) -> None:
    """Ask for a write that changes nothing. Raises `CoordinatorUnavailableError`."""
    await coordinator.signals.request_cancel([PROBE_MARK], ttl=PROBE_KEPT)


class Switch:
    """Sends each call to the side in use, and moves on when that one is away."""

    def __init__(
        self, primary: Coordinator, fallback: Coordinator, *, loops: Loops, on_switch: Callable[[bool], None]
    ) -> None:
        self.primary = Side("primary", primary)
        self.fallback = Side("fallback", fallback)
        self.clock = loops.clock
        self.active = self.primary
        self.moves = 0  # how often it has moved: tells what belongs to an earlier position
        self._loops = loops
        self._on_switch = on_switch
        self._away = asyncio.Event()
        self._moved_at = float("-inf")
        self._answering_since: float | None = None
        self._told_fix = ""  # what was last said to help
        self._silent_until: dict[Side, float] = {}

    @property
    def other(self) -> Side:
        """The side that is not in use."""
        return self.fallback if self.active is self.primary else self.primary

    @property
    def is_in_doubt(self) -> bool:
        """Whether it moved so lately that both sides count."""
        return self.clock.monotonic() - self._moved_at < IN_DOUBT_FOR.total_seconds()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While this is entered, a primary that comes back is noticed."""
        self._loops.collector.put(metrics.COORDINATOR_FALLBACK, value=0)
        watcher = asyncio.create_task(self._loops.keep("coordinator.probe", self._probe))
        try:
            yield
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def call(self, act: Callable[[Side], Awaitable[T]]) -> T:
        """Act on the side in use; if the primary is away, once more on the fallback."""
        side, moves = self.active, self.moves
        try:
            return await act(side)
        except CoordinatorUnavailableError as exc:
            if side is self.fallback:
                raise
            self.leave_primary(moves, exc)
        return await act(self.active)

    async def wait(self, act: Callable[[Side, timedelta], Awaitable[T]], wait: timedelta) -> T:
        """Act with a wait, in slices, so that a wait on a side that is no longer in use ends soon."""
        until = self.clock.monotonic() + wait.total_seconds()

        def remaining() -> timedelta:
            return max(timedelta(seconds=until - self.clock.monotonic()), timedelta(0))

        while True:
            found = await self.call(lambda side: act(side, min(remaining(), SLICE)))
            if bool(found) or not remaining():
                return found

    async def ask(self, side: Side, act: Callable[[Side], Awaitable[T]]) -> T:
        """Act on this very side; it raises when that one is away."""
        moves = self.moves
        try:
            return await act(side)
        except CoordinatorUnavailableError as exc:
            if side is self.primary:
                self.leave_primary(moves, exc)
            self._silent_until[side] = self.clock.monotonic() + SPARE_PAUSE.total_seconds()
            raise

    async def spare(self, side: Side, act: Callable[[Side], Awaitable[T]]) -> T | None:
        """What this side says if it can be asked, else None."""
        if not self.may_ask(side):
            return None
        try:
            async with asyncio.timeout(SPARE_WITHIN.total_seconds()):
                return await act(side)
        except (CoordinatorUnavailableError, TimeoutError):
            self._silent_until[side] = self.clock.monotonic() + SPARE_PAUSE.total_seconds()
            return None

    def may_ask(self, side: Side) -> bool:
        """Whether an answer can be expected: it is in use, or has answered lately."""
        if side is self.active:
            return True
        if side is self.primary and self._answering_since is None:
            return False
        return self.clock.monotonic() >= self._silent_until.get(side, float("-inf"))

    def leave_primary(self, moves: int, reason: CoordinatorUnavailableError) -> None:
        """Use the fallback, unless the switch has moved since the call that failed was begun."""
        if self.active is self.primary and self.moves == moves:
            log.warning("coordinator.fallback", error=str(reason), **_tell_fix(reason))
            self._answering_since, self._told_fix = None, reason.fix
            self._away.set()
            self._move(self.fallback)

    async def _probe(self) -> None:
        await self._away.wait()
        await self.clock.sleep(PROBE_EVERY)
        try:
            await probe(self.primary.coordinator)
        except CoordinatorUnavailableError as exc:
            self._answering_since = None
            if exc.fix and exc.fix != self._told_fix:  # it came back, and refuses us
                log.warning("coordinator.refused", error=str(exc), fix=exc.fix)
                self._told_fix = exc.fix
            return
        now = self.clock.monotonic()
        if self._answering_since is None:
            self._answering_since = now
        elif now - self._answering_since >= STEADY_FOR.total_seconds():
            log.info("coordinator.restored")
            self._away.clear()
            self._move(self.primary)

    def _move(self, side: Side) -> None:
        self.active = side
        self.moves += 1
        self._moved_at = self.clock.monotonic()
        is_fallback = side is self.fallback
        self._loops.collector.put(metrics.COORDINATOR_FALLBACK, value=int(is_fallback))
        self._on_switch(is_fallback)


def _tell_fix(reason: CoordinatorUnavailableError) -> dict[str, str]:
    return {"fix": reason.fix} if reason.fix else {}
