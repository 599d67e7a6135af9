"""PgQueuer on PostgreSQL: two workers, batches of 500 both ways.

Its own `pgq run` does the same as this file when it is run, but fails with some releases of typer."""

import json

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, Job, PgQueuer, Queries

from bench.peers.common import BATCH, PAYLOAD, URL, batches, done

BODY = json.dumps(PAYLOAD).encode()


async def work() -> None:
    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))

    @queue.entrypoint("noop")
    async def noop(job: Job) -> None:
        done()

    await queue.run(batch_size=BATCH)


async def _produce(tasks: int) -> None:
    connection = await asyncpg.connect(URL)
    queries = Queries(AsyncpgDriver(connection))
    for number in batches(tasks):
        await queries.enqueue(["noop"] * number, [BODY] * number, [0] * number)
    await connection.close()


def produce(tasks: int) -> None:
    uvloop.run(_produce(tasks))


if __name__ == "__main__":
    uvloop.run(work())
