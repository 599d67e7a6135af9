"""What runs does not depend on who leads."""

import asyncio
from pathlib import Path

import pytest

import rota
from tests.support import cluster_app
from tests.support.cluster import a_cluster, wait_until

pytestmark = [pytest.mark.timeout(90), pytest.mark.slow]
NAP_S = 10  # longer than a lease: the next leader has judged it by then


async def test_a_running_task_does_not_notice_that_its_leader_was_killed(tmp_path: Path) -> None:
    settings = {"store": {"url": f"sqlite:///{tmp_path}/rota.db"}, "coordinator": {"url": "sql://"}}
    with a_cluster(tmp_path, settings, app=Path(cluster_app.__file__)) as cluster:
        cluster.start_all("scheduler", "scheduler-1", "scheduler-2")
        cluster.start("worker", "worker")
        async with rota.Rota(settings, roles=()) as client:
            handle = await client.submit("nap", {"seconds": NAP_S})
            await asyncio.to_thread(wait_until, lambda: cluster.runs("began"), "the task to begin")
            leader = cluster.leader()
            leader.kill()
            task = await handle.wait("30s")
            assert (task.status, task.attempt, task.retry_count) == ("SUCCESS", 1, 0)
            assert cluster.leader() is not leader
        assert list(cluster.runs("began").values()) == [1]
