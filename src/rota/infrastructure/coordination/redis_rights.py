"""Whether the user of a Redis may do what Rota does there, found out by harmless tries: for the doctor."""

from urllib.parse import unquote

from rota.domain.errors import CoordinatorUnavailableError
from rota.infrastructure.coordination.redis_address import Topology, find_topology
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.coordination.redis_refusals import RIGHTS
from rota.infrastructure.server_urls import split_url

A_MOMENT = 10  # milliseconds
WRITE = f"return redis.call('SET', KEYS[1], '', 'PX', {A_MOMENT})"
NEEDED = "+@all -@dangerous +info +config|get +client|setname"
NEEDED_BESIDE = {
    Topology.CLUSTER: " +cluster|info +cluster|slots +cluster|replicas",
    Topology.SENTINEL: " +role",
}


async def list_missing_rights(url: str, prefix: str) -> list[str]:
    """What Redis says to each try that its user must not make.

    Raises `CoordinatorUnavailableError` where it does not answer, or refuses all of us."""
    key = f"{{{prefix}}}:doctor"
    look = ("EXISTS", key)
    tries = (
        look,
        ("TIME",),
        ("SET", key, "", "PX", A_MOMENT),
        ("EVAL", WRITE, 1, key),
        ("BLPOP", f"{key}:none", A_MOMENT / 1000),
        ("PUBLISH", key, ""),
        ("INFO",),
    )
    missing = []
    client = RedisClient(url)
    try:
        for one in tries:
            try:
                await client.command(*one)
            except CoordinatorUnavailableError as exc:
                if exc.fix == RIGHTS:
                    missing.append(f"{one[0]}: {str(exc).removeprefix('redis: ')}")
                elif one is look:
                    raise
    finally:
        await client.close()
    return missing


def spell_grant(url: str, prefix: str) -> str:
    """What gives the user of the URL the rights that it needs."""
    topology = find_topology(url)
    user = unquote(split_url(url).netloc.rpartition("@")[0].partition(":")[0]) or "default"
    more = "" if topology is None else NEEDED_BESIDE[topology]
    return f"ACL SETUSER {user} resetkeys '~{{{prefix}}}:*' resetchannels '&{{{prefix}}}:*' {NEEDED}{more}"
