"""What the coordinator is told once something is in the store: who is done, what waits again, what happened.

All of it is hints, so none is tried twice: an attempt that was not acknowledged is found in flight by the next
heartbeat, an entry that was not pushed by the reconciler, and an event is missed. A coordinator that is away therefore
never holds up a result.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import structlog

from rota.application import metrics
from rota.application.work.hands import Hands
from rota.application.work.nudge import Nudge
from rota.application.work.settings import WorkerPorts
from rota.domain.attempt import Attempt
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event
from rota.domain.queue import QueueEntry

MOST_EVENTS = 10_000  # that wait for the coordinator; the oldest are dropped first

Hint = TypeVar("Hint")

log = structlog.get_logger(__name__)


class Settler:
    def __init__(self, ports: WorkerPorts, hands: Hands) -> None:
        self._coordinator = ports.coordinator
        self._idle = ports.idle
        self._collector = ports.collector
        self._hands = hands
        self._nudge = Nudge()
        self._attempts: list[Attempt] = []
        self._entries: list[QueueEntry] = []
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._is_busy = False

    @property
    def is_idle(self) -> bool:
        return not (self._is_busy or self._attempts or self._entries or self._events)

    def acknowledge(self, attempts: Iterable[Attempt]) -> None:
        """These have ended and the store knows it, or they were never ours."""
        self._attempts.extend(attempts)
        self._nudge.give()

    def push(self, entries: Iterable[QueueEntry]) -> None:
        """These wait again."""
        self._entries.extend(entries)
        self._nudge.give()

    def tell(self, events: Iterable[Event]) -> None:
        self._events.extend(events)
        self._nudge.give()

    async def __call__(self) -> None:
        """One turn of the loop."""
        if self.is_idle:
            await self._nudge.wait(self._idle)
        self._is_busy = True
        try:
            events, self._events = self._events, deque(maxlen=MOST_EVENTS)
            told = self._hint("publish", self._coordinator.signals.publish, items=list(events))
            await asyncio.gather(self._let_go(), told)  # in one message, where the coordinator takes them so
        finally:
            self._is_busy = False

    async def _let_go(self) -> None:
        await self._acknowledge()
        entries, self._entries = self._entries, []
        await self._hint("push", self._coordinator.queue.push, items=entries)

    async def _acknowledge(self) -> None:
        attempts, self._attempts = self._attempts, []
        if attempts:
            try:
                await self._hint("acknowledge", self._coordinator.deliveries.acknowledge, items=attempts)
            finally:
                self._hands.settle(attempts)

    async def _hint(
        self, name: str, call: Callable[[Sequence[Hint]], Awaitable[None]], *, items: Sequence[Hint]
    ) -> None:
        if not items:
            return
        try:
            await call(items)
        except CoordinatorUnavailableError as exc:
            self._collector.add(metrics.LOOP_FAILURES, f"worker.{name}")
            log.warning("worker.hint_lost", hint=name, count=len(items), error=str(exc))
