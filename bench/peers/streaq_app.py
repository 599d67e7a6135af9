"""streaQ: two processes with a hundred tasks at once each, created by its pipeline, two batches at once."""

import asyncio

from streaq import Worker

from bench.peers.common import AT_ONCE, PAYLOAD, URL, create_in_lanes, done

worker = Worker(redis_url=URL, concurrency=AT_ONCE)


@worker.task(name="noop", ttl=0)
async def noop(to: str, subject: str, *, body: str) -> None:
    done()


async def _produce(tasks: int) -> None:
    async with worker:
        await create_in_lanes(
            tasks, lambda number: worker.enqueue_many([noop.enqueue(**PAYLOAD) for _ in range(number)])
        )


def produce(tasks: int) -> None:
    asyncio.run(_produce(tasks))
