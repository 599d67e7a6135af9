"""Servers that misbehave below gRPC: they speak just enough HTTP/2 to do harm."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

PREFACE = 24  # bytes that a client begins with
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM = 0, 2, 7


def frame(kind: int, payload: bytes, *, stream: int = 0, flags: int = 0) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


@dataclass(slots=True)
class Peer:
    """One connection of a client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    seen: list[int] = field(default_factory=list)

    async def read_call(self) -> int:
        """Take part in the handshake until a call comes; its stream."""
        await self.reader.readexactly(PREFACE)
        self.writer.write(frame(SETTINGS, b""))
        while True:
            head = await self.reader.readexactly(9)
            await self.reader.readexactly(int.from_bytes(head[:3]))
            if head[3] == SETTINGS and not head[4] & 1:
                self.writer.write(frame(SETTINGS, b"", flags=1))
            if head[3] == HEADERS:
                stream = int.from_bytes(head[5:9]) & 0x7FFFFFFF
                self.seen.append(stream)
                return stream

    async def wait_for_end(self) -> None:
        while await self.reader.read(65536):
            pass


Behaviour = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def a_hostile_server(behave: Behaviour) -> AsyncIterator[tuple[str, list[int]]]:
    """Its address, and the calls that came in over all connections."""
    calls: list[int] = []

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behave(Peer(reader, writer, calls))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"{host}:{port}", calls
    finally:
        server.close()


async def say_nothing(peer: Peer) -> None:
    await peer.wait_for_end()


async def hang(peer: Peer) -> None:
    await peer.read_call()
    await peer.wait_for_end()


async def hang_up(peer: Peer) -> None:
    await peer.read_call()
    peer.writer.transport.abort()


async def hang_up_at_once(peer: Peer) -> None:
    peer.writer.transport.abort()


def go_away(error: int, *, last: int) -> Behaviour:
    async def behave(peer: Peer) -> None:
        await peer.read_call()
        peer.writer.write(frame(GOAWAY, last.to_bytes(4) + error.to_bytes(4)))
        await peer.writer.drain()

    return behave


def reset(error: int) -> Behaviour:
    async def behave(peer: Peer) -> None:
        stream = await peer.read_call()
        peer.writer.write(frame(RST_STREAM, error.to_bytes(4), stream=stream))
        await peer.wait_for_end()

    return behave


async def speak_http_1(peer: Peer) -> None:
    await peer.reader.read(PREFACE)
    peer.writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n")
    await peer.writer.drain()


async def speak_nonsense(peer: Peer) -> None:
    stream = await peer.read_call()
    peer.writer.write(frame(HEADERS, b"\xff" * 50, stream=stream, flags=4) + b"\x00\xff" * 500)
    await peer.wait_for_end()


async def answer_without_headers(peer: Peer) -> None:
    stream = await peer.read_call()
    peer.writer.write(frame(DATA, b"\x00" * 5, stream=stream, flags=1))
    await peer.wait_for_end()
