"""The asynchronous shell: sends calls and follows streams with `httpx2.AsyncClient`. All decisions are elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import httpx2

from rota.application.ports.system import System
from rota.client.call import Call, Reply
from rota.client.exchange import Done, Exchange
from rota.client.following import END, SILENCE, Following
from rota.client.http import check_hang_up, check_protocol, check_size, never_sent, request_of, trust_of
from rota.client.place import Place
from rota.wire.base import Page

T = TypeVar("T")


class AsyncWire:
    """One server, one pool of connections."""

    def __init__(self, place: Place, system: System, *, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self.place = place
        self._is_known = False  # that a server is there: one that has answered may hang up and be none the worse for it
        self.clock = system.clock
        self.random = system.random
        self._http = httpx2.AsyncClient(
            base_url=place.url,
            headers=place.headers,
            transport=transport,
            trust_env=not place.is_local,
            verify=trust_of(place),
        )

    async def send(self, call: Call[T]) -> T:
        """Send it, again where that is safe, and read the answer."""
        exchange = Exchange(call, self.place, random=self.random, now=self.clock.monotonic())
        while True:
            left = exchange.begin(self.clock.monotonic())
            try:
                reply = await self._send_once(call, left)
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
            await self.clock.sleep(pause)

    async def pages(self, ask: Callable[[str | None], Call[Page[T]]]) -> AsyncIterator[T]:
        """All items of a list, page after page."""
        cursor: str | None = None
        while True:
            page = await self.send(ask(cursor))
            for item in page.items:
                yield item
            if page.next_cursor is None or page.next_cursor == cursor:
                return
            cursor = page.next_cursor

    async def follow(self, stream: Following[T]) -> AsyncIterator[T]:
        """What a stream says, over all its connections; ends when the server says that it is over."""
        while True:
            try:
                async with self._connect(stream) as response:
                    if response.status_code != httpx2.codes.OK:
                        pause = stream.refused(await _read(response), now=self.clock.monotonic())
                    else:
                        stream.opened()
                        async for event in httpx2.EventSource(response):
                            if event.event == END:
                                return
                            if (item := stream.accept(event.event, event.data, id=event.id)) is not None:
                                yield item
                        pause = stream.broken(EOFError("the server closed it"), now=self.clock.monotonic())
            except httpx2.TransportError as exc:
                check_protocol(exc, self.place)
                if not (stream.was_open or self._is_known):
                    check_hang_up(exc, self.place)
                pause = stream.broken(exc, now=self.clock.monotonic())
            await self.clock.sleep(pause)

    def _connect(self, stream: Following[T]) -> AbstractAsyncContextManager[httpx2.Response]:
        timeout = httpx2.Timeout(self.place.timeout.total_seconds(), read=SILENCE.total_seconds())
        query = tuple(stream.call.query) or None
        return self._http.stream("GET", stream.call.path, params=query, headers=stream.headers, timeout=timeout)

    async def close(self) -> None:
        await self._http.aclose()

    async def _send_once(self, call: Call[T], seconds: float) -> Reply:
        request = request_of(self._http, call, seconds=seconds)
        async with asyncio.timeout(seconds):
            response = await self._http.send(request, stream=True)
            try:
                return await _read(response)
            finally:
                await response.aclose()


async def _read(response: httpx2.Response) -> Reply:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        check_size(body)
    return Reply(response.status_code, response.headers, bytes(body))
