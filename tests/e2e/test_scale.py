"""Many tasks at once on one worker, many workers in one cluster."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import rota
from rota.application.node import Node
from rota.application.ports.executor import Job, Reports
from rota.application.work.registry import ExecutorRegistry
from rota.application.work.settings import WorkerPorts, WorkerSettings
from rota.application.work.spool import MemorySpool
from rota.application.work.worker import WorkerService
from rota.config.embedded import plan_for
from rota.config.wiring import open_node
from rota.domain.attempt import Outcome, Succeeded
from rota.domain.task import SUCCESS
from rota.domain.task_config import TaskConfig
from rota.infrastructure.database.migrate import upgrade
from rota.sdk.tasks import TaskRegistry
from tests.support import cluster_app
from tests.support.cluster import Cluster, a_cluster, eventually
from tests.support.names import fresh_name
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.redis import RedisServer

APP = Path(cluster_app.__file__)
WORKERS = 110
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def cluster(redis_server: RedisServer, mariadb_server: MariaDbServer, tmp_path: Path) -> Iterator[Cluster]:
    name = fresh_name("scale")
    mariadb_server.create_database(name)
    asyncio.run(upgrade(mariadb_server.url(name)))
    settings = {
        "store": {"url": mariadb_server.url(name)},
        "coordinator": {"url": redis_server.url(), "prefix": name},
        "worker": {"capacity": 1000},
    }
    with a_cluster(tmp_path, settings, app=APP) as running:
        yield running


async def test_a_thousand_tasks_of_a_second_run_at_once_on_one_worker(cluster: Cluster) -> None:
    cluster.start("scheduler", "scheduler")
    cluster.start("worker", "worker")
    async with rota.Rota(cluster.settings, roles=()) as client:
        handles = await client.submit_many("nap", [{"seconds": 1}] * 1000)
        views = await asyncio.gather(*(handle.wait("60s") for handle in handles))
    assert Counter(view.status for view in views) == {SUCCESS: 1000}
    starts = [view.started_at for view in views if view.started_at]
    ends = [view.completed_at for view in views if view.completed_at]
    assert max(starts) < min(ends), "some began only after others had ended"


class Instant:
    """An executor that is done at once."""

    async def start(self) -> None: ...

    def supports(self, config: TaskConfig) -> bool:
        return True

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        return Succeeded()

    async def close(self) -> None: ...


def a_worker(node: Node, number: int) -> WorkerService:
    ports = WorkerPorts(
        store=node.store,
        coordinator=node.coordinator,
        store_time=node.time,
        configs=node.configs,
        clock=node.clock,
        random=node.random,
        ids=node.ids,
        collector=node.collector,
        spool=MemorySpool(),
    )
    settings = WorkerSettings(name=f"worker-{number}", capacity=10)
    return WorkerService(ports, settings, executors=ExecutorRegistry({"local": Instant()}))


@asynccontextmanager
async def many_workers(cluster: Cluster) -> AsyncIterator[list[WorkerService]]:
    """Workers that share a process, each with a queue, a heartbeat and an incarnation of its own."""
    async with open_node(plan_for(cluster.settings, None, app=None, tasks=TaskRegistry())) as node:
        await node.store.configs.put(TaskConfig(type="instant"))
        workers = [a_worker(node, number) for number in range(WORKERS)]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        try:
            yield workers
        finally:
            for worker in workers:
                worker.stop()
            await asyncio.gather(*running)


async def test_a_hundred_workers_register_are_fed_evenly_and_drain(cluster: Cluster) -> None:
    cluster.start("scheduler", "scheduler")
    async with rota.Rota(cluster.settings, roles=()) as client, many_workers(cluster) as workers:

        async def all_registered() -> bool | None:
            return all(worker.worker_id for worker in workers) or None

        await eventually(all_registered, f"{WORKERS} workers to register", patience_s=90)
        handles = await client.submit_many("instant", [{}] * (10 * WORKERS))
        views = await asyncio.gather(*(handle.wait("90s") for handle in handles))
        assert Counter(view.status for view in views) == {SUCCESS: 10 * WORKERS}
        shares = Counter(view.worker_id for view in views)
        assert len(shares) == WORKERS
        assert max(shares.values()) <= 20, "somebody got more than twice an equal share"
    assert all(worker.load == 0 for worker in workers)
