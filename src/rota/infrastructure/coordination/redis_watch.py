"""Who takes over when a Redis of several servers loses its primary, and how soon: for the doctor."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from redis.crc import key_slot
from redis.exceptions import RedisError

from rota.domain.errors import CoordinatorUnavailableError
from rota.infrastructure.coordination.redis_address import RedisAddress, Server, Topology, find_topology, parse_address
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.coordination.redis_connections import RedisConnections
from rota.infrastructure.coordination.redis_guides import ask_once, to_server

WITHIN = timedelta(seconds=1)
ONE_POOL = 1
PLACE, FLAGS = 1, 2  # where they are in a line about a node
AWAY = frozenset({b"s_down", b"o_down"})  # what a Sentinel says of a replica that could not take over


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisWatch:
    """What is known of the primary that has our keys."""

    topology: Topology
    primary: str
    replicas: int
    least_replicas: int | None  # with fewer it takes no writes; None: it does not tell
    silent_for: timedelta | None  # then it is taken for dead; None: it does not tell
    primary_id: str = ""  # of a node of a cluster
    away: tuple[str, ...] = ()  # its replicas that are
    service: str = ""
    sentinels: int = 0  # of those named, the ones that answer
    named: int = 0
    quorum: int = 0
    disagreement: str = ""  # why Sentinels could not begin a failover


async def read_redis_watch(url: str, key: str) -> RedisWatch | None:
    """Ask Sentinels, or the node that has a key; None where there is one server alone.

    Raises `CoordinatorUnavailableError` when there is no answer."""
    if find_topology(url) is None:
        return None
    client, address = RedisClient(url), parse_address(url)
    try:
        await client.command("EXISTS", key)  # which finds the node of a cluster that has it
        least = await _find_setting(client, "min-replicas-to-write")
        if address.topology is Topology.SENTINEL:
            return await _ask_sentinels(url, address, least=least)
        silent = await _find_setting(client, "cluster-node-timeout")
        host, port, node_id, *_ = _find_owner(await client.command("CLUSTER", "SLOTS"), key)
        followers = [line.split() for line in await client.command("CLUSTER", "REPLICAS", node_id)]
        away = tuple(words[PLACE].decode().partition("@")[0] for words in followers if b"fail" in words[FLAGS])
    finally:
        await client.close()
    return RedisWatch(
        topology=Topology.CLUSTER,
        primary=str(to_server(host, port)),
        primary_id=node_id.decode(),
        replicas=len(followers) - len(away),
        away=away,
        least_replicas=least,
        silent_for=None if silent is None else timedelta(milliseconds=silent),
    )


def _find_owner(ranges: Sequence[Any], key: str) -> Sequence[Any]:
    """Host, port and id of the primary. (Replicas are listed beside it only if they have something.)"""
    slot = key_slot(key.encode())
    for first, last, primary, *_ in ranges:
        if first <= slot <= last:
            found: Sequence[Any] = primary
            return found
    raise CoordinatorUnavailableError(f"redis: no node has the slot {slot}")


async def _ask_sentinels(url: str, address: RedisAddress, *, least: int | None) -> RedisWatch:
    connections = RedisConnections(url, within=WITHIN, most=ONE_POOL)
    told: dict[bytes, bytes] = {}
    followers: Sequence[Any] = ()
    answering, disagreement = 0, ""
    for sentinel in address.servers:
        try:
            (answer,) = await _ask(connections, sentinel, "MASTER", address.service)
        except (RedisError, OSError):
            continue
        answering += 1
        told = _pair(answer)
        try:
            (followers,) = await _ask(connections, sentinel, "REPLICAS", address.service)
            await _ask(connections, sentinel, "CKQUORUM", address.service)
        except (RedisError, OSError) as exc:
            disagreement = f"{sentinel}: {exc}"
    if not told:
        raise CoordinatorUnavailableError("redis: no Sentinel answers")
    return RedisWatch(
        topology=Topology.SENTINEL,
        primary=str(to_server(told[b"ip"], told[b"port"])),
        replicas=sum(AWAY.isdisjoint(_pair(one)[b"flags"].split(b",")) for one in followers),
        least_replicas=least,
        silent_for=timedelta(milliseconds=int(told[b"down-after-milliseconds"])),
        service=address.service,
        sentinels=answering,
        named=len(address.servers),
        quorum=int(told[b"quorum"]),
        disagreement=disagreement,
    )


def _pair(answer: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(answer[::2], answer[1::2], strict=True))


async def _ask(connections: RedisConnections, sentinel: Server, *question: str) -> list[Any]:
    return await ask_once(connections.to_sentinel(sentinel), [("SENTINEL", *question)], within=WITHIN)


async def _find_setting(client: RedisClient, name: str) -> int | None:
    try:
        answer = await client.command("CONFIG", "GET", name)
    except CoordinatorUnavailableError:  # a Redis that others look after does not let everybody ask
        return None
    return next((int(value) for value in (answer or {}).values()), None)
