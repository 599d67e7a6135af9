"""Work goes on when the primary of a Redis of several servers is lost, with no other coordinator to stand in.

Everything that is submitted is done in time, and nothing is granted twice. Bounds are those of the failure modes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta

import pytest

from rota.application.ports.coordinator import Coordinator
from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.priority import NORMAL
from rota.domain.queue import QueueEntry
from rota.infrastructure.coordination.redis.coordinator import open_redis_coordinator
from rota.infrastructure.system import SystemClock
from rota.testing.contract.coordinator_backend import WORKER_1, WORKER_2
from tests.support.cluster import at_most
from tests.support.miniature import MiniWorker, Scheduler, TaskSet, running
from tests.support.require import require_server
from tests.support.servers.redis_cluster import RedisCluster
from tests.support.servers.redis_sentinel import RedisSentinels

CLOCK = SystemClock()
SENTINEL_WITHIN, CLUSTER_WITHIN = 10, 15  # seconds
DOWN_AFTER = timedelta(seconds=5)  # as the guide says


@asynccontextmanager
async def at_work(url: str, tasks: TaskSet) -> AsyncIterator[Coordinator]:
    """Two schedulers and two workers; the coordinator of a third process, which submits."""
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(open_redis_coordinator(url)) for _ in range(5)]
        schedulers = [
            Scheduler(node, tasks, clock=CLOCK, name=f"node-{number}") for number, node in enumerate(nodes[1:3])
        ]
        workers = [
            MiniWorker(node, tasks, clock=CLOCK, worker_id=worker_id)
            for node, worker_id in zip(nodes[3:], (WORKER_1, WORKER_2), strict=True)
        ]
        steps = [one.step for one in schedulers] + [step for one in workers for step in (one.beat, one.work)]
        async with running(*steps, clock=CLOCK):
            yield nodes[0]


async def submit(node: Coordinator, tasks: TaskSet) -> None:
    """What cannot be queued now is found by who compares."""
    with suppress(CoordinatorUnavailableError):
        await node.queue.push([QueueEntry(task_id, NORMAL) for task_id in tasks.add(50)])


async def go_on(url: str, kill: Callable[[], None], *, within: int) -> None:
    tasks = TaskSet()
    async with at_work(url, tasks) as node:
        await submit(node, tasks)
        await tasks.wait_until_done()
        await submit(node, tasks)
        kill()
        await submit(node, tasks)
        async with asyncio.timeout(at_most(within).total_seconds()):
            await tasks.wait_until_done()
        for _ in range(3):
            await submit(node, tasks)
            await tasks.wait_until_done()


@pytest.mark.slow
async def test_work_goes_on_after_sentinels_have_replaced_a_primary() -> None:
    require_server("redis")
    with RedisSentinels(down_after=DOWN_AFTER) as servers:
        await go_on(servers.url(), servers.primary.kill, within=SENTINEL_WITHIN)


@pytest.mark.slow
async def test_work_goes_on_after_a_cluster_has_lost_a_node() -> None:
    require_server("redis")
    with RedisCluster(node_timeout=DOWN_AFTER) as servers:
        await go_on(servers.url(), servers.find_owner("{rota}").server.kill, within=CLUSTER_WITHIN)
