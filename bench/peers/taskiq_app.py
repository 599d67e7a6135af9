"""Taskiq on a Redis list: two processes, no results."""

import asyncio

from taskiq_redis import ListQueueBroker

from bench.peers.common import AT_ONCE, PAYLOAD, URL, batches, done

broker = ListQueueBroker(URL)


@broker.task(task_name="noop")
async def noop(to: str, subject: str, *, body: str) -> None:
    done()


async def _produce(tasks: int) -> None:
    await broker.startup()
    for number in batches(tasks, AT_ONCE):
        await asyncio.gather(*(noop.kiq(**PAYLOAD) for _ in range(number)))
    await broker.shutdown()


def produce(tasks: int) -> None:
    asyncio.run(_produce(tasks))
