"""Plugins: code of others that runs inside a Rota process and hears what happens.

A plugin is a guest. Its failures are logged and counted and end nothing but itself; it shares the event loop with the
control plane, so what blocks belongs in a thread of its own.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from structlog.typing import FilteringBoundLogger

from rota.domain.events import Event

EventHandler = Callable[[Event], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What a plugin gets from its host."""

    settings: Mapping[str, Any]  # its own part of the settings, as plain values; it checks them itself
    log: FilteringBoundLogger  # names the plugin in every line
    on_event: Callable[[EventHandler], None]
    """Have a handler called with every event, in order, each when the call before has ended or was given up. A plugin
    that is too slow loses the oldest."""


class Plugin(Protocol):
    """Something that is started with the process and stopped with it. Each call is an asyncio task of its own and has a
    deadline; then it is cancelled, and left to itself if it goes on all the same."""

    @property
    def name(self) -> str:
        """What it is called, for people to see."""
        ...

    @property
    def version(self) -> str:
        """Which one it is, for people to see."""
        ...

    async def initialise(self, context: PluginContext) -> None:
        """Look at the settings and ask for events. Raises when it cannot work like this: it is then left out."""
        ...

    async def start(self) -> None:
        """Begin. Called once, after every plugin was initialised; events come only after it."""
        ...

    async def stop(self) -> None:
        """End everything that `initialise` and `start` began. Called once, in the opposite order; no event comes after.

        Also called when `start` failed half way."""
        ...
