"""Every fault of the proxy, proven against an echo server that remembers what it was sent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.proxy import LONGEST_MATCH, FaultyProxy

SILENCE_SECONDS = 0.1  # how long a client listens before we believe that nothing comes


class EchoServer:
    """Sends every line back, and remembers it in `received`."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes] = asyncio.Queue()
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["EchoServer"]:
        server = await asyncio.start_server(self._echo, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                self.received.put_nowait(line)
                writer.write(line)
                await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.close()


@pytest.fixture
async def echo() -> AsyncIterator[EchoServer]:
    async with EchoServer().running() as server:
        yield server


@pytest.fixture
async def proxy(echo: EchoServer) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy("127.0.0.1", echo.port) as running:
        yield running


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def receive(self) -> bytes:
        return await self._reader.readline()

    async def ask(self, line: bytes) -> bytes:
        self.send(line)
        return await self.receive()

    async def hears_nothing(self) -> bool:
        try:
            await asyncio.wait_for(self.receive(), SILENCE_SECONDS)
        except TimeoutError:
            return True
        return False

    async def is_disconnected(self) -> bool:
        try:
            return await self.receive() == b""
        except ConnectionError:
            return True


@asynccontextmanager
async def connected(proxy: FaultyProxy) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


async def test_a_healthy_proxy_forwards_both_ways(proxy: FaultyProxy) -> None:
    async with connected(proxy) as client:
        assert await client.ask(b"hello\n") == b"hello\n"


async def test_a_large_stream_arrives_whole(proxy: FaultyProxy, echo: EchoServer) -> None:
    line = b"x" * 50_000 + b"\n"
    async with connected(proxy) as client:
        for _ in range(20):
            assert await client.ask(line) == line
    assert echo.received.qsize() == 20


async def test_the_end_of_a_client_reaches_the_server_and_comes_back(proxy: FaultyProxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"last\n")
    writer.write_eof()
    assert await reader.read() == b"last\n"
    writer.close()


async def test_delay_holds_requests_and_replies(proxy: FaultyProxy) -> None:
    loop = asyncio.get_running_loop()
    async with connected(proxy) as client:
        proxy.delay(0.05)
        asked_at = loop.time()
        assert await client.ask(b"slow\n") == b"slow\n"
        assert loop.time() - asked_at >= 0.09  # once per direction, less the grain of the clock


async def test_heal_releases_what_a_delay_holds_and_loses_nothing(proxy: FaultyProxy, echo: EchoServer) -> None:
    async with connected(proxy) as client:
        proxy.delay(3600)
        client.send(b"stalled\n")
        assert await client.hears_nothing()
        assert echo.received.empty()
        proxy.heal()
        assert await client.receive() == b"stalled\n"


async def test_cut_ends_connections_and_refuses_new_ones_until_heal(proxy: FaultyProxy) -> None:
    async with connected(proxy) as client:
        await client.ask(b"before\n")
        proxy.cut()
        assert await client.is_disconnected()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", proxy.port)
    proxy.heal()
    async with connected(proxy) as client:
        assert await client.ask(b"after\n") == b"after\n"


async def test_cut_and_heal_in_one_breath_keep_the_port(proxy: FaultyProxy) -> None:
    for _ in range(5):
        proxy.cut()
        proxy.heal()
    async with connected(proxy) as client:
        assert await client.ask(b"still here\n") == b"still here\n"


async def test_blackhole_accepts_and_swallows_both_ways(proxy: FaultyProxy, echo: EchoServer) -> None:
    proxy.blackhole()
    async with connected(proxy) as client:
        client.send(b"lost\n")
        assert await client.hears_nothing()
        assert echo.received.empty()


async def test_heal_resets_a_connection_that_lost_bytes_and_keeps_one_that_did_not(proxy: FaultyProxy) -> None:
    async with connected(proxy) as quiet, connected(proxy) as talkative:
        await quiet.ask(b"1\n")
        await talkative.ask(b"1\n")
        proxy.blackhole()
        talkative.send(b"2\n")
        assert await talkative.hears_nothing()
        proxy.heal()
        assert await talkative.is_disconnected()
        assert await quiet.ask(b"3\n") == b"3\n"


async def test_dropped_replies_leave_the_request_done(proxy: FaultyProxy, echo: EchoServer) -> None:
    proxy.drop_replies()
    async with connected(proxy) as client:
        client.send(b"done\n")
        assert await echo.received.get() == b"done\n"
        assert await client.hears_nothing()


async def test_drop_reply_after_hides_one_answer_and_ends_its_connection(proxy: FaultyProxy, echo: EchoServer) -> None:
    happened = proxy.drop_reply_after(b"COMMIT")
    async with connected(proxy) as bystander, connected(proxy) as client:
        assert await client.ask(b"BEGIN\n") == b"BEGIN\n"
        assert not happened.is_set()
        client.send(b"COMMIT\n")
        await happened.wait()
        assert await client.is_disconnected()
        assert await bystander.ask(b"COMMIT\n") == b"COMMIT\n", "it works once"
    assert [echo.received.get_nowait() for _ in range(3)] == [b"BEGIN\n", b"COMMIT\n", b"COMMIT\n"]


async def test_a_match_split_over_two_chunks_is_seen(proxy: FaultyProxy, echo: EchoServer) -> None:
    happened = proxy.drop_reply_after(b"COM\nMIT")
    async with connected(proxy) as client:
        await client.ask(b"COM\n")
        client.send(b"MIT\n")
        await happened.wait()
        assert await client.is_disconnected()
    assert echo.received.qsize() == 2


async def test_what_is_no_reply_is_passed_on(proxy: FaultyProxy) -> None:
    happened = proxy.drop_reply_after(b"COMMIT", reply=b"done")
    async with connected(proxy) as client:
        assert await client.ask(b"COMMIT\n") == b"COMMIT\n"
        assert not happened.is_set()
        client.send(b"done\n")
        await happened.wait()
        assert await client.is_disconnected()


async def test_a_request_before_the_trap_was_set_does_not_spring_it(proxy: FaultyProxy) -> None:
    async with connected(proxy) as client:
        await client.ask(b"COMMIT\n")
        happened = proxy.drop_reply_after(b"COMMIT")
        assert await client.ask(b"BEGIN\n") == b"BEGIN\n"
        assert not happened.is_set()


@pytest.mark.parametrize("match", [b"", b"x" * (LONGEST_MATCH + 1)])
async def test_a_match_that_could_not_be_seen_is_refused(proxy: FaultyProxy, match: bytes) -> None:
    with pytest.raises(ValueError, match="match must have"):
        proxy.drop_reply_after(match)


async def test_a_dead_server_resets_the_client() -> None:
    async with EchoServer().running() as echo:
        port = echo.port
    async with FaultyProxy("127.0.0.1", port) as proxy, connected(proxy) as client:
        assert await client.is_disconnected()


async def test_leaving_ends_every_connection_and_task(echo: EchoServer) -> None:
    before = asyncio.all_tasks()
    async with FaultyProxy("127.0.0.1", echo.port) as proxy:
        proxy.blackhole()
        clients = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(5)]
        for _, writer in clients:
            writer.write(b"lost\n")
            writer.write_eof()
    assert proxy.connections == 0
    assert not [task for task in asyncio.all_tasks() - before if task.get_name().startswith("faulty-proxy")]
    for reader, writer in clients:
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        writer.close()
