"""SAQ on Redis: two processes with a hundred tasks at once each."""

import asyncio
from typing import Any

from saq import Queue

from bench.peers.common import AT_ONCE, PAYLOAD, URL, batches, done

queue = Queue.from_url(URL)


async def noop(ctx: Any, *, to: str, subject: str, body: str) -> None:
    done()


settings = {"queue": queue, "functions": [noop], "concurrency": AT_ONCE}


async def _produce(tasks: int) -> None:
    await queue.connect()
    for number in batches(tasks, AT_ONCE):
        await asyncio.gather(*(queue.enqueue("noop", ttl=-1, **PAYLOAD) for _ in range(number)))
    await queue.disconnect()


def produce(tasks: int) -> None:
    asyncio.run(_produce(tasks))
