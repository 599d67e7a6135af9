"""A Redis Cluster: keys that live elsewhere, slots on their way, nodes that die."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from secrets import token_hex

import pytest
from redis.crc import key_slot

from rota.domain.errors import CoordinatorUnavailableError
from rota.infrastructure.coordination.redis.coordinator import redis_coordinator
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.testing.contract.coordinator_backend import make_entries, make_ids, make_pages
from tests.support.cluster import eventually
from tests.support.patience import PATIENCE_S, PATIENT_REDIS
from tests.support.require import require_server
from tests.support.servers.process import wait_for
from tests.support.servers.redis import ask
from tests.support.servers.redis_cluster import QUICK, Node, RedisCluster

LONG = timedelta(seconds=PATIENCE_S)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    """For tests that rearrange it, and leave it well."""
    require_server("redis")
    with RedisCluster() as running:
        yield running


@pytest.fixture
def mortal() -> Iterator[RedisCluster]:
    """For one that kills."""
    require_server("redis")
    with RedisCluster(node_timeout=QUICK) as running:
        yield running


@pytest.fixture
def tag() -> str:
    return f"{{tag-{token_hex(8)}}}"


@asynccontextmanager
async def a_client(cluster: RedisCluster) -> AsyncIterator[RedisClient]:
    client = RedisClient(cluster.url(), PATIENT_REDIS)
    try:
        yield client
    finally:
        await client.close()


def begin_move(cluster: RedisCluster, tag: str) -> tuple[Node, Node]:
    """Let the slot of a tag be on its way from its owner to another primary."""
    source = cluster.find_owner(tag)
    target = next(node for node in cluster.nodes if node is not source and node.is_primary())
    slot = str(key_slot(tag.encode()))
    ask(target.server.port, "CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    ask(source.server.port, "CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
    return source, target


def end_move(cluster: RedisCluster, tag: str, *, target: Node) -> None:
    slot = str(key_slot(tag.encode()))
    for node in (target, *(one for one in cluster.nodes if one is not target and one.is_primary())):
        ask(node.server.port, "CLUSTER", "SETSLOT", slot, "NODE", target.id)
    wait_for(lambda: cluster.find_owner(tag) is target, "all to know the new owner")


async def test_calls_at_once_of_a_new_client_all_find_the_owner(cluster: RedisCluster, tag: str) -> None:
    async with a_client(cluster) as client:
        await asyncio.gather(*(client.command("INCR", f"{tag}:count") for _ in range(50)))
        assert await client.command("GET", f"{tag}:count") == b"50"
        assert await client.batch([["INCR", f"{tag}:count"], ["GET", f"{tag}:count"]], atomic=True) == [51, b"51"]


async def test_what_is_on_its_way_is_asked_where_it_goes(cluster: RedisCluster, tag: str) -> None:
    async with a_client(cluster) as client:
        await client.command("SET", f"{tag}:old", "here")
        source, target = await asyncio.to_thread(begin_move, cluster, tag)
        assert await client.command("SET", f"{tag}:new", "there") == b"OK"
        assert await client.batch([["INCR", f"{tag}:n"], ["INCR", f"{tag}:n"]], atomic=True) == [1, 2]
        assert await client.batch([["GET", f"{tag}:old"], ["GET", f"{tag}:new"]]) == [b"here", b"there"]
        with pytest.raises(CoordinatorUnavailableError, match="redis: "):  # TRYAGAIN: one is here, the other there
            await client.command("MGET", f"{tag}:old", f"{tag}:new")
        moved = ("MIGRATE", "127.0.0.1", str(target.server.port), f"{tag}:old", "0", "5000")
        await asyncio.to_thread(ask, source.server.port, *moved)
        await asyncio.to_thread(end_move, cluster, tag, target=target)
        assert await client.command("MGET", f"{tag}:old", f"{tag}:new") == [b"here", b"there"]


async def test_a_wait_goes_on_where_its_slot_has_gone(cluster: RedisCluster, tag: str) -> None:
    async with a_client(cluster) as client, a_client(cluster) as other:
        await other.command("EXISTS", tag)
        waiting = asyncio.create_task(client.wait_for_token(f"{tag}:token", LONG))
        await eventually(lambda: find_blocked(other), "the wait to have begun")
        _, target = await asyncio.to_thread(begin_move, cluster, tag)
        await asyncio.to_thread(end_move, cluster, tag, target=target)
        await other.command("RPUSH", f"{tag}:token", 1)
        assert await asyncio.wait_for(waiting, PATIENCE_S / 2) is True


async def find_blocked(client: RedisClient) -> bool | None:
    return True if b"blocked_clients:1" in await client.command("INFO", "clients") else None


async def test_a_memory_whose_slot_went_to_another_node_has_no_generation(cluster: RedisCluster) -> None:
    prefix = f"moved-{token_hex(4)}"
    async with a_client(cluster) as client:
        queue = redis_coordinator(client, prefix).queue
        await queue.rebuild("first", make_pages())
        assert await queue.find_generation() == "first"
        source, target = await asyncio.to_thread(begin_move, cluster, f"{{{prefix}}}")
        for key in ask(source.server.port, "KEYS", f"{{{prefix}}}*"):
            moved = ("MIGRATE", "127.0.0.1", str(target.server.port), key.decode(), "0", "5000")
            await asyncio.to_thread(ask, source.server.port, *moved)
        await asyncio.to_thread(end_move, cluster, f"{{{prefix}}}", target=target)
        assert await queue.find_generation() is None
        await queue.rebuild("second", make_pages(make_entries(make_ids(1))))
        assert await queue.find_generation() == "second"


async def test_a_slot_that_nobody_has_is_unavailable_until_somebody_has_it(cluster: RedisCluster, tag: str) -> None:
    slot, owner = str(key_slot(tag.encode())), cluster.find_owner(tag)
    async with a_client(cluster) as client:
        await client.command("SET", tag, 1)
        for node in cluster.nodes:
            ask(node.server.port, "CLUSTER", "DELSLOTS", slot)
        with pytest.raises(CoordinatorUnavailableError):
            await client.command("SET", tag, 2)
        with pytest.raises(CoordinatorUnavailableError, match="no node of the cluster can be used"):
            await client.command("SET", tag, 2)
        ask(owner.server.port, "CLUSTER", "ADDSLOTS", slot)

        async def look() -> bool | None:
            return True if await client.command("SET", tag, 3) else None

        await eventually(look, "the slot to be served again")
    await asyncio.to_thread(wait_for, cluster.is_well, "all nodes to know it")


async def test_one_node_alone_says_that_it_is_of_a_cluster(cluster: RedisCluster, tag: str) -> None:
    owner = cluster.find_owner(tag)
    other = next(node for node in cluster.nodes if node is not owner and node.is_primary())
    client = RedisClient(other.server.url(), PATIENT_REDIS)
    with pytest.raises(CoordinatorUnavailableError, match=r"begins with redis\+cluster://"):
        await client.command("GET", tag)
    await client.close()


async def test_a_replica_takes_the_place_of_a_primary_that_was_killed(mortal: RedisCluster, tag: str) -> None:
    owner = mortal.find_owner(tag)
    async with a_client(mortal) as client, client.listen(f"{tag}:news") as messages:
        await client.command("SET", tag, 1)
        listening = asyncio.ensure_future(anext(messages))
        owner.server.kill()
        with pytest.raises(CoordinatorUnavailableError):
            await listening

        async def look() -> bool | None:
            return True if await client.command("SET", tag, 2) else None

        await eventually(look, "a replica to be promoted")
    await asyncio.to_thread(wait_for, lambda: mortal.find_owner(tag) is not owner, "all nodes to know of it")
