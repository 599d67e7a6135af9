"""A TCP proxy that misbehaves on demand, to put between a client and a real server.

Faults are switched while connections are open and hold until `heal()`. Each one is a story of its own:

| fault | what the client sees | what the server sees |
|---|---|---|
| `delay(s)` | every chunk, both ways, held for `s`: latency, with a window of one chunk | the same |
| `cut()` | open connections reset, new ones refused | its clients are gone |
| `blackhole()` | connects, then silence | connects, then silence |
| `drop_replies()` | silence | requests arrive and are executed |
| `drop_reply_after(m)` | one reply never comes, the connection ends | the request arrives and is executed |

Where a server says more than replies (HTTP/2 tells what it has read), `drop_reply_after` must be told what is in one.

TCP never loses a piece of a stream and goes on, so neither does the proxy: a connection that had bytes swallowed is
reset by `heal()`, not continued with a hole in it. A delayed connection loses nothing and goes on.

Sockets are used directly rather than through asyncio streams: the listener can then be closed and reopened on its
port without awaiting, and at most one chunk per direction is ever held in memory.
"""

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from tests.support.servers.process import free_port

CHUNK_BYTES = 64 * 1024
LONGEST_MATCH = 256  # bytes of the last request chunk remembered, to see a match that two chunks share
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds


@dataclass(frozen=True, slots=True)
class _Trap:
    match: bytes
    reply: bytes
    sprung: asyncio.Event


@dataclass(eq=False, slots=True)
class _Link:
    """One client's connection and the one we opened to the server for it."""

    client: socket.socket
    server: socket.socket
    last_request: bytes = b""
    has_lost_bytes: bool = False
    is_broken: bool = False  # one of its ends failed
    trap: _Trap | None = None  # set by a matching request; its reply, and what comes after that, is swallowed

    def request_completes(self, match: bytes, chunk: bytes) -> bool:
        """Whether `match` ends within this chunk; one that lies wholly in the past does not count."""
        past = self.last_request[-(len(match) - 1) :] if len(match) > 1 else b""
        return match in past + chunk

    def close(self, *, reset: bool) -> None:
        for end in (self.client, self.server):
            if reset:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            end.close()


class FaultyProxy:
    """Forwards `127.0.0.1:port` to a server. Use with `async with`; its methods only from that event loop."""

    def __init__(self, host: str, port: int) -> None:
        self.port = free_port()
        self._target = (host, port)
        self._listener: socket.socket | None = None
        self._links: dict[asyncio.Task[None], _Link] = {}
        self._delay_seconds = 0.0
        self._swallows_requests = False
        self._swallows_replies = False
        self._trap: _Trap | None = None
        self._healed = asyncio.Event()  # replaced at every heal; ends the delays that are under way

    async def __aenter__(self) -> Self:
        self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._refuse()
        ending = list(self._links)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    @property
    def connections(self) -> int:
        return len(self._links)

    def lead_to(self, port: int) -> None:
        """Connect whoever comes from now on to another server, as the DNS would; who is connected stays."""
        self._target = (self._target[0], port)

    def delay(self, seconds: float) -> None:
        """Hold every chunk for this long. A very long delay is a stalled network that loses nothing."""
        self._delay_seconds = seconds

    def cut(self) -> None:
        """Reset all connections and refuse new ones."""
        self._refuse()
        for task in self._links:
            task.cancel()

    def blackhole(self) -> None:
        """Accept connections and bytes, and let none of them through, either way."""
        self._swallows_requests = self._swallows_replies = True

    def drop_replies(self) -> None:
        """Let requests through and swallow all replies."""
        self._swallows_replies = True

    def drop_reply_after(self, match: bytes, *, reply: bytes = b"") -> asyncio.Event:
        """Swallow the reply to the next request that contains `match`, then end that connection. Works once.

        The reply is the first chunk from then on that contains `reply`; those before it are passed on.
        The event is set when the reply was swallowed: the server has done the work, and the client will not know.
        """
        if not 0 < len(match) <= LONGEST_MATCH:
            problem = f"match must have 1 to {LONGEST_MATCH} bytes, not {len(match)}"
            raise ValueError(problem)
        self._trap = _Trap(match, reply, asyncio.Event())
        return self._trap.sprung

    def heal(self) -> None:
        """Behave again. Connections that lost bytes are reset; the others go on."""
        self._delay_seconds = 0.0
        self._swallows_requests = self._swallows_replies = False
        self._trap = None
        self._healed.set()
        self._healed = asyncio.Event()
        for task, link in self._links.items():
            if link.has_lost_bytes:
                task.cancel()
        if self._listener is None:
            self._listen()

    def _listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def _refuse(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # the client left before we came
        client.setblocking(False)
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.setblocking(False)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = _Link(client, server)
        task = asyncio.create_task(self._serve(link), name=f"faulty-proxy-{self.port}")
        self._links[task] = link
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        # Closed here, not in the task: a task cancelled before its first step never runs a line of its own.
        link = self._links.pop(task)
        link.close(reset=task.cancelled() or link.is_broken)

    async def _serve(self, link: _Link) -> None:
        try:
            await asyncio.get_running_loop().sock_connect(link.server, self._target)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump_requests(link))
                pumps.create_task(self._pump_replies(link))
        except* OSError:
            link.is_broken = True

    async def _pump_requests(self, link: _Link) -> None:
        loop = asyncio.get_running_loop()
        while chunk := await loop.sock_recv(link.client, CHUNK_BYTES):
            await self._hold()
            if self._swallows_requests:
                link.has_lost_bytes = True
                continue
            self._spring_trap(link, chunk)  # before forwarding, or the reply might come first
            await loop.sock_sendall(link.server, chunk)
        await self._end_half(link, link.server, is_swallowed=self._swallows_requests)

    async def _pump_replies(self, link: _Link) -> None:
        loop = asyncio.get_running_loop()
        while chunk := await loop.sock_recv(link.server, CHUNK_BYTES):
            await self._hold()
            if link.trap is not None and (link.trap.sprung.is_set() or link.trap.reply in chunk):
                self._withhold_reply(link, link.trap)
            elif self._swallows_replies:
                link.has_lost_bytes = True
            else:
                await loop.sock_sendall(link.client, chunk)
        await self._end_half(link, link.client, is_swallowed=self._swallows_replies and link.trap is None)

    def _spring_trap(self, link: _Link, chunk: bytes) -> None:
        if self._trap is not None and link.request_completes(self._trap.match, chunk):
            link.trap, self._trap = self._trap, None
        link.last_request = (link.last_request + chunk)[-LONGEST_MATCH:]

    def _withhold_reply(self, link: _Link, trap: _Trap) -> None:
        # Only the client is hung up on. The request pump then passes the end of the stream on, and the server reads
        # what it was sent to the last byte; a reset might make it throw away requests it has not read yet.
        trap.sprung.set()
        with suppress(OSError):
            link.client.shutdown(socket.SHUT_RDWR)

    async def _end_half(self, link: _Link, destination: socket.socket, *, is_swallowed: bool) -> None:
        await self._hold()
        if is_swallowed:
            link.has_lost_bytes = True
            await asyncio.Event().wait()  # the end is lost too: silence until heal, cut or exit cancels this
        with suppress(OSError):
            destination.shutdown(socket.SHUT_WR)

    async def _hold(self) -> None:
        if self._delay_seconds > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._healed.wait(), self._delay_seconds)
