"""The loop of the simulation: virtual time, no I/O at all, and processes that can be frozen.

`rota.testing.virtual_time` asks the operating system in every turn whether there is I/O; this one has none to ask for,
which makes a seed cheaper by half. And whatever belongs to a frozen process is held back until it is thawed, as
SIGSTOP does: its answers lie there, its timers run out, and when it wakes everything comes at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Owner(Protocol):
    """A process, to whose tasks the steps belong that the loop takes."""

    held: list[asyncio.Handle] | None  # while it is frozen: what it would have done


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)
SERVERS = Context()  # what runs in here belongs to no process, and is never frozen


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._soon: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]  # typed more loosely than asyncio's, which is generic over the arguments
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        owner = handle._context.get(OWNER)  # type: ignore[attr-defined]  # not in the stubs
        if owner is None or owner.held is None:
            self._soon.append(handle)
        else:
            owner.held.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread; typed as above

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def thaw(self, owner: Owner) -> None:
        """Let go on what was held back, in the order in which it came."""
        if owner.held is not None:
            self._soon.extend(owner.held)
            owner.held = None

    def _run_once(self) -> None:
        """One turn, as asyncio's own: time jumps when nothing else can happen, then everything that is due runs."""
        timers, soon = self._timers, self._soon
        if not soon:
            while timers and timers[0][2].cancelled():
                heappop(timers)
            if not timers:
                raise RuntimeError("everything waits and nothing will ever happen: a deadlock on virtual time")
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            timer = heappop(timers)[2]
            if not timer.cancelled():
                soon.append(timer)
        for _ in range(len(soon)):
            handle = soon.popleft()
            if not handle.cancelled():
                handle._run()


def run_simulated(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(main)
