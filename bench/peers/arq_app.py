"""arq: two processes, a hundred jobs at once each, a short poll delay (its default of half a second is far slower)."""

import asyncio
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings

from bench.peers.common import AT_ONCE, PAYLOAD, URL, batches, done


async def noop(ctx: Any, *, to: str, subject: str, body: str) -> None:
    done()


class WorkerSettings:
    functions = (noop,)
    redis_settings = RedisSettings.from_dsn(URL)
    max_jobs = AT_ONCE
    poll_delay = 0.01
    keep_result = 0


async def _produce(tasks: int) -> None:
    pool = await create_pool(WorkerSettings.redis_settings)
    for number in batches(tasks, AT_ONCE):
        await asyncio.gather(*(pool.enqueue_job("noop", **PAYLOAD) for _ in range(number)))
    await pool.aclose()


def produce(tasks: int) -> None:
    asyncio.run(_produce(tasks))
