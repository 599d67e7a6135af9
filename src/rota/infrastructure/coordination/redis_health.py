"""What a Redis says of itself, as far as it matters to us."""

from dataclasses import dataclass
from typing import Any

from rota.domain.errors import CoordinatorUnavailableError
from rota.infrastructure.coordination.redis_client import RedisClient


@dataclass(frozen=True, slots=True)
class RedisHealth:
    version: str
    eviction: str  # `noeviction`, or what it throws away when it is full
    persistence: str  # `aof`, `rdb`, `none`, or `unknown` where it does not tell
    saves_well: bool  # else its last save to disk failed, and it may refuse writes for that
    fsync: str = "unknown"  # when what is appended to its file is on the disk: `always`, `everysec`, `no`
    bytes_in_use: int = 0
    most_bytes: int = 0  # it refuses writes beyond; 0: never


async def read_redis_health(url: str, key: str) -> RedisHealth:
    """Ask it; of a cluster, the node that has this key. Raises `CoordinatorUnavailableError` without an answer."""
    client = RedisClient(url)
    try:
        await client.command("EXISTS", key)
        facts = _facts(await client.command("INFO"))
        return RedisHealth(
            version=facts.get("redis_version", "unknown"),
            eviction=facts.get("maxmemory_policy", "unknown"),
            persistence="aof" if facts.get("aof_enabled") == "1" else await _read_snapshots(client),
            saves_well={facts.get("rdb_last_bgsave_status", "ok"), facts.get("aof_last_write_status", "ok")} == {"ok"},
            fsync=await _read_setting(client, "appendfsync") or "unknown",
            bytes_in_use=int(facts.get("used_memory", 0)),
            most_bytes=int(facts.get("maxmemory", 0)),
        )
    finally:
        await client.close()


async def _read_snapshots(client: RedisClient) -> str:
    saves = await _read_setting(client, "save")
    return "unknown" if saves is None else "rdb" if saves else "none"


async def _read_setting(client: RedisClient, name: str) -> str | None:
    try:
        answer = await client.command("CONFIG", "GET", name)
    except CoordinatorUnavailableError:  # a Redis that others look after does not let everybody ask
        return None
    return next((value.decode("utf-8", "replace") for value in (answer or {}).values()), "")


def _facts(answer: Any) -> dict[str, str]:
    pairs = (line.partition(":") for line in answer.decode("utf-8", "replace").splitlines() if line[:1] != "#")
    return {key: value.strip() for key, _, value in pairs}
