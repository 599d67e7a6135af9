"""The faults: how each is brought about, how one sees that it is in effect, and by when all must be well again."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rota.infrastructure.coordination.redis_client import RedisClient
from tests.chaos.ground import Ground
from tests.support.cluster import Process, wait_until
from tests.support.proxy import FaultyProxy
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer

HELD_S = 5.0  # how long a fault lasts that does not end by itself
LONG_S = 16.0  # longer than a worker's lease
COMMIT_WITHIN_S = 10.0


class NotInEffectError(AssertionError):
    """A fault did nothing: whatever was seen proves nothing."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    bring: Callable[[Ground], AbstractAsyncContextManager[None]]  # entered: in effect; left: healed
    bound_s: float  # until everything that was asked before and during it has ended …
    from_end: bool = False  # … from when it began, or from when it was over
    held_s: float = 0.0
    needs_redis: bool = False
    store: type[MariaDbServer] | type[PostgresServer] | None = None  # None: any


def confirm(is_true: bool, what: str) -> None:
    if not is_true:
        raise NotInEffectError(what)


@asynccontextmanager
async def kill_leader(ground: Ground) -> AsyncIterator[None]:
    ground.cluster.leader().kill()
    yield
    await ground.add("scheduler")


@asynccontextmanager
async def stop_leader(ground: Ground) -> AsyncIterator[None]:
    leader = ground.cluster.leader()
    confirm(await asyncio.to_thread(leader.stop) == 0, "the leader did not end well")
    yield
    await ground.add("scheduler")


@asynccontextmanager
async def freeze_leader(ground: Ground) -> AsyncIterator[None]:
    async with _frozen(ground.cluster.leader()):
        yield


@asynccontextmanager
async def kill_worker(ground: Ground) -> AsyncIterator[None]:
    ground.live("worker")[0].kill()
    yield
    await ground.add("worker")


@asynccontextmanager
async def stop_worker(ground: Ground) -> AsyncIterator[None]:
    worker = ground.live("worker")[0]
    confirm(await asyncio.to_thread(worker.stop) == 0, "the worker did not end well")
    yield
    await ground.add("worker")


@asynccontextmanager
async def freeze_worker(ground: Ground) -> AsyncIterator[None]:
    async with _frozen(ground.live("worker")[0]):
        yield


@asynccontextmanager
async def _frozen(process: Process) -> AsyncIterator[None]:
    process.send(signal.SIGSTOP)
    await asyncio.to_thread(wait_until, lambda: _state(process) == "T", f"{process.name} to stand still")
    try:
        yield
    finally:
        process.send(signal.SIGCONT)


def _state(process: Process) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


@asynccontextmanager
async def flush_redis(ground: Ground) -> AsyncIterator[None]:
    redis = RedisClient(_redis_of(ground).url())
    try:
        confirm(await redis.command("DBSIZE") > 0, "there was nothing to forget")
        await redis.command("FLUSHALL")
    finally:
        await redis.close()
    yield


@asynccontextmanager
async def restart_redis_empty(ground: Ground) -> AsyncIterator[None]:
    redis = _redis_of(ground)
    redis.kill()
    yield
    await ground.restart(redis)


@asynccontextmanager
async def restart_store(ground: Ground) -> AsyncIterator[None]:
    ground.store.kill()
    yield
    await ground.restart(ground.store)


@asynccontextmanager
async def kill_connections(ground: Ground) -> AsyncIterator[None]:
    if isinstance(ground.store, MariaDbServer):
        listed = await asyncio.to_thread(
            ground.store.execute, "SELECT id FROM information_schema.processlist WHERE db = 'rota' AND info IS NULL"
        )
        ids = [line for line in listed.split() if line.isdigit()]
        await asyncio.to_thread(ground.store.execute, "; ".join(f"KILL {one}" for one in ids) or "SELECT 1")
        killed = len(ids)
    else:
        sql = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'rota' AND pid <> pg_backend_pid()"
        )
        killed = (await asyncio.to_thread(ground.store.execute, sql)).count("t")
    confirm(killed > 0, "there was no connection to kill")
    yield


@asynccontextmanager
async def read_only(ground: Ground) -> AsyncIterator[None]:
    """What a client meets that is still connected to a former primary."""
    await _set_read_only(ground, "on")
    try:
        yield
    finally:
        await _set_read_only(ground, "off")


async def _set_read_only(ground: Ground, value: str) -> None:
    for sql in (f"ALTER SYSTEM SET default_transaction_read_only = {value}", "SELECT pg_reload_conf()"):
        await asyncio.to_thread(ground.store.execute, sql)
    for _ in range(100):  # the reload is a signal
        if value in await asyncio.to_thread(ground.store.execute, "SHOW default_transaction_read_only"):
            return
        await asyncio.sleep(0.05)
    raise NotInEffectError("the store did not change its mind")


@asynccontextmanager
async def lose_commit(ground: Ground) -> AsyncIterator[None]:
    """The store commits, and the answer never comes."""
    swallowed = ground.store_proxy.drop_reply_after(b"COMMIT")
    try:
        await asyncio.wait_for(swallowed.wait(), COMMIT_WITHIN_S)
    except TimeoutError as exc:
        raise NotInEffectError("nothing was committed") from exc
    yield


def through(side: str, hurt: Callable[[FaultyProxy], None]) -> Callable[[Ground], AbstractAsyncContextManager[None]]:
    """A fault of the network before one of the servers."""

    @asynccontextmanager
    async def bring(ground: Ground) -> AsyncIterator[None]:
        proxy = ground.store_proxy if side == "store" else ground.redis_proxy
        if proxy is None or not proxy.connections:
            raise NotInEffectError(f"nobody is connected to the {side}")
        hurt(proxy)
        try:
            yield
        finally:
            proxy.heal()

    return bring


def _redis_of(ground: Ground) -> RedisServer:
    if ground.redis is None:
        raise NotInEffectError("there is no Redis here")
    return ground.redis


FAULTS = (
    Fault("leader: kill -9", kill_leader, 8),
    Fault("leader: SIGTERM", stop_leader, 5),
    Fault("leader: SIGSTOP, SIGCONT", freeze_leader, 8, held_s=10),
    Fault("worker: kill -9", kill_worker, 15),
    Fault("worker: SIGTERM", stop_worker, 5),
    Fault("worker: SIGSTOP, SIGCONT", freeze_worker, 15, held_s=LONG_S),
    Fault("Redis: FLUSHALL", flush_redis, 5, needs_redis=True),
    Fault("Redis: kill -9, back empty", restart_redis_empty, 10, held_s=HELD_S, needs_redis=True),
    Fault("Redis: cut", through("redis", FaultyProxy.cut), 10, held_s=HELD_S, needs_redis=True),
    Fault("Redis: black hole", through("redis", FaultyProxy.blackhole), 10, held_s=HELD_S, needs_redis=True),
    Fault("Redis: 300 ms late", through("redis", lambda p: p.delay(0.3)), 8, held_s=HELD_S, needs_redis=True),
    Fault("store: kill -9, restart", restart_store, 10, from_end=True, held_s=2),
    Fault("store: cut", through("store", FaultyProxy.cut), 10, from_end=True, held_s=HELD_S),
    Fault("store: black hole", through("store", FaultyProxy.blackhole), 10, from_end=True, held_s=HELD_S),
    Fault("store: replies lost", through("store", FaultyProxy.drop_replies), 10, from_end=True, held_s=HELD_S),
    Fault("store: reply to a COMMIT lost", lose_commit, 10),
    Fault("store: connections killed", kill_connections, 5),
    Fault("store: read-only", read_only, 10, from_end=True, held_s=HELD_S, store=PostgresServer),
)


def list_faults(ground: Ground) -> list[Fault]:
    """Those that can happen on this ground."""
    return [
        fault
        for fault in FAULTS
        if (ground.redis is not None or not fault.needs_redis)
        and (fault.store is None or isinstance(ground.store, fault.store))
    ]
