"""The blocking shell: the same as the asynchronous one, with `httpx2.Client`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeVar

import httpx2

from rota.application.ports.system import Random
from rota.client.call import Call, Reply
from rota.client.exchange import Done, Exchange, Retrying, UnreachableError
from rota.client.following import END, SILENCE, Following
from rota.client.http import check_hang_up, check_protocol, check_size, never_sent, request_of, trust_of
from rota.client.place import Place
from rota.infrastructure.system import BlockingClock, SystemRandom
from rota.wire.base import Page

T = TypeVar("T")


class SyncClock(Protocol):
    """A clock that holds the thread while it sleeps."""

    def monotonic(self) -> float: ...

    def sleep(self, duration: timedelta) -> None: ...


@dataclass(frozen=True, slots=True)
class SyncSystem:
    """Time and chance where nothing is awaited."""

    clock: SyncClock
    random: Random


def real_system() -> SyncSystem:
    """This machine's own."""
    return SyncSystem(BlockingClock(), SystemRandom())


def tell_nobody(_retrying: Retrying) -> None:
    """Most programs have nobody who waits beside them."""


class SyncWire:
    """One server, one pool of connections."""

    def __init__(
        self,
        place: Place,
        system: SyncSystem,
        *,
        transport: httpx2.BaseTransport | None = None,
        on_retry: Callable[[Retrying], None] = tell_nobody,
    ) -> None:
        """`on_retry` is told of each call that is tried again, once."""
        self.place = place
        self._on_retry = on_retry
        self._is_known = False  # that a server is there: one that has answered may hang up and be none the worse for it
        self.clock = system.clock
        self.random = system.random
        self._http = httpx2.Client(
            base_url=place.url,
            headers=place.headers,
            transport=transport,
            trust_env=not place.is_local,
            verify=trust_of(place),
        )

    def send(self, call: Call[T]) -> T:
        """Send it, again where that is safe, and read the answer."""
        exchange = Exchange(call, self.place, random=self.random, now=self.clock.monotonic())
        while True:
            left = exchange.begin(self.clock.monotonic())
            try:
                reply = self._send_once(call, left)
            except (httpx2.TransportError, TimeoutError) as exc:
                check_protocol(exc, self.place)
                if call.may_repeat and not self._is_known:
                    check_hang_up(exc, self.place)
                pause = exchange.failed(exc, now=self.clock.monotonic(), was_sent=not never_sent(exc))
            else:
                self._is_known = True
                outcome = exchange.answered(reply, now=self.clock.monotonic())
                if isinstance(outcome, Done):
                    return outcome.value
                pause = outcome
            if exchange.tries == 1 and exchange.retrying is not None:
                self._on_retry(exchange.retrying)
            self.clock.sleep(pause)

    def pages(self, ask: Callable[[str | None], Call[Page[T]]]) -> Iterator[T]:
        """All items of a list, page after page."""
        cursor: str | None = None
        while True:
            page = self.send(ask(cursor))
            yield from page.items
            if page.next_cursor is None or page.next_cursor == cursor:
                return
            cursor = page.next_cursor

    def follow(self, stream: Following[T]) -> Iterator[T]:
        """What a stream says, over all its connections; ends when the server says that it is over."""
        while True:
            try:
                with self._connect(stream) as response:
                    if response.status_code != httpx2.codes.OK:
                        reply = self._read(response, self.place.timeout.total_seconds())
                        pause = stream.refused(reply, now=self.clock.monotonic())
                    else:
                        stream.opened()
                        for event in httpx2.EventSource(response):
                            if event.event == END:
                                return
                            if (item := stream.accept(event.event, event.data, id=event.id)) is not None:
                                yield item
                        pause = stream.broken(EOFError("the server closed it"), now=self.clock.monotonic())
            except httpx2.TransportError as exc:
                check_protocol(exc, self.place)
                if not (stream.was_open or self._is_known):
                    check_hang_up(exc, self.place)
                if never_sent(exc) and not stream.was_open and self.place.connect_within == timedelta(0):
                    raise UnreachableError(f"no answer from {self.place.url}: {exc}") from exc
                pause = stream.broken(exc, now=self.clock.monotonic())
            self.clock.sleep(pause)

    def _connect(self, stream: Following[T]) -> AbstractContextManager[httpx2.Response]:
        timeout = httpx2.Timeout(self.place.timeout.total_seconds(), read=SILENCE.total_seconds())
        query = tuple(stream.call.query) or None
        return self._http.stream("GET", stream.call.path, params=query, headers=stream.headers, timeout=timeout)

    def close(self) -> None:
        self._http.close()

    def _send_once(self, call: Call[T], seconds: float) -> Reply:
        response = self._http.send(request_of(self._http, call, seconds=seconds), stream=True)
        try:
            return self._read(response, seconds)
        finally:
            response.close()

    def _read(self, response: httpx2.Response, seconds: float) -> Reply:
        # httpx2 bounds each step of a request; between two pieces of the answer we look at the clock ourselves.
        deadline = self.clock.monotonic() + seconds
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            check_size(body)
            if self.clock.monotonic() > deadline:
                raise TimeoutError(f"the answer did not end within {seconds:g} s")
        return Reply(response.status_code, response.headers, bytes(body))
