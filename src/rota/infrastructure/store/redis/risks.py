"""What would lose tasks where a Redis is all there is: told by `rota doctor`, and by every process that starts."""

from dataclasses import dataclass

from rota.infrastructure.coordination.redis_health import RedisHealth

NEARLY_FULL = 0.75
_PERSISTENCE = {
    "none": "none: a restart of Redis loses every task",
    "rdb": "snapshots alone: a restart of Redis loses every task and result since the last one",
}


@dataclass(frozen=True, slots=True)
class Risk:
    """What is wrong with a Redis for a store, and the command that mends it."""

    subject: str
    text: str
    fix: str


def list_risks(health: RedisHealth) -> list[Risk]:
    found = []
    if health.eviction != "noeviction":
        text = f"{health.eviction}: a full Redis throws tasks away instead of refusing new ones"
        found.append(Risk("eviction", text, "redis-cli CONFIG SET maxmemory-policy noeviction"))
    if health.persistence in _PERSISTENCE:
        found.append(Risk("persistence", _PERSISTENCE[health.persistence], "redis-cli CONFIG SET appendonly yes"))
    elif health.persistence == "aof" and health.fsync == "no":
        text = "appendfsync no: a crash of its machine loses what the system had not written yet, half a minute or so"
        found.append(Risk("persistence", text, "redis-cli CONFIG SET appendfsync everysec"))
    if not health.saves_well:
        found.append(Risk("persistence", "its last write to disk failed, so it may refuse writes", "redis-cli BGSAVE"))
    if health.most_bytes and health.bytes_in_use > NEARLY_FULL * health.most_bytes:
        text = (
            f"{health.bytes_in_use / 2**20:.0f} MiB of {health.most_bytes / 2**20:.0f}: when it is full, submits fail"
        )
        found.append(Risk("memory", text, "a shorter task.retention, or a larger maxmemory"))
    return found
