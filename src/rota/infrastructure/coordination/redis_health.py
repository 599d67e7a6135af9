"""What a Redis says of itself, as far as it matters to us."""

from dataclasses import dataclass

from rota.infrastructure.coordination.redis_client import RedisClient


@dataclass(frozen=True, slots=True)
class RedisHealth:
    version: str
    eviction: str  # `noeviction`, or what it throws away when it is full
    persistence: str  # `aof`, `rdb` or `none`
    takes_writes: bool  # its last save to disk failed, and it refuses writes for that

    @classmethod
    def of(cls, facts: dict[str, str]) -> "RedisHealth":
        """From the lines of INFO."""
        has_aof = facts.get("aof_enabled") == "1"
        has_rdb = facts.get("rdb_last_save_time", "0") != "0" and facts.get("rdb_bgsave_in_progress") is not None
        return cls(
            version=facts.get("redis_version", "unknown"),
            eviction=facts.get("maxmemory_policy", "unknown"),
            persistence="aof" if has_aof else "rdb" if has_rdb else "none",
            takes_writes=facts.get("rdb_last_bgsave_status", "ok") == "ok"
            and facts.get("aof_last_write_status", "ok") == "ok",
        )


async def read_redis_health(url: str) -> RedisHealth:
    """Ask it. Raises `CoordinatorUnavailableError` when there is no answer."""
    client = RedisClient(url)
    try:
        answer = await client.command("INFO")
    finally:
        await client.close()
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
    pairs = (line.partition(":") for line in text.splitlines() if not line.startswith("#"))
    return RedisHealth.of({key: value.strip() for key, _, value in pairs})
