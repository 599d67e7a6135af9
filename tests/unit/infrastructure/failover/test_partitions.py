"""Whoever loses sight of either side, and whenever: what was submitted is done, soon after the ways are open again."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from random import Random

import pytest

from rota.domain.errors import CoordinatorUnavailableError
from rota.domain.priority import NORMAL
from rota.domain.queue import QueueEntry
from rota.testing.contract.coordinator_backend import WORKER_1, WORKER_2
from rota.testing.virtual_time import run_virtually
from tests.support.miniature import MiniWorker, Scheduler, TaskSet, running
from tests.unit.infrastructure.failover.cluster import Cluster, Process

SEEDS = range(8)
ROUNDS = 60
DONE_WITHIN_S = 15
ONE_CUT_S = 5.0


async def open_processes(cluster: Cluster, stack: AsyncExitStack, *, tasks: TaskSet) -> list[Process]:
    """An API process, two schedulers and two workers at work."""
    api, a, b, first, second = [await stack.enter_async_context(cluster.start()) for _ in range(5)]
    schedulers = [Scheduler(one.node, tasks, clock=cluster.clock, name=name) for one, name in ((a, "a"), (b, "b"))]
    workers = [
        MiniWorker(one.node, tasks, clock=cluster.clock, worker_id=worker_id)
        for one, worker_id in ((first, WORKER_1), (second, WORKER_2))
    ]
    steps = [one.step for one in schedulers] + [step for one in workers for step in (one.beat, one.work)]
    await stack.enter_async_context(running(*steps, clock=cluster.clock))
    return [api, a, b, first, second]


async def submit(api: Process, tasks: TaskSet, *, count: int) -> None:
    try:
        await api.node.queue.push([QueueEntry(task_id, NORMAL) for task_id in tasks.add(count)])
    except CoordinatorUnavailableError:
        return  # the row is there: that is enough


@pytest.mark.parametrize("seed", SEEDS)
def test_no_task_is_forgotten_whatever_is_cut(seed: int) -> None:
    async def main() -> None:
        chance, cluster, tasks = Random(seed), Cluster(), TaskSet()
        async with AsyncExitStack() as stack:
            processes = await open_processes(cluster, stack, tasks=tasks)
            ways = [way for one in processes for way in (one.primary_way, one.fallback_way)]
            for _ in range(ROUNDS):
                way = chance.choice(ways)
                (way.begin if chance.random() < 0.5 else way.end)()
                if chance.random() < 0.1:
                    cluster.primary.forget()
                await submit(processes[0], tasks, count=chance.randrange(5))
                await cluster.clock.sleep(timedelta(seconds=chance.random() * 3))
            for way in ways:
                way.end()
            async with asyncio.timeout(DONE_WITHIN_S):
                await tasks.wait_until_done()

    run_virtually(main())


@pytest.mark.parametrize("victim", range(5))
def test_one_process_without_the_primary_holds_up_nobody(victim: int) -> None:
    async def main() -> None:
        cluster, tasks = Cluster(), TaskSet()
        async with AsyncExitStack() as stack:
            processes = await open_processes(cluster, stack, tasks=tasks)
            await cluster.pass_time(3)
            processes[victim].primary_way.begin()
            for _ in range(30):
                await submit(processes[0], tasks, count=3)
                async with asyncio.timeout(ONE_CUT_S):
                    await tasks.wait_until_done()
                await cluster.pass_time(0.5)

    run_virtually(main())
