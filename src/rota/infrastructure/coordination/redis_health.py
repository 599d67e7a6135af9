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


async def read_redis_health(url: str, key: str = "rota") -> RedisHealth:
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
        )
    finally:
        await client.close()


async def _read_snapshots(client: RedisClient) -> str:
    try:
        answer = await client.command("CONFIG", "GET", "save")
    except CoordinatorUnavailableError:  # a Redis that others look after does not let everybody ask
        return "unknown"
    return "rdb" if any((answer or {}).values()) else "none"


def _facts(answer: Any) -> dict[str, str]:
    pairs = (line.partition(":") for line in answer.decode("utf-8", "replace").splitlines() if line[:1] != "#")
    return {key: value.strip() for key, _, value in pairs}
