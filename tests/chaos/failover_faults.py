"""Faults of a Redis of several servers: its primary is dead, frozen, replaced by hand, or by one that lacks writes."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from tests.chaos.faults import confirm
from tests.chaos.ground import Ground
from tests.chaos.servers import find_primary, list_followers
from tests.chaos.terrain import REDIS_STORE
from tests.support.cluster import wait_until
from tests.support.servers.redis import RedisServer, ask
from tests.support.servers.redis_sentinel import SERVICE, RedisSentinels

PROMOTED_WITHIN_S = 30.0
LOST = 10  # submissions
LAG_S = 0.2  # what was answered that long before may not have been copied yet
LATE_S = 1.0  # so much later whoever was answered may write that down


@asynccontextmanager
async def kill_primary(ground: Ground) -> AsyncIterator[None]:
    primary = find_primary(ground.several)
    killed_at = time.monotonic()
    primary.kill()
    yield
    await _see_another(ground, primary)
    await _note_lost_writes(ground, killed_at)
    await ground.restart(primary)
    await _see_all_follow(ground)


@asynccontextmanager
async def freeze_primary(ground: Ground) -> AsyncIterator[None]:
    """When it wakes, it does not know yet that another one has its place."""
    primary = find_primary(ground.several)
    frozen_at = time.monotonic()
    primary.pause()
    try:
        yield
        await _see_another(ground, primary)
        await _note_lost_writes(ground, frozen_at)
    finally:
        woken_at = time.monotonic()
        primary.resume()
    await _see_follow(primary)
    await _note_lost_writes(ground, woken_at, until=time.monotonic())
    await _see_all_follow(ground)


@asynccontextmanager
async def switch_primary(ground: Ground) -> AsyncIterator[None]:
    """By hand, as one does it before maintenance. Under Sentinels the old one takes writes until it is told; in a
    cluster it stops first."""
    primary, began_at = find_primary(ground.several), time.monotonic()
    if isinstance(ground.several, RedisSentinels):
        await asyncio.to_thread(ground.several.ask_sentinel, "SENTINEL", "FAILOVER", SERVICE)
    else:
        await asyncio.to_thread(ask, list_followers(ground.several)[0].port, "CLUSTER", "FAILOVER")
    await _see_another(ground, primary)
    await _see_follow(primary)
    if isinstance(ground.several, RedisSentinels):
        await _note_lost_writes(ground, began_at, until=time.monotonic())
    yield
    await _see_all_follow(ground)


@asynccontextmanager
async def restart_primary(ground: Ground) -> AsyncIterator[None]:
    """Back before anybody takes its place, with all that it had answered."""
    primary = find_primary(ground.several)
    primary.kill()
    yield
    await ground.restart(primary)
    await asyncio.to_thread(wait_until, lambda: find_primary(ground.several) is primary, "the primary to be back")


@asynccontextmanager
async def lose_writes(ground: Ground) -> AsyncIterator[None]:
    """For a while nothing is copied; then the primary dies, and who takes its place lacks what it had answered."""
    primary, followers, client = find_primary(ground.several), list_followers(ground.several), ground.get_client()
    since, answered = time.monotonic() - LAG_S, len(client.task_ids)
    for follower in followers:
        follower.kill()
    await asyncio.to_thread(wait_until, lambda: len(client.task_ids) > answered + LOST, "something to be answered")
    primary.kill()
    for follower in followers:
        follower.launch()
    killed_at = time.monotonic()
    await _see_another(ground, primary)
    lost = await client.note_lost_writes(since, until=killed_at + LATE_S)
    confirm(lost > 0, "nothing was lost")
    yield
    await ground.restart(primary)
    await _see_all_follow(ground)


async def _note_lost_writes(ground: Ground, since: float, *, until: float | None = None) -> None:
    """What such a failover may lose where Redis holds the tasks (docs/explanation/guarantees.md)."""
    if REDIS_STORE in ground.traits:
        await ground.get_client().note_lost_writes(since - LAG_S, until=(until or since) + LATE_S)


async def _see_follow(old: RedisServer) -> None:
    """Until it knows that it is the primary no more."""

    def look() -> bool:
        try:
            return b"role:slave" in ask(old.port, "INFO", "replication")
        except (RedisError, OSError):
            return False

    await asyncio.to_thread(wait_until, look, "the old primary to follow")


async def _see_another(ground: Ground, old: RedisServer) -> None:
    def look() -> bool:
        return find_primary(ground.several) is not old

    await asyncio.to_thread(wait_until, look, "another primary", patience_s=PROMOTED_WITHIN_S)


async def _see_all_follow(ground: Ground) -> None:
    """Only then may the next one be hurt."""
    several = ground.several

    def look() -> bool:
        try:
            if not isinstance(several, RedisSentinels):
                return several.is_well()
            told = several.ask(several.primary, "INFO", "replication")
        except (RedisError, OSError):
            return False
        assert isinstance(told, bytes)
        return told.count(b"state=online") == len(several.nodes) - 1

    await asyncio.to_thread(wait_until, look, "all to follow")
