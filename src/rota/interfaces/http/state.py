"""What the parts of one API server share while it runs."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rota.application import metrics
from rota.application.services import Services
from rota.interfaces.operations.errors import TooManyStreamsError


@dataclass(slots=True)
class ServerState:
    services: Services
    most_streams: int
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _streams: int = 0

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

    def _count(self, change: int) -> None:
        self._streams += change
        self.services.node.collector.put(metrics.HTTP_STREAMS, value=self._streams)
