"""PgQueuer on PostgreSQL: two workers, batches of 500 both ways, two of them being created at once.

Its own `pgq run` does the same as this file when it is run, but fails with some releases of typer."""

import json

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, Job, PgQueuer, Queries

from bench.peers.common import BATCH, LANES, PAYLOAD, URL, create_in_lanes, done

BODY = json.dumps(PAYLOAD).encode()


async def work() -> None:
    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))

    @queue.entrypoint("noop")
    async def noop(job: Job) -> None:
        done()

    await queue.run(batch_size=BATCH)


async def _produce(tasks: int) -> None:
    async with asyncpg.create_pool(URL, min_size=LANES, max_size=LANES) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await create_in_lanes(tasks, lambda number: queries.enqueue(["noop"] * number, [BODY] * number, [0] * number))


def produce(tasks: int) -> None:
    uvloop.run(_produce(tasks))


if __name__ == "__main__":
    uvloop.run(work())
