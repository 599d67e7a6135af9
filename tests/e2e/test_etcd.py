"""Clusters of real processes on etcd and nothing else."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

import rota
from rota.domain.errors import UnavailableError
from rota.domain.task import SUCCESS
from rota.infrastructure.etcd.client import EtcdClient
from rota.infrastructure.etcd.ops import scan, under
from tests.support import cluster_app
from tests.support.cluster import Cluster, a_cluster, eventually, wait_until
from tests.support.key_tables import find_row, read_key_table
from tests.support.names import fresh_name
from tests.support.patience import PATIENT_ETCD
from tests.support.require import require_server
from tests.support.servers.etcd import EtcdCluster, EtcdServer

APP = Path(cluster_app.__file__)
pytestmark = pytest.mark.timeout(180)


def on_etcd(url: str, name: str) -> dict[str, dict[str, str]]:
    return {"store": {"url": url}, "coordinator": {"url": url, "prefix": name}}


@pytest.fixture
def cluster(etcd_server: EtcdServer, tmp_path: Path) -> Iterator[Cluster]:
    name = fresh_name("e2e")
    with a_cluster(tmp_path, on_etcd(etcd_server.url(name), name), app=APP) as running:
        yield running


async def count_ends(handles: Sequence[rota.Handle]) -> Counter[str]:
    return Counter(task.status for task in await asyncio.gather(*(handle.wait("90s") for handle in handles)))


async def test_etcd_alone_runs_everything_exactly_once(cluster: Cluster, etcd_server: EtcdServer) -> None:
    cluster.start_all("server", "pod-1", "pod-2")
    async with rota.Rota(cluster.settings, roles=()) as client:
        plain = await client.submit_many("noop", [{}] * 100)
        single = [await client.submit("noop", {}) for _ in range(10)]
        single += [await client.submit("work", {}) for _ in range(5)]  # in child processes
        flaky = await client.submit("flaky", {"failures": 1})
        later = await client.submit("noop", {}, delay="1s", priority="high")
        assert await count_ends([*plain, *single, flaky, later]) == {SUCCESS: 117}
    assert Counter(cluster.runs().values()) == {1: 116, 2: 1}  # the flaky one failed once
    assert await list_unlisted_keys(etcd_server, cluster.settings["coordinator"]["prefix"]) == []


async def list_unlisted_keys(server: EtcdServer, prefix: str) -> list[tuple[str, bytes]]:
    """Keys that the guide does not list, or whose value is no JSON where it does not say so."""
    table, root = read_key_table("on-etcd-alone.md"), f"/{prefix}/"
    client = EtcdClient(server.url(), PATIENT_ETCD, unavailable=UnavailableError)
    try:
        [found] = (await client.read([scan(under(root))])).answers
    finally:
        await client.close()
    values = {kv.key.decode().removeprefix(root): kv.value for kv in found.range.kvs}
    assert "configs/default/noop" in values
    return [(key, value) for key, value in values.items() if not is_as_listed(find_row(table, key), value)]


def is_as_listed(said: str | None, value: bytes) -> bool:
    return said is not None and (is_json(value) or ("text" if value else "empty") in said)


def is_json(value: bytes) -> bool:
    try:
        msgspec.json.decode(value)
    except msgspec.DecodeError:
        return False
    return True


@pytest.mark.slow  # a worker's lease has to run out, and a leader's
async def test_on_etcd_alone_the_tasks_of_a_killed_pod_run_elsewhere(cluster: Cluster) -> None:
    first, _ = cluster.start_all("server", "pod-1", "pod-2")
    async with rota.Rota(cluster.settings, roles=()) as client:
        naps = [await client.submit("nap", {"seconds": 3}) for _ in range(4)]
        await asyncio.to_thread(wait_until, lambda: len(cluster.runs("began")) >= 4, "4 tasks to begin")
        first.kill()
        assert await count_ends(naps) == {SUCCESS: 4}


async def find_etcd_leader(etcd: EtcdCluster) -> EtcdServer:
    for server in etcd.servers:
        client = EtcdClient(server.url(), PATIENT_ETCD, unavailable=UnavailableError)
        try:
            status = await client.status()
        finally:
            await client.close()
        if status.leader == status.header.member_id:
            return server
    raise AssertionError("the etcd has no leader")


@pytest.mark.slow  # three servers
async def test_an_etcd_that_loses_its_leader_loses_no_task_and_changes_no_leader_of_rota(tmp_path: Path) -> None:
    require_server("etcd")
    with EtcdCluster() as etcd, a_cluster(tmp_path, on_etcd(etcd.url(), "rota"), app=APP) as cluster:
        cluster.start_all("server", "pod-1", "pod-2")
        leader = await asyncio.to_thread(cluster.leader)
        async with rota.Rota(cluster.settings, roles=()) as client:
            before = await client.submit_many("noop", [{}] * 50)
            (await find_etcd_leader(etcd)).kill()
            ask = partial(client.submit, "noop", {}, idempotency_key="without the leader")
            during = await eventually(ask, "a submit to be answered")  # while etcd has no leader, none is
            assert await count_ends([*before, during]) == {SUCCESS: 51}
        assert await asyncio.to_thread(cluster.leader) is leader
