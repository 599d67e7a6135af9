"""Faults of the servers: dead, forgetful, full, demoted, and cutting connections off."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from rota.domain.errors import CoordinatorUnavailableError
from rota.infrastructure.coordination.redis_client import RedisClient
from tests.chaos.client import Client
from tests.chaos.faults import NotInEffectError, confirm
from tests.chaos.ground import Ground
from tests.chaos.measure import Measured
from tests.chaos.servers import SqlServer
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.process import free_port

REFUSED_WITHIN_S = 2.0  # an API whose store is away says so
ANSWER_WITHIN_S = 10.0
PAD_BYTES = 100_000
WRITERS = 4
STEADY_S = 1.0
FULL_WITHIN_S = 20.0
BLOCK = 64 * 1024


@asynccontextmanager
async def flush_redis(ground: Ground) -> AsyncIterator[None]:
    async with _asking(ground) as redis:
        confirm(await redis.command("DBSIZE") > 0, "there was nothing to forget")
        await redis.command("FLUSHALL")
    yield


@asynccontextmanager
async def restart_redis_empty(ground: Ground) -> AsyncIterator[None]:
    ground.redis.kill()
    yield
    await ground.restart(ground.redis)


@asynccontextmanager
async def fill_redis(ground: Ground) -> AsyncIterator[None]:
    """Out of memory: what needs some is refused."""
    async with _asking(ground) as redis, _refusing(redis, "CONFIG SET maxmemory 1", end="CONFIG SET maxmemory 0"):
        yield


@asynccontextmanager
async def demote_redis(ground: Ground) -> AsyncIterator[None]:
    """A replica of nobody, as one is after a failover: READONLY."""
    async with _asking(ground) as redis, _refusing(redis, f"REPLICAOF 127.0.0.1 {free_port()}", end="REPLICAOF NO ONE"):
        yield


@asynccontextmanager
async def _asking(ground: Ground) -> AsyncIterator[RedisClient]:
    redis = RedisClient(ground.redis.url())
    try:
        yield redis
    finally:
        await redis.close()


@asynccontextmanager
async def _refusing(redis: RedisClient, begin: str, *, end: str) -> AsyncIterator[None]:
    await redis.command(*begin.split())
    try:
        try:
            await redis.command("SET", "chaos", "x")
        except CoordinatorUnavailableError:
            yield
        else:
            raise NotInEffectError("Redis still takes writes")
    finally:
        await redis.command(*end.split())


@asynccontextmanager
async def restart_store(ground: Ground) -> AsyncIterator[None]:
    """Meanwhile the API says that it cannot, and says so soon."""
    ground.sql.store.kill()
    await _see_refused(ground)
    yield
    await ground.restart(ground.sql.store)


async def _see_refused(ground: Ground) -> None:
    client, began_at = ground.get_client(), time.monotonic()
    key = client.note_request()
    async with httpx2.AsyncClient(timeout=ANSWER_WITHIN_S, headers={"Authorization": f"Bearer {client.token}"}) as api:
        body = {"type": "quick", "idempotency_key": key, "metadata": {"key": key}}
        answer = await api.post(f"{ground.api_url}/api/v1/tasks", json=body)
    confirm(answer.status_code == httpx2.codes.SERVICE_UNAVAILABLE, f"the API answered {answer.status_code}")
    took_s = time.monotonic() - began_at
    ground.noted.append(Measured("API: 503 while the store is away", took_s, REFUSED_WITHIN_S))


@asynccontextmanager
async def kill_connections(ground: Ground) -> AsyncIterator[None]:
    if isinstance(ground.sql.store, MariaDbServer):
        listed = await _execute(
            ground, "SELECT id FROM information_schema.processlist WHERE db = 'rota' AND id <> CONNECTION_ID()"
        )
        ids = [line for line in listed.split() if line.isdigit()]
        for one in ids:
            await _execute(ground, f"KILL {one}", is_needed=False)  # it may have gone by itself
        killed = len(ids)
    else:
        sql = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'rota' AND pid <> pg_backend_pid()"
        )
        killed = (await _execute(ground, sql)).count("t")
    confirm(killed > 0, "there was no connection to kill")
    yield


@asynccontextmanager
async def make_read_only(ground: Ground) -> AsyncIterator[None]:
    """What a client meets that is still connected to a former primary."""
    refused = ground.get_client().refused
    await _set_read_only(ground, is_on=True)
    try:
        await _until(lambda: ground.get_client().refused > refused, "nothing was refused")
        yield
    finally:
        await _set_read_only(ground, is_on=False)


async def _set_read_only(ground: Ground, *, is_on: bool) -> None:
    if isinstance(ground.sql.store, MariaDbServer):
        await _execute(ground, f"SET GLOBAL read_only = {int(is_on)}")
    else:
        await _execute(ground, f"ALTER SYSTEM SET default_transaction_read_only = {'on' if is_on else 'off'}")
        await _execute(ground, "SELECT pg_reload_conf()")


@asynccontextmanager
async def fill_disk(ground: Ground) -> AsyncIterator[None]:
    """No space left for the store. A server that gives up altogether is started again, as its supervisor would."""
    disk, client, store = ground.sql.disk, ground.get_client(), ground.sql.store
    if disk is None:
        raise NotInEffectError("the disk is too large to fill it")
    refused, filler = client.refused, disk / "filler"
    await asyncio.to_thread(_fill, filler)
    writers = [asyncio.create_task(_write_until_refused(client)) for _ in range(WRITERS)]
    try:
        await _until(lambda: client.refused > refused, "nothing was refused", within_s=FULL_WITHIN_S)
        yield
    finally:
        filler.unlink()
        await _keep_running(ground, store)
    await asyncio.gather(*writers)


async def _write_until_refused(client: Client) -> None:
    refused = client.refused
    while client.refused == refused:
        await client.submit("quick", pad=os.urandom(PAD_BYTES).hex())  # which no database makes much smaller


async def _keep_running(ground: Ground, store: SqlServer) -> None:
    """As a supervisor would, until it has been well for a while."""
    since, give_up_at = time.monotonic(), time.monotonic() + FULL_WITHIN_S
    while time.monotonic() < min(since + STEADY_S, give_up_at):
        if not store.is_running:
            await ground.restart(store)
            since = time.monotonic()
        await asyncio.sleep(0.1)


def _fill(path: Path) -> None:
    try:
        with path.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(BLOCK))
    except OSError:
        return  # it is full


async def _execute(ground: Ground, sql: str, *, is_needed: bool = True) -> str:
    try:
        return await asyncio.to_thread(ground.sql.store.execute, sql)
    except RuntimeError:
        if is_needed:
            raise
        return ""


async def _until(look: Callable[[], bool], problem: str, *, within_s: float = ANSWER_WITHIN_S) -> None:
    give_up_at = time.monotonic() + within_s
    while not look():
        if time.monotonic() > give_up_at:
            raise NotInEffectError(problem)
        await asyncio.sleep(0.02)
