"""The loop of the simulation: virtual time, no I/O at all, and processes that can be frozen.

`rota.testing.virtual_time` asks the operating system in every turn whether there is I/O; this one has none to ask for.
That, handles that carry nothing but what is to be called, and pauses that need neither handle nor task make a seed
cheaper by more than half. And whatever belongs to a frozen process is held back until it is thawed, as SIGSTOP does:
its answers lie there, its timers run out, and when it wakes everything comes at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Owner(Protocol):
    """A process, to whose tasks the steps belong that the loop takes."""

    held: "list[Handle] | None"  # while it is frozen: what it would have done


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)
SERVERS = Context()  # what runs in here belongs to no process, and is never frozen


class Handle:
    """What asyncio's handles are to those who hold one."""

    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], *, context: Context) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class SimulatedLoop(asyncio.SelectorEventLoop):
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._soon: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle | asyncio.Future[None]]] = []
        self._numbers = count()

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]  # typed more loosely than asyncio's, which is generic over the arguments
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        if context is None:
            context = copy_context()
        handle = Handle(callback, args, context=context)
        owner = context.get(OWNER)
        if owner is None or owner.held is None:
            self._soon.append(handle)
        else:
            owner.held.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread; typed as above

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        timer = Handle(callback, args, context=context or copy_context())
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def pause(self, seconds: float) -> asyncio.Future[None]:
        """What `asyncio.sleep` does, for a third of its price; most of what happens in a simulation is a pause."""
        future = self.create_future()
        heappush(self._timers, (self._now + seconds, next(self._numbers), future))
        return future

    def thaw(self, owner: Owner) -> None:
        """Let go on what was held back, in the order in which it came."""
        if owner.held is not None:
            self._soon.extend(owner.held)
            owner.held = None

    def _run_once(self) -> None:
        """Turns, each as asyncio's own, until somebody stops the loop: time jumps when nothing else can happen, then
        everything that is due runs."""
        timers, soon = self._timers, self._soon
        while not self._stopping:
            if not soon:
                while timers and timers[0][2].cancelled():
                    heappop(timers)
                if not timers:
                    raise RuntimeError("everything waits and nothing will ever happen: a deadlock on virtual time")
                if timers[0][0] > self._now:
                    self._now = timers[0][0]
            while timers and timers[0][0] <= self._now:
                timer = heappop(timers)[2]
                if isinstance(timer, Handle):
                    soon.append(timer)
                elif not timer.done():
                    timer.set_result(None)
            for _ in range(len(soon)):
                handle = soon.popleft()
                if not handle.is_cancelled:
                    try:
                        handle.context.run(handle.callback, *handle.args)
                    except Exception as exc:
                        self.call_exception_handler({"message": f"in {handle.callback}", "exception": exc})


def run_simulated(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(main)
