"""What lies between a process and its servers: answers get lost or late, requests are repeated, cables are cut."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from rota.domain.errors import StoreUnavailableError, UnavailableError
from rota.testing.faults import Faults

T = TypeVar("T")

ANSWER_WITHIN = 1.0
LATEST = 6.0
AFTER_DEATH = "the process is no more"


class Side(StrEnum):
    STORE = "store"
    COORDINATOR = "coordinator"


class Fate(StrEnum):
    """What becomes of one call."""

    LOST = "the request never arrives"
    UNANSWERED = "it is done, and the answer is lost"
    LATE = "it is done long after the caller gave up"
    TWICE = "the request arrives twice"


@dataclass(slots=True)
class Weather:
    """What all processes share: servers that are away, and how bad the network is."""

    away: set[Side]
    badness: float = 0.0  # the share of calls that meet a fate


class Border(Faults):
    """The border of one process. Every call of a port crosses it."""

    def __init__(self, weather: Weather, chance: random.Random) -> None:
        super().__init__()
        self.is_dead = False
        self.cut: set[Side] = set()
        self._weather = weather
        self._chance = chance
        self._running = asyncio.Event()
        self._running.set()
        self._pause_at: str | None = None
        self._late: set[asyncio.Task[None]] = set()

    async def around(
        self, operation: str, call: Callable[[], Awaitable[T]], *, unavailable: type[UnavailableError]
    ) -> T:
        side = Side.STORE if unavailable is StoreUnavailableError else Side.COORDINATOR
        await self._travel()
        if not self.is_dead and side not in self.cut | self._weather.away:
            answer = await self._meet(self._draw(), call)
            if operation == self._pause_at:
                self.pause()
            await self._travel()
            if answer and not self.is_dead:
                return answer[0]
        if self.is_dead:
            raise unavailable(AFTER_DEATH)
        await asyncio.sleep(ANSWER_WITHIN)
        raise unavailable(f"{operation}: no answer")

    def pause(self, *, at: str | None = None) -> None:
        """Like SIGSTOP: what is on its way stays there. Now, or as soon as a call such as `queue.take` is answered."""
        self._pause_at = at
        if at is None:
            self._running.clear()

    def resume(self) -> None:
        self._pause_at = None
        self._running.set()

    async def until_running(self) -> None:
        await self._running.wait()

    async def _travel(self) -> None:
        await asyncio.sleep(self._chance.expovariate(1 / 0.001))
        if not self.is_dead:
            await self._running.wait()

    def _draw(self) -> Fate | None:
        return self._chance.choice(list(Fate)) if self._chance.random() < self._weather.badness else None

    async def _meet(self, fate: Fate | None, call: Callable[[], Awaitable[T]]) -> tuple[T] | None:
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
            case None:
                pass
        return (await call(),)

    def _do_later(self, call: Callable[[], Awaitable[object]]) -> None:
        async def later() -> None:
            await asyncio.sleep(self._chance.uniform(ANSWER_WITHIN, LATEST))
            with suppress(Exception):  # nobody waits for the answer, whatever it is
                await call()

        task = asyncio.get_running_loop().create_task(later())
        self._late.add(task)
        task.add_done_callback(self._late.discard)
