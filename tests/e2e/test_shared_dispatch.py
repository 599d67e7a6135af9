"""Schedulers that dispatch at once, as real processes on a real etcd."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.domain.task import SUCCESS
from tests.support import cluster_app
from tests.support.cluster import Cluster, a_cluster, eventually
from tests.support.names import fresh_name
from tests.support.servers.etcd import EtcdServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]  # five processes, and the lease of one that dies
SCHEDULERS = ("scheduler-1", "scheduler-2", "scheduler-3")
BATCH = 150


@pytest.fixture
def cluster(etcd_server: EtcdServer, tmp_path: Path) -> Iterator[Cluster]:
    name = fresh_name("e2e")
    url = etcd_server.url(name)
    settings = {
        "store": {"url": url},
        "coordinator": {"url": url, "prefix": name},
        "scheduler": {"shared_dispatch": True, "batch_size": 20},  # so that all of them find something to do
        "worker": {"capacity": 50},
    }
    with a_cluster(tmp_path, settings, app=Path(cluster_app.__file__)) as running:
        running.keeps_history = True
        yield running


def grants_of(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    """What a scheduler granted, by its own history."""
    path = cluster.histories / f"{name}.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    return [line for line in lines if line["op"] == "step" and line["type"] == "ok" and "term" in line]


def dispatch_at_once(cluster: Cluster, names: Sequence[str]) -> bool:
    """Whether each of them granted something between the first and the last grant of the others."""
    times = [[grant["mono"] for grant in grants_of(cluster, name)] for name in names]
    return all(times) and max(some[0] for some in times) < min(some[-1] for some in times)


async def test_three_schedulers_dispatch_at_once_and_one_that_is_killed_loses_nothing(cluster: Cluster) -> None:
    schedulers = {process.name: process for process in cluster.start_all("scheduler", *SCHEDULERS)}
    cluster.start_all("worker", "worker-1", "worker-2")
    leader = await asyncio.to_thread(cluster.leader)
    first, second = (process for name, process in schedulers.items() if name != leader.name)
    async with rota.Rota(cluster.settings, roles=()) as client:
        handles = []

        async def are_all_at_it() -> bool | None:
            handles.extend(await client.submit_many("noop", [{}] * BATCH))  # else one may be done before another begins
            return True if dispatch_at_once(cluster, SCHEDULERS) else None

        await eventually(are_all_at_it, "all three to dispatch")
        first.kill()
        handles += await client.submit_many("noop", [{}] * BATCH * 5)
        ends = Counter(task.status for task in await asyncio.gather(*(handle.wait("90s") for handle in handles)))
        assert ends == {SUCCESS: len(handles)}
    assert Counter(cluster.runs().values()) == {1: len(handles)}
    assert leader.popen.poll() is second.popen.poll() is None
    granted = Counter(grant["task"] for name in SCHEDULERS for grant in grants_of(cluster, name))
    assert set(granted.values()) == {1}
