"""Clusters of real processes on one Redis and nothing else."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.domain.task import SUCCESS
from tests.support import cluster_app
from tests.support.cluster import Cluster, a_cluster, eventually, wait_until
from tests.support.key_tables import find_row, read_key_table
from tests.support.names import fresh_name
from tests.support.require import require_server
from tests.support.servers.redis import RedisServer, ask

APP = Path(cluster_app.__file__)
pytestmark = pytest.mark.timeout(180)


def on_redis(server: RedisServer) -> dict[str, Any]:
    return {"store": {"url": server.url()}, "coordinator": {"prefix": fresh_name("e2e")}}


@pytest.fixture
def cluster(redis_server: RedisServer, tmp_path: Path) -> Iterator[Cluster]:
    with a_cluster(tmp_path, on_redis(redis_server), app=APP) as running:
        yield running


async def count_ends(handles: Sequence[rota.Handle]) -> Counter[str]:
    return Counter(task.status for task in await asyncio.gather(*(handle.wait("90s") for handle in handles)))


async def test_redis_alone_runs_everything_exactly_once(cluster: Cluster, redis_server: RedisServer) -> None:
    pod, *_ = cluster.start_all("server", "pod-1", "pod-2", "pod-3")
    async with rota.Rota(cluster.settings, roles=()) as client:
        plain = await client.submit_many("noop", [{}] * 100)
        single = [await client.submit("noop", {}) for _ in range(10)]
        single += [await client.submit("work", {}) for _ in range(5)]  # in child processes
        flaky = await client.submit("flaky", {"failures": 1})
        later = await client.submit("noop", {}, delay="1s", priority="high")
        assert await count_ends([*plain, *single, flaky, later]) == {SUCCESS: 117}
    assert Counter(cluster.runs().values()) == {1: 116, 2: 1}  # the flaky one failed once
    warned = pod.said("redis.store_at_risk")
    assert warned is not None, "the server of the tests keeps nothing on disk"
    assert warned["problem"] == "none: a restart of Redis loses every task"
    assert list_unlisted_keys(redis_server, f"{{{cluster.settings['coordinator']['prefix']}}}:") == []


def list_unlisted_keys(server: RedisServer, tag: str) -> list[tuple[str, str]]:
    """Keys that the guide does not list, or with another type."""
    table = read_key_table("on-redis-alone.md")
    keys = [key.decode() for key in ask(server.port, "KEYS", f"{tag}*")]
    types = {key.removeprefix(tag): ask(server.port, "TYPE", key).decode() for key in keys}
    assert "tasks:type:default:noop" in types
    # A key that has run out meanwhile is of the type none.
    return [(key, kind) for key, kind in types.items() if kind not in f"{find_row(table, key)} none"]


@pytest.mark.slow  # a worker's lease has to run out, and a leader's
async def test_on_redis_alone_the_tasks_of_a_killed_pod_run_elsewhere(cluster: Cluster) -> None:
    first, _ = cluster.start_all("server", "pod-1", "pod-2")
    async with rota.Rota(cluster.settings, roles=()) as client:
        naps = [await client.submit("nap", {"seconds": 3}) for _ in range(4)]
        await asyncio.to_thread(wait_until, lambda: len(cluster.runs("began")) >= 4, "4 tasks to begin")
        first.kill()
        assert await count_ends(naps) == {SUCCESS: 4}


@pytest.mark.slow  # it has to be missed, and found again
async def test_a_durable_redis_that_is_killed_and_restarted_loses_no_task(tmp_path: Path) -> None:
    require_server("redis")
    with RedisServer(durable=True) as redis, a_cluster(tmp_path, on_redis(redis), app=APP) as cluster:
        first, _ = cluster.start_all("server", "pod-1", "pod-2")
        assert first.said("redis.store_at_risk") is None
        async with rota.Rota(cluster.settings, roles=()) as client:
            before = await client.submit_many("noop", [{}] * 2000)
            redis.kill()
            redis.start()
            submit = partial(client.submit, "noop", {}, idempotency_key="after the restart")
            after = await eventually(submit, "a submit to be answered")
            assert await count_ends([*before, after]) == {SUCCESS: 2001}
        ends = Counter(cluster.runs().values())
        assert set(ends) == {1}, "an attempt whose result came late was not run again"
