"""A cluster whose servers fail under it, each test with servers of its own: nothing is lost, nothing runs twice."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import rota
from rota.domain.task import SUCCESS, TaskStatus
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.database.migrate import upgrade
from tests.support import cluster_app
from tests.support.cluster import Cluster, a_cluster, eventually, wait_until
from tests.support.patience import PATIENT_REDIS
from tests.support.require import require_server
from tests.support.servers.mariadb import MariaDbOptions, MariaDbServer
from tests.support.servers.redis import RedisServer

APP = Path(cluster_app.__file__)
TASKS = 5000
pytestmark = pytest.mark.timeout(240)


@dataclass(frozen=True, slots=True)
class Ground:
    """A cluster, and the servers under it."""

    cluster: Cluster
    redis: RedisServer
    mariadb: MariaDbServer


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    require_server("redis")
    require_server("mariadb")
    with RedisServer() as redis, MariaDbServer(MariaDbOptions(durable=True)) as mariadb:
        asyncio.run(upgrade(mariadb.url()))
        settings = {
            "store": {"url": mariadb.url()},
            "coordinator": {"url": redis.url()},
            "worker": {"capacity": 50},
        }
        with a_cluster(tmp_path, settings, app=APP) as cluster:
            cluster.start_all("server", "pod-1", "pod-2")
            yield Ground(cluster, redis, mariadb)


@asynccontextmanager
async def a_client(ground: Ground) -> AsyncIterator[rota.Rota]:
    async with rota.Rota(ground.cluster.settings, roles=()) as client:
        yield client


async def drained(client: rota.Rota) -> dict[TaskStatus, int]:
    """The number of tasks by state, once none is left to run."""

    async def look() -> dict[TaskStatus, int] | None:
        counts = await client.count()
        return counts if set(counts) == {SUCCESS} else None

    return await eventually(look, "every task to succeed", patience_s=120)


def assert_unfinished(cluster: Cluster) -> None:
    """The fault came in time to do harm."""
    assert sum(cluster.runs().values()) < TASKS, "all tasks had run before the fault: this proves nothing"


async def half_way(cluster: Cluster) -> None:
    await asyncio.to_thread(wait_until, lambda: sum(cluster.runs().values()) >= TASKS // 5, "a fifth of the tasks")


async def test_a_coordinator_that_forgets_everything_loses_no_task(ground: Ground) -> None:
    async with a_client(ground) as client:
        await client.submit_many("noop", [{}] * TASKS)
        await half_way(ground.cluster)
        redis = RedisClient(ground.redis.url(), PATIENT_REDIS)
        await redis.command("FLUSHALL")
        assert_unfinished(ground.cluster)
        await redis.close()
        assert await drained(client) == {SUCCESS: TASKS}
    assert Counter(ground.cluster.runs().values()) == {1: TASKS}


async def test_a_coordinator_that_is_killed_and_comes_back_empty_loses_no_task(ground: Ground) -> None:
    async with a_client(ground) as client:
        await client.submit_many("noop", [{}] * TASKS)
        await half_way(ground.cluster)
        ground.redis.kill()
        assert_unfinished(ground.cluster)
        await client.submit_many("noop", [{}] * 100)
        await asyncio.to_thread(
            wait_until,
            lambda: any(line.get("event") == "coordinator.fallback" for line in ground.cluster.leader().events()),
            "the leader to fall back",
        )
        ground.redis.start()
        assert await drained(client) == {SUCCESS: TASKS + 100}
    assert Counter(ground.cluster.runs().values()) == {1: TASKS + 100}


async def test_a_store_that_restarts_in_the_middle_loses_no_task(ground: Ground) -> None:
    async with a_client(ground) as client:
        await client.submit_many("noop", [{}] * TASKS)
        await half_way(ground.cluster)
        ground.mariadb.kill()
        assert_unfinished(ground.cluster)
        ground.mariadb.start()
        assert await drained(client) == {SUCCESS: TASKS}
    assert Counter(ground.cluster.runs().values()) == {1: TASKS}
