"""The figures of one pool of connections."""

from collections.abc import Iterator
from contextlib import contextmanager

from rota.application import metrics
from rota.application.ports.metrics import MetricsCollector
from rota.domain.errors import UnavailableError


class PoolMeter:
    """Told by whoever makes and hands out the connections, on one thread."""

    def __init__(self, collector: MetricsCollector, *, server: str, pool: str, limit: int) -> None:
        self._collector = collector
        self._labels = (server, pool)
        self._limit = limit
        self._open = 0
        self._in_use = 0
        collector.put(metrics.CONNECTIONS_LIMIT, *self._labels, value=limit)
        self._note_open(0)
        self.note_in_use(0)

    def opened(self) -> None:
        self._note_open(self._open + 1)

    def closed(self) -> None:
        self._note_open(self._open - 1)

    def lost(self) -> None:
        """One broke, or was dropped because it cannot be relied on."""
        self._collector.add(metrics.CONNECTIONS_LOST, *self._labels)

    def waited(self) -> None:
        """Somebody asked for a connection of his own while there was none left."""
        self._collector.add(metrics.CONNECTION_WAITS, *self._labels)

    @property
    def is_full(self) -> bool:
        return self._in_use >= self._limit

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """While a connection belongs to one caller."""
        self.note_in_use(self._in_use + 1)
        try:
            yield
        finally:
            self.note_in_use(self._in_use - 1)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """While a connection is there that one caller uses all the time."""
        self.opened()
        try:
            with self.in_use():
                yield
        except UnavailableError:
            self.lost()
            raise
        finally:
            self.closed()

    def note_in_use(self, number: int) -> None:
        self._in_use = number
        self._collector.put(metrics.CONNECTIONS_IN_USE, *self._labels, value=number)

    def _note_open(self, number: int) -> None:
        self._open = number
        self._collector.put(metrics.CONNECTIONS_OPEN, *self._labels, value=number)
