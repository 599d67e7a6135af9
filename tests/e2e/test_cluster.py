"""Clusters of real processes on real servers: the whole way of a task, and what happens when a process dies."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.application.manage_workers import ManageWorkers
from rota.application.ports.store import WorkerRecord
from rota.domain.task import SUCCESS, TaskStatus
from rota.infrastructure.database.migrate import upgrade
from tests.support import cluster_app
from tests.support.cluster import Cluster, a_cluster, at_most, eventually, wait_until
from tests.support.names import fresh_name
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer

APP = Path(cluster_app.__file__)
pytestmark = pytest.mark.timeout(180)


def on_redis(redis: RedisServer, store_url: str) -> dict[str, Any]:
    return {"store": {"url": store_url}, "coordinator": {"url": redis.url(), "prefix": fresh_name("e2e")}}


@pytest.fixture
def cluster(redis_server: RedisServer, mariadb_server: MariaDbServer, tmp_path: Path) -> Iterator[Cluster]:
    """Empty, on Redis and MariaDB."""
    url = a_database(mariadb_server)
    with a_cluster(tmp_path, on_redis(redis_server, url), app=APP) as running:
        yield running


@pytest.fixture(params=["redis+mariadb", pytest.param("sql+postgres", marks=pytest.mark.slow)])
def each_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Empty, on Redis and MariaDB, then on PostgreSQL alone."""
    if request.param == "redis+mariadb":
        yield request.getfixturevalue("cluster")
        return
    url = a_database(request.getfixturevalue("postgres_server"))
    with a_cluster(tmp_path, {"store": {"url": url}, "coordinator": {"url": "sql://"}}, app=APP) as running:
        yield running


def a_database(server: MariaDbServer | PostgresServer) -> str:
    name = fresh_name("e2e")
    server.create_database(name)
    asyncio.run(upgrade(server.url(name)))
    return server.url(name)


@asynccontextmanager
async def a_client(cluster: Cluster) -> AsyncIterator[rota.Rota]:
    """A node without roles: it submits and watches."""
    async with rota.Rota(cluster.settings, roles=()) as client:
        yield client


async def end_of_all(handles: Sequence[rota.Handle], *, within: str | timedelta) -> Counter[TaskStatus]:
    return Counter(task.status for task in await asyncio.gather(*(handle.wait(within) for handle in handles)))


async def begun(cluster: Cluster, number: int) -> None:
    """Wait until this many tasks noted that they began."""
    await asyncio.to_thread(wait_until, lambda: len(cluster.runs("began")) >= number, f"{number} tasks to begin")


@pytest.mark.parametrize("each_cluster", ["redis+mariadb", "sql+postgres"], indirect=True)
async def test_three_pods_and_two_workers_run_everything_exactly_once(each_cluster: Cluster) -> None:
    cluster = each_cluster
    cluster.start_all("server", "pod-1", "pod-2", "pod-3")
    workers = cluster.start_all("worker", "extra-1", "extra-2")
    async with a_client(cluster) as client:
        plain = await client.submit_many("noop", [{}] * 200)
        single = [await client.submit("work", {"seconds": 0}) for _ in range(10)]
        flaky = await client.submit("flaky", {"failures": 2})
        later = await client.submit("noop", {}, delay="1s", priority="high")
        assert await end_of_all([*plain, *single, flaky, later], within="60s") == {SUCCESS: 212}
        view = await flaky.get()
        assert (view.attempt, view.retry_count, view.result and view.result.data) == (3, 2, 3)
    runs = cluster.runs()
    assert Counter(runs.values()) == {1: 211, 3: 1}
    assert [worker.stop() for worker in workers] == [0, 0]


async def test_the_tasks_of_a_killed_worker_succeed_elsewhere_within_fifteen_seconds(each_cluster: Cluster) -> None:
    cluster = each_cluster
    cluster.start("scheduler", "scheduler")
    busy = cluster.start("worker", "busy")
    async with a_client(cluster) as client:
        handles = await client.submit_many("nap", [{"seconds": 2}] * 5)
        await begun(cluster, 5)
        busy.kill()
        cluster.launch("worker", "other")
        assert await end_of_all(handles, within=at_most(15 + 2)) == {SUCCESS: 5}  # the nap takes 2 s
        assert {(await handle.get()).attempt for handle in handles} == {2}


async def test_a_worker_is_drained_resized_and_resumed_through_another_node(each_cluster: Cluster) -> None:
    cluster = each_cluster
    cluster.start("scheduler", "scheduler")
    cluster.start("worker", "only")
    async with a_client(cluster) as client:
        office = ManageWorkers(client._get_built().roles.node)

        async def seen(capacity: int, is_draining: bool) -> WorkerRecord | None:
            for record in await office.list(alive_only=True):  # it may not have joined yet
                if (record.worker.capacity, record.worker.is_draining) == (capacity, is_draining):
                    return record
            return None

        record = await eventually(partial(seen, 10, False), "the worker to join")
        await office.set_capacity(record.worker.id, 2)
        await office.drain(record.worker.id)
        await eventually(partial(seen, 2, True), "the worker to drain")
        handles = await client.submit_many("work", [{"seconds": 0}] * 3)
        await office.resume(record.worker.id)
        assert await end_of_all(handles, within="60s") == {SUCCESS: 3}
        await eventually(partial(seen, 2, False), "the worker to resume")


async def test_dispatch_goes_on_within_eight_seconds_of_a_killed_leader(each_cluster: Cluster) -> None:
    cluster = each_cluster
    cluster.start_all("scheduler", "scheduler-1", "scheduler-2")
    cluster.start("worker", "worker")
    async with a_client(cluster) as client:
        await (await client.submit("noop")).wait("60s")
        leader = cluster.leader()
        leader.kill()
        handle = await client.submit("noop")
        assert (await handle.wait(at_most(8))).status is SUCCESS
    assert cluster.leader() is not leader


async def test_dispatch_goes_on_within_a_second_of_a_stopped_leader(each_cluster: Cluster) -> None:
    cluster = each_cluster
    schedulers = cluster.start_all("scheduler", "scheduler-1", "scheduler-2")
    cluster.start("worker", "worker")
    async with a_client(cluster) as client:
        await (await client.submit("noop")).wait("60s")
        leader = cluster.leader()
        leader.send(signal.SIGTERM)
        handle = await client.submit("noop")
        assert (await handle.wait(at_most(1))).status is SUCCESS
        leader.popen.wait(10)
    assert cluster.leader() in schedulers


async def test_a_terminated_worker_hands_its_tasks_on_without_spending_a_retry(cluster: Cluster) -> None:
    cluster.write_settings(worker={"drain_timeout": "500ms", "stop_grace": "200ms"})
    cluster.start("scheduler", "scheduler")
    first = cluster.start("worker", "first")
    async with a_client(cluster) as client:
        handles = await client.submit_many("second_time_lucky", [{}] * 3)
        await begun(cluster, 3)
        cluster.start("worker", "second")
        assert first.stop() == 0
        assert await end_of_all(handles, within="60s") == {SUCCESS: 3}
        assert {((await handle.get()).attempt, (await handle.get()).retry_count) for handle in handles} == {(2, 0)}


async def test_what_tasks_do_to_their_process_costs_that_attempt_alone(cluster: Cluster) -> None:
    cluster.write_settings(worker={"task_memory": "1GiB"})
    cluster.start("scheduler", "scheduler")
    worker = cluster.start("worker", "worker")
    async with a_client(cluster) as client:
        spin, leave, crash, gorge = [await client.submit(name) for name in ("spin", "leave", "crash", "gorge")]
        ends = [(await handle.wait("60s")) for handle in (spin, leave, crash, gorge)]
        assert [view.status for view in ends] == ["TIMEOUT", "FAILED", "FAILED", "FAILED"]
        assert ends[0].completed_at is not None
        assert ends[0].started_at is not None
        assert ends[0].completed_at - ends[0].started_at < at_most(2 + 2)
        assert [view.error and view.error.code for view in ends[1:]] == [
            "worker_process_died",
            "worker_process_died",
            "MemoryError",
        ]
        again = await client.submit_many("work", [{"seconds": 0}] * 10)
        assert await end_of_all(again, within="60s") == {SUCCESS: 10}
    assert worker.popen.poll() is None


async def test_a_blocked_task_loop_does_not_get_its_worker_declared_dead(cluster: Cluster) -> None:
    cluster.write_settings(worker={"lease": "2s", "heartbeat_interval": "500ms", "stop_grace": "500ms"})
    cluster.start("scheduler", "scheduler")
    worker = cluster.start("worker", "worker")
    async with a_client(cluster) as client:
        handle = await client.submit("block_loop", {"seconds": 4})
        view = await handle.wait("60s")
        assert (view.status, view.attempt) == (SUCCESS, 1)
    assert worker.wait_for("task_loop.blocked")


async def test_a_limited_type_never_runs_beyond_its_limit(cluster: Cluster) -> None:
    cluster.start("scheduler", "scheduler")
    cluster.start_all("worker", "worker-1", "worker-2")
    async with a_client(cluster) as client:
        handles = await client.submit_many("limited", [{"seconds": 0.1}] * 12)
        assert await end_of_all(handles, within="60s") == {SUCCESS: 12}
    running, most = 0, 0
    for note in map(json.loads, cluster.ledger.read_text().splitlines()):
        running += 1 if note["what"] == "began" else -1
        most = max(most, running)
    assert most == 2


async def test_settings_change_while_a_process_runs(cluster: Cluster) -> None:
    cluster.write_settings(worker={"capacity": 1})
    pod = cluster.start("server", "pod")
    cluster.write_settings(worker={"capacity": 7}, scheduler={"balancer": "round_robin"}, log={"level": "debug"})
    pod.send(signal.SIGHUP)
    changed = pod.wait_for("settings.changed")
    assert set(changed["settings"]) == {"worker.capacity", "scheduler.balancer", "log.level"}
    async with a_client(cluster) as client:
        handles = await client.submit_many("nap", [{"seconds": 3}] * 7)
        await begun(cluster, 7)
        assert await end_of_all(handles, within="60s") == {SUCCESS: 7}


async def test_several_worker_processes_under_one_command(cluster: Cluster) -> None:
    cluster.start("scheduler", "scheduler")
    group = cluster.start("worker", "group", "--processes", "2")
    await asyncio.to_thread(
        wait_until, lambda: sum(line.get("event") == "worker.online" for line in group.events()) >= 2, "two workers"
    )
    async with a_client(cluster) as client:
        handles = await client.submit_many("nap", [{"seconds": 0.5}] * 20)
        assert await end_of_all(handles, within="60s") == {SUCCESS: 20}
        assert len({(await handle.get()).worker_id for handle in handles}) == 2
    assert group.stop() == 0
