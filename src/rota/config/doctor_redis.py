"""What the doctor asks a Redis: whether it lives, lets us work, keeps what it is given, and would be replaced."""

from datetime import timedelta

from rota.config.finding import Finding, unusable
from rota.config.settings import Settings
from rota.domain.errors import CoordinatorUnavailableError, RotaError
from rota.infrastructure.coordination.redis_address import (
    NODE_PORT,
    Server,
    Topology,
    find_topology,
    parse_address,
)
from rota.infrastructure.coordination.redis_health import read_redis_health
from rota.infrastructure.coordination.redis_rights import list_missing_rights, spell_grant
from rota.infrastructure.coordination.redis_watch import RedisWatch, read_redis_watch
from rota.infrastructure.server_urls import split_url
from rota.infrastructure.store.redis.risks import list_risks

# With these, work goes on 10 s after a loss behind Sentinels, and 15 s after one in a cluster.
LONGEST_SILENCE = {"sentinel": timedelta(seconds=5), "cluster": timedelta(seconds=10)}


async def examine_access(part: str, url: str, *, prefix: str) -> Finding:
    """Whether it answers and lets us do our work; what else could be asked has no answer where it does not."""
    try:
        missing = await list_missing_rights(url, prefix)
    except RotaError as error:
        return unusable(part, error, fix=f"start Redis, or correct {part}.url: {_spell_ping(url)}")
    if not missing:
        return Finding("redis rights", f"enough, for keys that begin with {{{prefix}}}:")
    text = f"too few for keys that begin with {{{prefix}}}:, as coordinator.prefix says: {'; '.join(missing)}"
    return Finding("redis rights", text, fix=spell_grant(url, prefix), is_seen=False)


def _spell_ping(url: str) -> str:
    parts = split_url(url)
    one = Server(parts.hostname or "localhost", parts.port or NODE_PORT) if find_topology(url) is None else None
    servers = parse_address(url).servers if one is None else (one,)
    tls = " --tls" if parts.scheme.startswith("rediss") else ""
    return ", ".join(f"redis-cli -h {server.host} -p {server.port}{tls} ping" for server in servers)


async def _examine_server(url: str, key: str) -> list[Finding]:
    health = await read_redis_health(url, key)
    eviction = Finding("redis eviction", health.eviction)
    if health.eviction != "noeviction":
        text = f"{health.eviction}: a full Redis would throw parts of the queues away"
        eviction = Finding("redis eviction", text, fix="redis-cli CONFIG SET maxmemory-policy noeviction")
    text = "none: the store rebuilds the queues" if health.persistence == "none" else health.persistence
    persistence = Finding("redis persistence", text)
    if not health.saves_well:
        text = "its last save failed, so it may refuse writes"
        persistence = Finding("redis persistence", text, fix="redis-cli BGSAVE")
    return [eviction, persistence, Finding("redis version", health.version)]


async def examine_coordinator(settings: Settings) -> list[Finding]:
    """Whether it would be replaced; how it is, unless the store's findings tell."""
    url, key = settings.coordinator.url, _own_key(settings)
    try:
        found = await _examine_watch(url, key)
        return found if settings.store.url == url else [*found, *await _examine_server(url, key)]
    except CoordinatorUnavailableError as error:
        return [unusable("redis", error)]


def _own_key(settings: Settings) -> str:
    """One of those that all of ours are in one slot with."""
    return f"{{{settings.coordinator.prefix}}}:generation"


async def _examine_watch(url: str, key: str) -> list[Finding]:
    """Would work go on in time without the primary? Nothing to say where there is one server alone."""
    watch = await read_redis_watch(url, key)
    return [] if watch is None else [_judge_primary(watch), _judge_silence(watch), *_judge_least(watch)]


def _judge_primary(watch: RedisWatch) -> Finding:
    text = f"{watch.primary}, followed by {watch.replicas} replica{'' if watch.replicas == 1 else 's'}"
    if watch.service:
        text += f"; {watch.sentinels} of {watch.named} Sentinels answer, {watch.quorum} begin a failover"
    fix = ""
    if watch.disagreement:
        text, fix = f"{text}; now they could not: {watch.disagreement}", "start the Sentinels that are away"
    elif watch.sentinels < watch.named:
        fix = "start the Sentinels that are away, or leave them out of coordinator.url"
    elif not watch.replicas:
        text, fix = f"{text}: nobody could take over", _spell_replica(watch)
    return Finding("redis primary", text, fix=fix)


def _spell_replica(watch: RedisWatch) -> str:
    if watch.topology is Topology.SENTINEL:
        return "start its replica again, or make another server one: redis-cli REPLICAOF HOST PORT"
    again = f"start {', '.join(watch.away)} again" if watch.away else "start its replica again"
    return f"{again}, or make another node one: redis-cli CLUSTER REPLICATE {watch.primary_id}"


def _judge_silence(watch: RedisWatch) -> Finding:
    longest = LONGEST_SILENCE[watch.topology.value]
    if watch.silent_for is None:
        return Finding("redis failover", "it does not tell after which silence a server is replaced")
    text = f"a server that is silent for {watch.silent_for.total_seconds():g} s is replaced"
    if watch.silent_for <= longest:
        return Finding("redis failover", text)
    milliseconds = longest // timedelta(milliseconds=1)
    fix = f"redis-cli CONFIG SET cluster-node-timeout {milliseconds} on every node"
    if watch.service:
        fix = f"redis-cli -p 26379 SENTINEL SET {watch.service} down-after-milliseconds {milliseconds} (each)"
    return Finding("redis failover", f"{text}: work may pause for longer than promised", fix=fix)


def _judge_least(watch: RedisWatch) -> list[Finding]:
    """After a failover there is a replica less: the primary must not need that one."""
    if watch.least_replicas is None:
        return []
    left = max(watch.replicas - 1, 0)
    text = f"a primary takes writes with {watch.least_replicas} replicas or more"
    if watch.least_replicas <= left:
        return [Finding("redis writes", text)]
    fix = f"redis-cli CONFIG SET min-replicas-to-write {left} on every server"
    return [Finding("redis writes", f"{text}, and after a failover has {left}", fix=fix)]


async def examine_store(settings: Settings) -> list[Finding]:
    """Whether it keeps what it is given."""
    try:
        health = await read_redis_health(settings.store.url, _own_key(settings))
    except CoordinatorUnavailableError as error:
        return [unusable("redis", error)]
    kept = f"aof, appendfsync {health.fsync}" if health.persistence == "aof" else health.persistence
    most = f" of {health.most_bytes / 2**20:.0f}" if health.most_bytes else ", without a maxmemory"
    sound = {
        "eviction": health.eviction,
        "persistence": kept,
        "memory": f"{health.bytes_in_use / 2**20:.0f} MiB{most}",
        "version": health.version,
    }
    risks = list_risks(health)
    told = {subject: text for subject, text in sound.items() if subject not in {risk.subject for risk in risks}}
    found = [Finding(f"redis {risk.subject}", risk.text, fix=risk.fix) for risk in risks]
    return [*found, *(Finding(f"redis {subject}", text) for subject, text in told.items())]
