"""What lies between a process and its servers: answers get lost or late, requests are repeated, cables are cut."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, cast

from rota.domain.errors import StoreUnavailableError, UnavailableError
from rota.testing.faults import Faults
from tests.simulation.loop import SERVERS, Handle, SimulatedLoop

T = TypeVar("T")

ANSWER_WITHIN = 1.0
LATEST = 6.0
ARRIVES_LATER, RETURNS_LATER = 0.5, 0.2  # the shares of requests, and of answers, that take a while of their own
AFTER_DEATH = "the process is no more"
HANDS_OVER = "deliveries.assign"
LISTENS = ("count", "depths", "find", "held", "list", "load", "now", "read", "subscribe", "wait")  # changes nothing


class Side(StrEnum):
    STORE = "store"
    COORDINATOR = "coordinator"


SLOWEST = {Side.STORE: 4.0, Side.COORDINATOR: 0.9}  # just within the deadlines of real calls


class Fate(StrEnum):
    """What becomes of one call."""

    LOST = "the request never arrives"
    UNANSWERED = "it is done, and the answer is lost"
    LATE = "it is done long after the caller gave up"
    TWICE = "the request arrives twice"
    SLOW = "the answer comes at the last moment"


@dataclass(slots=True)
class Weather:
    """What all processes share: servers that are away, and how bad the network is."""

    away: set[Side]
    badness: float = 0.0  # the share of calls that meet a fate …
    fates: Sequence[Fate] = tuple(Fate)  # … of these


class Border(Faults):
    """The border of one process. Every call of a port crosses it."""

    def __init__(self, weather: Weather, chance: random.Random) -> None:
        super().__init__()
        self.is_dead = False
        self.cut: set[Side] = set()
        self.muted: set[Side] = set()  # requests arrive, answers do not
        self.gagged: set[Side] = set()  # what it says never arrives, what it asks is answered
        self.held: list[Handle] | None = None  # see `loop.Owner`
        self._weather = weather
        self._chance = chance
        self._running = asyncio.Event()
        self._running.set()
        self._pause_at: str | None = None
        self._next_fates: dict[str, Fate] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._loop = cast(SimulatedLoop, asyncio.get_running_loop())

    async def around(
        self, operation: str, call: Callable[[], Awaitable[T]], *, unavailable: type[UnavailableError]
    ) -> T:
        side = Side.STORE if unavailable is StoreUnavailableError else Side.COORDINATOR
        if operation == self._pause_at == HANDS_OVER:
            self.pause()
        if self.held is not None or self._chance.random() < ARRIVES_LATER:
            await self._stay()
        if not self.is_dead and side not in self.cut and side not in self._weather.away:
            fate = self._draw(side, operation)
            answer = (await call(),) if fate is None else await self._meet(fate, call, side=side)
            if operation == self._pause_at and _brings_something(answer):
                self.pause()
            if self.held is not None or self._chance.random() < RETURNS_LATER:
                await self._stay()
            if answer and not self.is_dead:
                return answer[0]
        if self.is_dead:
            raise unavailable(AFTER_DEATH)
        await asyncio.sleep(ANSWER_WITHIN)
        raise unavailable(f"{operation}: no answer")

    def pause(self, *, at: str | None = None) -> None:
        """Like SIGSTOP: nothing of it moves. Now, or as soon as a call such as `queue.take` is answered; or before what
        was granted is handed over."""
        self._pause_at = at
        if at is None and self.held is None and not self.is_dead:
            self.held = []
            self._running.clear()

    def resume(self) -> None:
        self._pause_at = None
        self._loop.thaw(self)
        self._running.set()

    async def _stay(self) -> None:
        """For a moment, or for as long as the process is frozen."""
        if self.held is None:
            await self._loop.pause(self._chance.expovariate(1000))
        else:
            await asyncio.sleep(0)  # the process itself stays here
        if self.held is not None:
            await self._running.wait()  # and so do those who came through it

    def plan(self, operation: str, fate: Fate) -> None:
        """Let the next such call meet this fate."""
        self._next_fates[operation] = fate

    def _draw(self, side: Side, operation: str) -> Fate | None:
        if side in self.muted:
            return Fate.UNANSWERED
        if side in self.gagged and not operation.partition(".")[2].startswith(LISTENS):
            return Fate.LOST
        if operation in self._next_fates:
            return self._next_fates.pop(operation)
        weather = self._weather
        if weather.badness and self._chance.random() < weather.badness:
            return self._chance.choice(weather.fates)
        return None

    async def _meet(self, fate: Fate, call: Callable[[], Awaitable[T]], *, side: Side) -> tuple[T] | None:
        """The answer, or None when there is none."""
        match fate:
            case Fate.LOST:
                return None
            case Fate.UNANSWERED:
                await call()
                return None
            case Fate.LATE:
                self._do_later(call)
                return None
            case Fate.TWICE:
                await call()
            case Fate.SLOW:
                answer = await call()
                await asyncio.sleep(self._chance.uniform(0.1, SLOWEST[side]))
                return (answer,)
        return (await call(),)

    def _do_later(self, call: Callable[[], Awaitable[object]]) -> None:
        async def later() -> None:
            await asyncio.sleep(self._chance.uniform(ANSWER_WITHIN, LATEST))
            with suppress(Exception):  # nobody waits for the answer, whatever it is
                await call()

        task = asyncio.get_running_loop().create_task(later(), context=SERVERS)
        self._late.add(task)
        task.add_done_callback(self._late.discard)


def _brings_something(answer: tuple[object] | None) -> bool:
    """A take from the queue may bring nothing, and most do."""
    return answer is not None and bool(getattr(answer[0], "task_ids", True))
