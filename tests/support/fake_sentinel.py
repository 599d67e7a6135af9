"""A Sentinel that says what a test wants: who is primary by its word, right or wrong."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.servers.process import free_port


@asynccontextmanager
async def a_sentinel(*, names: int) -> AsyncIterator[int]:
    """Its port, while it answers every question with the server at this port of loopback."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        while line := await reader.readline():
            words = [await _read_word(reader) for _ in range(int(line[1:]))]
            is_question = words[0] == b"SENTINEL"
            writer.write(_spell(b"127.0.0.1", str(names).encode()) if is_question else b"+OK\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", free_port())
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()


async def _read_word(reader: asyncio.StreamReader) -> bytes:
    length = int((await reader.readline())[1:])
    return (await reader.readexactly(length + 2))[:-2]


def _spell(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
