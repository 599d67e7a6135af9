"""Runs plugins: starts them in order, feeds them events, stops them in the opposite order.

A plugin is code of others. Beside the loops this is the one place that catches every exception, for the same reason: a
guest's failure, be it an exit or a cancellation of its own making, is logged and counted and ends nothing but the
guest's own call. Each plugin has a queue and a feed of its own, so that a slow one holds up nobody else.

Each call is a task of its own, which alone bears what the guest does to it: that it is marked as cancelled, for one, as
a `TaskGroup` may leave it before Python 3.13. A call that is to end and does not is left to itself after a moment.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import structlog

from rota.application import metrics
from rota.application.loop import Loops
from rota.application.ports.coordinator import Signals
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.plugin import EventHandler, Plugin, PluginContext
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.events import Event

CALL_DEADLINE = timedelta(seconds=10)  # for each call of a plugin: nobody waits for ever for a guest
END_WITHIN = timedelta(seconds=1)  # of a call that was cancelled: what takes longer may never end
BACKLOG = 10_000  # events a plugin may lag behind, as many as a listener of the coordinator

_Calling = asyncio.Task[BaseException | None]  # what it failed with

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PluginPlan:
    """A plugin that is to run: its name in the settings, how it is made, and the settings that are its own."""

    name: str
    make: Callable[[], Plugin]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Guest:
    name: str
    plugin: Plugin
    handlers: list[EventHandler]
    waiting: deque[Event] = field(default_factory=deque)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)


class PluginHost:
    """The plugins of one process: `start`, then `run` for as long as it lives, then `stop`."""

    def __init__(self, signals: Signals, loops: Loops, *, collector: MetricsCollector) -> None:
        self._signals = signals
        self._loops = loops
        self._collector = collector
        self._guests: list[_Guest] = []
        self._heard_until: str | None = None
        self._ending: set[_Calling] = set()  # calls that were broken off: a task that nobody holds may vanish

    @property
    def running(self) -> list[str]:
        """The names of the plugins that are up, in the order they started."""
        return [guest.name for guest in self._guests]

    async def start(self, plans: Sequence[PluginPlan]) -> None:
        """Make and initialise all, then start all. One that fails is left out; the others go on."""
        ready = [guest for plan in plans if (guest := await self._initialise(plan)) is not None]
        for guest in ready:
            if await self._call(guest.name, "start", call=partial(_start, guest)):
                self._guests.append(guest)
            else:
                await self._stop(guest)

    async def run(self) -> None:
        """Hear events and pass them on, until cancelled. A lost subscription is made anew and goes on where it was.

        Should a part of it end all the same, it ends: a plugin that hears nothing any more would not be missed."""
        listeners = [guest for guest in self._guests if guest.handlers]
        if not listeners:
            await asyncio.Event().wait()  # nobody wants events: spare the process what it costs to hear them
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(self._loops.keep("plugins.events", partial(self._listen, listeners)))]
            parts += [group.create_task(self._feed(guest), name=f"plugins.feed {guest.name}") for guest in listeners]
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in parts:
                part.cancel()

    async def stop(self) -> None:
        """Stop all, the last one first."""
        while self._guests:
            await self._stop(self._guests.pop())

    async def _initialise(self, plan: PluginPlan) -> _Guest | None:
        handlers: list[EventHandler] = []
        made: list[Plugin] = []
        bound = structlog.get_logger(f"rota.plugin.{plan.name}").bind(plugin=plan.name)
        context = PluginContext(plan.settings, bound, on_event=handlers.append)

        async def initialise() -> None:
            plugin = plan.make()
            await plugin.initialise(context)
            made.append(plugin)

        is_ready = await self._call(plan.name, "initialise", call=initialise)
        return _Guest(plan.name, made[0], handlers) if is_ready else None

    async def _stop(self, guest: _Guest) -> None:
        if await self._call(guest.name, "stop", call=partial(_stop, guest)):
            log.info("plugin.stopped", plugin=guest.name)

    async def _listen(self, listeners: Sequence[_Guest]) -> None:
        has_heard = False
        try:
            async with self._signals.subscribe(after=self._heard_until) as events:
                async for self._heard_until, event in events:
                    has_heard = True
                    if event is not None:
                        self._hand_out(event, listeners)
        except CoordinatorUnavailableError as exc:
            if not has_heard:
                raise  # to the loop, which pauses longer each time
            log.warning("plugins.subscription_lost", error=str(exc))

    def _hand_out(self, event: Event, listeners: Sequence[_Guest]) -> None:
        for guest in listeners:
            if len(guest.waiting) >= BACKLOG:
                guest.waiting.popleft()
                self._collector.add(metrics.PLUGIN_EVENTS_DROPPED, guest.name)
            guest.waiting.append(event)
            guest.arrived.set()

    async def _feed(self, guest: _Guest) -> None:
        while True:
            await guest.arrived.wait()
            guest.arrived.clear()
            while guest.waiting:
                event = guest.waiting.popleft()
                for handler in guest.handlers:
                    await self._call(guest.name, "event", call=partial(handler, event))

    async def _call(self, name: str, doing: str, *, call: Callable[[], Awaitable[None]]) -> bool:
        """Whether the call of the plugin came to a good end."""
        calling = asyncio.create_task(_catch(call))
        try:
            in_time, _ = await asyncio.wait({calling}, timeout=CALL_DEADLINE.total_seconds())
        finally:
            if not calling.done():
                await self._break_off(calling, name, doing=doing)
        failure = calling.result() if in_time else _tell_late(calling)
        if failure is not None:
            self._note(name, doing, failure=failure)
        return failure is None

    async def _break_off(self, calling: _Calling, name: str, *, doing: str) -> None:
        calling.cancel()
        self._ending.add(calling)
        calling.add_done_callback(self._ending.discard)
        await asyncio.wait({calling}, timeout=END_WITHIN.total_seconds())
        if not calling.done():
            log.error("plugin.left_running", plugin=name, doing=doing)

    def _note(self, name: str, doing: str, *, failure: BaseException) -> None:
        self._collector.add(metrics.PLUGIN_FAILURES, name, doing)
        log.error("plugin.failed", plugin=name, doing=doing, error=repr(failure), exc_info=failure)


async def _catch(call: Callable[[], Awaitable[None]]) -> BaseException | None:
    """What the call failed with; a cancellation may be of its own making, or ours, who then does not ask."""
    try:
        await call()
    except (Exception, SystemExit, asyncio.CancelledError) as exc:
        return exc
    return None


def _tell_late(calling: _Calling) -> TimeoutError:
    """With the place where it was, if it let itself be cancelled there."""
    late = TimeoutError(f"no end within {CALL_DEADLINE.total_seconds():g} s")
    late.__cause__ = calling.result() if calling.done() else None
    return late


async def _start(guest: _Guest) -> None:
    await guest.plugin.start()
    log.info("plugin.started", plugin=guest.name, title=guest.plugin.name, version=guest.plugin.version)


async def _stop(guest: _Guest) -> None:
    await guest.plugin.stop()
