"""What the parts of one API server share while it runs."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rota.application import metrics
from rota.application.services import Services
from rota.application.sessions import Sessions
from rota.interfaces.http.one_time import OneTimeCodes
from rota.interfaces.operations.errors import BusyError, TooManyStreamsError
from rota.interfaces.operations.operation import MIB

MOST_HELD_BYTES = 64 * MIB  # of bodies that are being read or worked on


@dataclass(slots=True)
class ServerState:
    services: Services
    most_streams: int
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    parsing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))  # large bodies, one at a time
    codes: OneTimeCodes = field(default_factory=OneTimeCodes)  # of links into the console
    sessions: Sessions = field(init=False)
    held_bytes: int = 0  # of bodies
    _streams: int = 0

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.services.node, self.services.tokens)

    def is_open(self) -> bool:
        """Whether it takes requests."""
        return not self.stopping.is_set()

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Room for one more stream, or `TooManyStreamsError`."""
        if self._streams >= self.most_streams:
            problem = f"{self.most_streams} streams are followed here; end one, or ask another node"
            raise TooManyStreamsError(problem)
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of one body, each piece as it comes, or `BusyError`; they are held until the end."""
        own = 0

        def count(size: int) -> None:
            nonlocal own
            if self.held_bytes + size > MOST_HELD_BYTES:
                raise BusyError("this node holds as many bodies as it has room for; send it again, or to another node")
            own += size
            self.held_bytes += size

        try:
            yield count
        finally:
            self.held_bytes -= own

    def _count(self, change: int) -> None:
        self._streams += change
        self.services.node.collector.put(metrics.HTTP_STREAMS, value=self._streams)
