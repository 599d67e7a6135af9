"""A Redis behind Sentinels: who is asked, what a failover ends at once, and what it may have lost."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from secrets import token_hex

import pytest

from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.priority import NORMAL
from rota.domain.queue import QueueEntry
from rota.infrastructure.coordination.redis.coordinator import redis_coordinator
from rota.infrastructure.coordination.redis_client import RedisClient, RedisOptions
from rota.testing.contract.coordinator_backend import make_entries, make_ids, make_pages
from tests.support.certificates import make_certificate
from tests.support.cluster import eventually
from tests.support.fake_sentinel import a_sentinel
from tests.support.patience import PATIENCE_S, PATIENT_REDIS
from tests.support.require import require_server
from tests.support.servers.process import free_port, wait_for
from tests.support.servers.redis import RedisServer, ask
from tests.support.servers.redis_sentinel import QUICK, SERVICE, RedisSentinels

LONG = timedelta(seconds=PATIENCE_S)
WAITING_LONG = RedisOptions(longest_block=LONG)


@pytest.fixture
def servers() -> Iterator[RedisSentinels]:
    """For tests that hurt them."""
    require_server("redis")
    with RedisSentinels(down_after=QUICK) as running:
        yield running


@pytest.fixture
def pair() -> Iterator[tuple[RedisServer, RedisServer]]:
    """A primary and its replica, without anybody who watches over them."""
    require_server("redis")
    with RedisServer(options=("--repl-diskless-sync-delay", "0")) as primary:
        follow = ("--replicaof", "127.0.0.1", str(primary.port))
        with RedisServer(options=follow) as replica:
            wait_for(lambda: b"state=online" in ask(primary.port, "INFO", "replication"), "the replica to follow")
            yield primary, replica


@asynccontextmanager
async def a_client(url: str, options: RedisOptions = PATIENT_REDIS) -> AsyncIterator[RedisClient]:
    client = RedisClient(url, options)
    try:
        yield client
    finally:
        await client.close()


async def find_blocked(client: RedisClient) -> bool | None:
    return True if b"blocked_clients:1" in await client.command("INFO", "clients") else None


async def works_again(client: RedisClient) -> None:
    async def look() -> bool | None:
        await client.command("SET", f"again-{token_hex(4)}", 1)
        return True

    await eventually(look, "the new primary to take a write")


async def test_a_frozen_primary_is_left_when_sentinels_say_so(servers: RedisSentinels) -> None:
    """Nothing breaks the connections to it, and their own deadlines are a minute away."""
    async with a_client(servers.url(), WAITING_LONG) as client, client.listen("news") as messages:
        waiting = asyncio.create_task(client.wait_for_token("token", LONG))
        listening = asyncio.ensure_future(anext(messages))
        await eventually(lambda: find_blocked(client), "the wait to have begun")
        old = servers.primary
        old.pause()
        for ended in (waiting, listening):
            with pytest.raises(CoordinatorUnavailableError):
                await asyncio.wait_for(ended, PATIENCE_S / 2)
        await works_again(client)
        assert servers.primary is not old
        async with client.listen("news") as others:
            await client.command("PUBLISH", "news", "good")
            assert await anext(others) == b"good"
        old.resume()


async def test_a_primary_that_was_demoted_is_not_asked_any_more(servers: RedisSentinels) -> None:
    async with a_client(servers.url()) as client:
        await client.command("SET", "key", 1)
        await asyncio.to_thread(servers.fail_over)
        await works_again(client)
        assert b"role:master" in await client.command("INFO", "replication")


async def test_a_client_does_without_most_of_the_sentinels(redis_sentinels: RedisSentinels) -> None:
    one = redis_sentinels.sentinels[0].port
    url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{one},127.0.0.1:{free_port()}/{SERVICE}"
    async with a_client(url) as client:
        assert await client.command("PING") == b"PONG"


async def test_without_a_sentinel_it_is_told_what_was_wrong_with_each(redis_sentinels: RedisSentinels) -> None:
    dead, one = free_port(), redis_sentinels.sentinels[0].port
    async with a_client(f"redis+sentinel://127.0.0.1:{dead},127.0.0.1:{one}/other") as client:
        with pytest.raises(CoordinatorUnavailableError) as caught:
            await client.command("PING")
    assert "no primary of 'other'" in str(caught.value)
    assert f"127.0.0.1:{one}: watches no such service" in str(caught.value)
    assert f"127.0.0.1:{dead}: " in str(caught.value)


async def test_a_sentinel_that_is_taken_for_a_redis_says_which_url_it_wants(redis_sentinels: RedisSentinels) -> None:
    async with a_client(f"redis://127.0.0.1:{redis_sentinels.sentinels[0].port}") as client:
        with pytest.raises(CoordinatorUnavailableError, match=r"this is a Sentinel.*redis\+sentinel://") as caught:
            await client.command("HGET", "key", "field")
    assert "redis+sentinel://" in caught.value.fix


async def test_a_server_that_takes_itself_for_a_replica_is_not_used(redis_sentinels: RedisSentinels) -> None:
    replica = redis_sentinels.replicas[0]
    async with a_sentinel(names=replica.port) as port, a_client(f"redis+sentinel://127.0.0.1:{port}/x") as client:
        with pytest.raises(CoordinatorUnavailableError, match=f"127.0.0.1:{replica.port}: is a replica"):
            await client.command("PING")


async def test_the_server_that_most_sentinels_name_is_used(redis_sentinels: RedisSentinels) -> None:
    primary, dead = redis_sentinels.primary.port, free_port()
    async with AsyncExitStack() as stack:
        ports = [await stack.enter_async_context(a_sentinel(names=port)) for port in (dead, primary, primary)]
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        client = await stack.enter_async_context(a_client(f"redis+sentinel://{servers}/x"))
        assert await client.command("PING") == b"PONG"


async def test_nodes_and_sentinels_have_passwords_of_their_own() -> None:
    require_server("redis")
    with RedisSentinels(password="of-nodes", sentinel_password="of-sentinels", replicas=1) as servers:
        async with a_client(servers.url()) as client:
            assert await client.command("PING") == b"PONG"
        for wrong in ("of-nodes", "of-sentinels"):
            async with a_client(servers.url().replace(wrong, "guessed")) as client:
                with pytest.raises(CoordinatorUnavailableError) as caught:
                    await client.command("PING")
                assert "password" in str(caught.value)
                assert not any(secret in str(caught.value) for secret in ("guessed", "of-nodes", "of-sentinels"))


async def test_nodes_may_have_tls_where_sentinels_have_none(tmp_path: Path) -> None:
    require_server("redis")
    port, files = free_port(), make_certificate(tmp_path)
    server = RedisServer(options=("--tls-port", str(port), "--tls-auth-clients", "no", *_certified("cert.pem")))
    for file in files:
        shutil.copy(file, server.directory)
        (server.directory / file.name).chmod(0o644)
    with server:
        async with a_sentinel(names=port) as sentinel:
            url = f"rediss+sentinel://127.0.0.1:{sentinel}/x?sentinel_tls=false"
            async with a_client(f"{url}&ca={files[0]}") as client:
                assert await client.command("PING") == b"PONG"
            async with a_client(url) as client:
                with pytest.raises(CoordinatorUnavailableError, match="certificate"):
                    await client.command("PING")


def _certified(cert: str) -> Sequence[str]:
    return ("--tls-cert-file", cert, "--tls-key-file", "cert-key.pem", "--tls-ca-cert-file", cert)


async def test_a_promoted_replica_that_lacks_writes_has_no_generation(pair: tuple[RedisServer, RedisServer]) -> None:
    primary, replica = pair
    async with a_client(primary.url()) as before:
        queue = redis_coordinator(before).queue
        await queue.rebuild("first", make_pages(make_entries(make_ids(1))))
        await asyncio.to_thread(wait_for, lambda: has_everything(primary, replica), "the replica to have everything")
        ask(replica.port, "REPLICAOF", "NO", "ONE")
        await queue.push(make_entries(make_ids(2)))
        assert await queue.find_generation() == "first"
    primary.kill()
    async with a_client(replica.url()) as after:
        queue = redis_coordinator(after).queue
        assert (await queue.depths()).ready == {NORMAL: 1}, "the others were not lost: this proves nothing"
        assert await queue.find_generation() is None
        await queue.rebuild("second", make_pages(make_entries(make_ids(3))))
        assert await queue.find_generation() == "second"


def has_everything(primary: RedisServer, replica: RedisServer) -> bool:
    told, followed = (ask(server.port, "INFO", "replication") for server in (primary, replica))
    offsets = [re.search(rb"master_repl_offset:(\d+)", one) for one in (told, followed)]
    return all(offsets) and len({one[1] for one in offsets if one is not None}) == 1


async def test_a_rebuild_that_a_failover_cut_short_names_nothing(pair: tuple[RedisServer, RedisServer]) -> None:
    """The primary is demoted and promoted again while the pages are read."""
    primary, _ = pair
    async with a_client(primary.url()) as client:
        queue = redis_coordinator(client).queue

        async def pages() -> AsyncIterator[Sequence[QueueEntry]]:
            yield make_entries(make_ids(1))
            await client.command("REPLICAOF", "127.0.0.1", free_port())
            await client.command("REPLICAOF", "NO", "ONE")
            yield make_entries(make_ids(1))

        await queue.rebuild("first", pages())
        assert await queue.find_generation() is None


async def test_a_generation_is_found_where_nobody_may_ask_for_info(
    pair: tuple[RedisServer, RedisServer],
) -> None:
    primary, _ = pair
    ask(primary.port, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info")
    async with a_client(f"redis://app:secret@127.0.0.1:{primary.port}/0") as client:
        queue = redis_coordinator(client).queue
        await queue.rebuild("first", make_pages())
        assert await queue.find_generation() == "first"
