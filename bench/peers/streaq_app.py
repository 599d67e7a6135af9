"""streaQ: two processes with a hundred tasks at once each, created by its pipeline."""

import asyncio

from streaq import Worker

from bench.peers.common import AT_ONCE, PAYLOAD, URL, batches, done

worker = Worker(redis_url=URL, concurrency=AT_ONCE)


@worker.task(name="noop", ttl=0)
async def noop(to: str, subject: str, *, body: str) -> None:
    done()


async def _produce(tasks: int) -> None:
    async with worker:
        for number in batches(tasks):
            await worker.enqueue_many([noop.enqueue(**PAYLOAD) for _ in range(number)])


def produce(tasks: int) -> None:
    asyncio.run(_produce(tasks))
