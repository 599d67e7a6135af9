"""The Redis client under fire: nothing is sent twice, no answer reaches the wrong caller, every silence ends."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from secrets import token_hex
from typing import Any

import pytest
from redis.asyncio import Connection
from redis.exceptions import ConnectionError as RedisConnectionError

from rota.application.ports.metrics import NO_METRICS
from rota.domain.errors import ConfigError, CoordinatorUnavailableError
from rota.infrastructure.coordination.redis_client import RedisClient, RedisOptions, load_script
from rota.infrastructure.coordination.redis_wire import open_wire
from rota.infrastructure.pool_meter import PoolMeter
from tests.support.patience import PATIENT_REDIS
from tests.support.proxy import FaultyProxy
from tests.support.require import require_server
from tests.support.servers.redis import RedisServer

LONG = timedelta(seconds=20)
QUICK = RedisOptions(answer_within=timedelta(milliseconds=200), longest_block=timedelta(milliseconds=100))
PATIENT = replace(QUICK, answer_within=LONG)
TIGHT = RedisOptions(answer_within=timedelta(seconds=2), blocking_connections=2)


@pytest.fixture
def key() -> str:
    return f"client-{token_hex(8)}"


@pytest.fixture
async def direct(redis_server: RedisServer) -> AsyncIterator[RedisClient]:
    """A client that always reaches the server: what it sees is true."""
    client = RedisClient(redis_server.url(), PATIENT_REDIS)
    yield client
    await client.close()


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy("127.0.0.1", redis_server.port) as running:
        yield running


@pytest.fixture
async def client(proxy: FaultyProxy) -> AsyncIterator[RedisClient]:
    """The client under test, behind the proxy. Its deadline is far away, since a busy machine may take its time."""
    client = RedisClient(f"redis://127.0.0.1:{proxy.port}/0", PATIENT)
    yield client
    await client.close()


@contextmanager
def hurried(client: RedisClient) -> Iterator[None]:
    """While it waits for what will not come."""
    client._options = QUICK
    yield
    client._options = PATIENT


async def read_when_written(direct: RedisClient, key: str) -> bytes:
    """What was sent may be done a moment after its sender has given up."""
    async with asyncio.timeout(LONG.total_seconds()):
        while (value := await direct.command("GET", key)) is None:
            pass
    return bytes(value)


async def reach(client: RedisClient) -> None:
    """Ask until there is an answer."""
    async with asyncio.timeout(LONG.total_seconds()):
        while True:
            with suppress(CoordinatorUnavailableError):
                await client.command("PING")
                return


@pytest.fixture
def private_server() -> Iterator[RedisServer]:
    """For tests that change how the server behaves."""
    require_server("redis")
    with RedisServer() as server:
        yield server


@pytest.fixture
async def private_client(private_server: RedisServer) -> AsyncIterator[RedisClient]:
    client = RedisClient(private_server.url(), PATIENT_REDIS)
    yield client
    await client.close()


@pytest.fixture
async def tight_client(redis_server: RedisServer) -> AsyncIterator[RedisClient]:
    """With only two connections for calls that block."""
    client = RedisClient(redis_server.url(), TIGHT)
    yield client
    await client.close()


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_command_whose_reply_is_lost_is_executed_once(
    client: RedisClient, direct: RedisClient, proxy: FaultyProxy, key: str
) -> None:
    lost = proxy.drop_reply_after(b"INCR")
    with pytest.raises(CoordinatorUnavailableError):
        await client.command("INCR", key)
    assert lost.is_set()
    assert await direct.command("GET", key) == b"1"


async def test_a_script_whose_reply_is_lost_is_executed_once(
    client: RedisClient, direct: RedisClient, proxy: FaultyProxy, key: str
) -> None:
    await client.command("PING")
    lost = proxy.drop_reply_after(key.encode())
    script = load_script("wake")
    await direct.run(script, keys=[f"{key}:warm"])  # the server knows it now
    with pytest.raises(CoordinatorUnavailableError):
        await client.run(script, keys=[key])
    assert lost.is_set()
    assert await direct.command("LLEN", key) == 1


async def test_a_batch_whose_reply_is_lost_is_executed_once(
    client: RedisClient, direct: RedisClient, proxy: FaultyProxy, key: str
) -> None:
    lost = proxy.drop_reply_after(key.encode())
    with pytest.raises(CoordinatorUnavailableError):
        await client.batch([["INCR", key], ["INCR", key]], atomic=True)
    assert lost.is_set()
    assert await direct.command("GET", key) == b"2"


async def test_a_command_that_gets_no_answer_is_executed_once(
    client: RedisClient, direct: RedisClient, proxy: FaultyProxy, key: str
) -> None:
    await client.command("PING")
    proxy.drop_replies()
    with hurried(client), pytest.raises(CoordinatorUnavailableError, match="no answer in time"):
        await client.command("INCR", key)
    assert await read_when_written(direct, key) == b"1"


async def test_a_client_works_again_as_soon_as_the_network_does(client: RedisClient, proxy: FaultyProxy) -> None:
    for break_network in (proxy.blackhole, proxy.cut, proxy.drop_replies):
        break_network()
        with hurried(client), pytest.raises(CoordinatorUnavailableError):
            await client.command("PING")
        proxy.heal()
        assert await client.command("ECHO", "back") == b"back"


async def test_a_server_that_is_down_is_unavailable(client: RedisClient, proxy: FaultyProxy, key: str) -> None:
    proxy.cut()
    with pytest.raises(CoordinatorUnavailableError):
        await client.command("PING")
    with pytest.raises(CoordinatorUnavailableError):
        await client.run(load_script("wake"), keys=[key])
    with pytest.raises(CoordinatorUnavailableError):
        await client.batch([["PING"]])
    with pytest.raises(CoordinatorUnavailableError):
        await client.wait_for_token(key, LONG)
    with pytest.raises(CoordinatorUnavailableError):
        async with client.listen(key):
            pass


def start_calls(client: RedisClient, key: str) -> list[asyncio.Task[Any]]:
    calls: list[Coroutine[Any, Any, Any]] = [client.command("ECHO", f"early-{number}") for number in range(20)]
    calls += [client.batch([["ECHO", f"early-{number}"]]) for number in range(20)]
    calls += [client.run(load_script("renew"), keys=[key], args=["node", "1", "1000"]) for _ in range(20)]
    calls += [client.wait_for_token(key, LONG) for _ in range(20)]
    return [asyncio.create_task(call) for call in calls]


async def test_after_cancelled_calls_every_caller_gets_its_own_answer(
    client: RedisClient, proxy: FaultyProxy, key: str
) -> None:
    await asyncio.gather(*(client.command("ECHO", "warm") for _ in range(20)))
    proxy.delay(0.02)
    for _ in range(3):
        calls = start_calls(client, key)
        await asyncio.wait(calls, timeout=0.03)  # some are connecting, some have been sent, some are done
        await cancel(*calls)
        nonces = [token_hex(8).encode() for _ in range(40)]
        assert await asyncio.gather(*(client.command("ECHO", nonce) for nonce in nonces)) == nonces
        batches = await asyncio.gather(*(client.batch([["ECHO", nonce]]) for nonce in nonces))
        assert batches == [[nonce] for nonce in nonces]


async def test_the_answer_to_a_cancelled_call_reaches_nobody(client: RedisClient, proxy: FaultyProxy) -> None:
    connection = await client.command("CLIENT", "ID")
    proxy.delay(0.05)
    call = asyncio.create_task(client.command("ECHO", "old"))
    await asyncio.wait([call], timeout=0.01)
    await cancel(call)
    assert await client.command("ECHO", "new") == b"new"
    assert await client.command("CLIENT", "ID") == connection, "the others are not disturbed"


async def test_calls_that_are_made_at_once_share_a_connection(client: RedisClient) -> None:
    assert len(set(await asyncio.gather(*(client.command("CLIENT", "ID") for _ in range(20))))) == 1


async def test_when_one_gets_no_answer_in_time_all_connect_anew(client: RedisClient, proxy: FaultyProxy) -> None:
    before = await client.command("CLIENT", "ID")
    proxy.drop_replies()
    with hurried(client), pytest.raises(CoordinatorUnavailableError, match="no answer in time"):
        await client.command("PING")
    proxy.heal()
    assert await client.command("CLIENT", "ID") != before


async def test_a_large_batch_and_small_calls_beside_it_all_get_their_own(client: RedisClient, key: str) -> None:
    large: list[list[str | int]] = [["SET", f"{key}:{number}", "x" * 10_000, "EX", 60] for number in range(500)]
    batch, *echoes = await asyncio.gather(client.batch(large), *(client.command("ECHO", n) for n in range(50)))
    assert batch == [b"OK"] * 500
    assert echoes == [str(n).encode() for n in range(50)]


async def test_an_atomic_batch_with_a_refused_command_is_told(client: RedisClient, key: str) -> None:
    with pytest.raises(CoordinatorUnavailableError, match="not an integer"):
        await client.batch([["SET", key, "text"], ["INCR", key]], atomic=True)


async def test_cancelled_waits_give_their_place_back(tight_client: RedisClient, direct: RedisClient, key: str) -> None:
    for _ in range(20):
        calls = [asyncio.create_task(tight_client.wait_for_token(key, LONG)) for _ in range(10)]
        await asyncio.wait(calls, timeout=0.001)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls, timeout=0)
        await cancel(*calls)  # once more, while they clean up
    both = [asyncio.create_task(tight_client.wait_for_token(key, LONG)) for _ in range(2)]
    while len(await _list_blocked(direct)) < len(both):
        assert not any(call.done() for call in both)
    await direct.command("RPUSH", key, 1, 2)
    assert await asyncio.gather(*both) == [True, True]


async def _list_blocked(direct: RedisClient) -> list[bytes]:
    clients: bytes = await direct.command("CLIENT", "LIST")
    return [line for line in clients.splitlines() if b"cmd=blpop" in line]


async def test_a_pool_that_is_used_up_is_unavailable_and_then_recovers(
    tight_client: RedisClient, direct: RedisClient, key: str
) -> None:
    waiting = [asyncio.create_task(tight_client.wait_for_token(key, LONG)) for _ in range(2)]
    while len(await _list_blocked(direct)) < len(waiting):
        pass
    with pytest.raises(CoordinatorUnavailableError):
        await tight_client.wait_for_token(key, timedelta(milliseconds=20))
    assert await tight_client.command("PING"), "calls that block take nothing from those that do not"
    await direct.command("RPUSH", key, 1, 2)
    assert await asyncio.gather(*waiting) == [True, True]
    assert not await tight_client.wait_for_token(key, timedelta(milliseconds=20))


async def test_a_long_wait_is_served_in_its_later_pieces_too(
    client: RedisClient, direct: RedisClient, key: str
) -> None:
    waiting = asyncio.create_task(client.wait_for_token(key, LONG))
    await asyncio.wait([waiting], timeout=2.5 * QUICK.longest_block.total_seconds())
    await direct.command("RPUSH", key, 1)
    assert await waiting


async def test_a_server_that_falls_silent_ends_a_wait(client: RedisClient, proxy: FaultyProxy, key: str) -> None:
    with hurried(client):
        waiting = asyncio.create_task(client.wait_for_token(key, LONG))
        await asyncio.wait([waiting], timeout=0.05)
        proxy.blackhole()
        with pytest.raises(CoordinatorUnavailableError):
            await waiting


async def test_a_wait_does_not_wait_to_connect(proxy: FaultyProxy, key: str) -> None:
    patient = RedisClient(f"redis://127.0.0.1:{proxy.port}/0", replace(QUICK, longest_block=LONG))
    proxy.blackhole()
    with pytest.raises(CoordinatorUnavailableError):
        await asyncio.wait_for(patient.wait_for_token(key, LONG), LONG.total_seconds() / 2)
    proxy.heal()
    await patient.close()


async def test_a_script_is_found_again_after_the_server_forgot_it(private_client: RedisClient, key: str) -> None:
    script = load_script("wake")
    for _ in range(2):
        await private_client.command("SCRIPT", "FLUSH")
        await private_client.run(script, keys=[key])
        assert await private_client.command("SCRIPT", "EXISTS", script.sha) == [1]
    assert await private_client.command("LLEN", key) == 1


async def test_a_replica_is_unavailable_and_its_connections_are_dropped(private_client: RedisClient, key: str) -> None:
    connection = await private_client.command("CLIENT", "ID")
    await private_client.command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(CoordinatorUnavailableError, match="read only"):
        await private_client.run(load_script("wake"), keys=[key])
    assert await private_client.command("CLIENT", "ID") != connection
    await private_client.command("REPLICAOF", "NO", "ONE")
    await private_client.run(load_script("wake"), keys=[key])


async def test_a_server_out_of_memory_is_unavailable(private_client: RedisClient, key: str) -> None:
    await private_client.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(CoordinatorUnavailableError, match="maxmemory"):
        await private_client.run(load_script("wake"), keys=[key])
    await private_client.command("CONFIG", "SET", "maxmemory", "0")
    await private_client.run(load_script("wake"), keys=[key])


async def test_a_client_survives_a_restart_of_the_server(
    private_server: RedisServer, private_client: RedisClient
) -> None:
    await private_client.command("PING")
    private_server.kill()
    with pytest.raises(CoordinatorUnavailableError):
        await private_client.command("PING")
    private_server.start()
    assert await private_client.command("ECHO", "back") == b"back"


async def test_messages_arrive_in_order(client: RedisClient, direct: RedisClient, key: str) -> None:
    async with client.listen(key) as messages:
        for number in range(3):
            await direct.command("PUBLISH", key, number)
        assert [await anext(messages) for _ in range(3)] == [b"0", b"1", b"2"]


async def test_a_quiet_channel_is_not_taken_for_a_lost_connection(
    redis_server: RedisServer, direct: RedisClient, key: str
) -> None:
    client = RedisClient(redis_server.url(), replace(PATIENT, longest_block=timedelta(seconds=1)))
    async with client.listen(key) as messages:
        message, before = asyncio.ensure_future(anext(messages)), await count_pings(direct)
        while await count_pings(direct) < before + 2:  # after the second silence, so the first sign of life was heard
            await asyncio.wait([message], timeout=0.05)
        await direct.command("PUBLISH", key, "at last")
        assert await message == b"at last"
    await client.close()


async def count_pings(direct: RedisClient) -> int:
    told: bytes = await direct.command("INFO", "commandstats")
    return int(told.partition(b"cmdstat_ping:calls=")[2].partition(b",")[0] or 0)


async def test_a_lost_connection_ends_the_messages(client: RedisClient, proxy: FaultyProxy, key: str) -> None:
    for break_network in (proxy.cut, proxy.blackhole):
        async with client.listen(key) as messages:
            break_network()
            with pytest.raises(CoordinatorUnavailableError):
                await anext(messages)
        proxy.heal()


async def test_who_waits_when_the_client_is_closed_gets_an_error(redis_server: RedisServer, key: str) -> None:
    client = RedisClient(redis_server.url(), PATIENT_REDIS)
    waiting = asyncio.create_task(client.wait_for_token(key, LONG))
    await asyncio.wait([waiting], timeout=0.05)
    await client.close()
    with pytest.raises(CoordinatorUnavailableError):
        await waiting


async def test_a_closed_client_connects_no_more(redis_server: RedisServer) -> None:
    client = RedisClient(redis_server.url(), PATIENT_REDIS)
    await client.command("PING")
    await client.close()
    with pytest.raises(CoordinatorUnavailableError, match="closed"):
        await client.command("PING")


async def test_a_connection_that_is_closed_at_once_is_gone(redis_server: RedisServer) -> None:
    connection = Connection(host="127.0.0.1", port=redis_server.port)
    wire = await open_wire(connection, PoolMeter(NO_METRICS, server="coordinator", pool="shared", limit=1))
    await wire.end()
    assert not connection.is_connected


async def test_what_is_asked_in_one_turn_of_the_loop_goes_in_one_piece(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Connection(host="127.0.0.1", port=redis_server.port)
    wire = await open_wire(connection, PoolMeter(NO_METRICS, server="coordinator", pool="shared", limit=1))
    writer, sent = connection._writer, list[int]()
    assert writer is not None
    write = writer.writelines

    def count(pieces: list[bytes]) -> None:
        sent.append(len(pieces))
        write(pieces)

    monkeypatch.setattr(writer, "writelines", count)
    answers = await asyncio.gather(*(wire.ask([("ECHO", word)]) for word in "abc"))
    await wire.end()
    assert (answers, len(sent)) == ([[b"a"], [b"b"], [b"c"]], 1)


async def test_who_asks_on_a_connection_that_broke_just_now_gets_an_error(redis_server: RedisServer) -> None:
    connection = Connection(host="127.0.0.1", port=redis_server.port)
    wire = await open_wire(connection, PoolMeter(NO_METRICS, server="coordinator", pool="shared", limit=1))
    assert connection._writer is not None
    connection._writer.close()
    with pytest.raises(RedisConnectionError):
        await wire.ask([("PING",)])
    await wire.end()


async def test_a_large_answer_aside_keeps_nobody_waiting(client: RedisClient, direct: RedisClient, key: str) -> None:
    await direct.command("SET", key, "x" * 1_000_000, "EX", 60)
    shared = await client.command("CLIENT", "ID")
    assert len(await client.command_aside("GET", key)) == 1_000_000
    assert await client.command_aside("CLIENT", "ID") != shared


def test_a_url_that_is_none_says_what_to_write() -> None:
    with pytest.raises(ConfigError, match="redis://"):
        RedisClient("localhost:6379")


async def test_a_url_cannot_bring_the_retries_back(proxy: FaultyProxy, direct: RedisClient, key: str) -> None:
    client = RedisClient(f"redis://127.0.0.1:{proxy.port}/0?retry_on_timeout=true&socket_timeout=0.05", PATIENT)
    proxy.drop_replies()
    with hurried(client), suppress(CoordinatorUnavailableError):
        await client.command("PING")
    proxy.heal()
    await reach(client)  # a busy machine may take longer than the url allows
    proxy.drop_replies()
    with hurried(client), pytest.raises(CoordinatorUnavailableError):
        await client.command("INCR", key)
    assert await read_when_written(direct, key) == b"1"
    proxy.heal()
    await client.close()


@pytest.mark.parametrize("login", ["", ":wrong@", "nobody:wrong@"])
async def test_a_login_that_is_refused_is_told_as_that(login: str) -> None:
    require_server("redis")
    with RedisServer(options=("--requirepass", "secret")) as server:
        client = RedisClient(f"redis://{login}127.0.0.1:{server.port}/0", PATIENT_REDIS)
        with pytest.raises(CoordinatorUnavailableError, match="another user or password than the url has"):
            await client.command("PING")
        await client.close()
