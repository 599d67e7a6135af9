"""Procrastinate on PostgreSQL: two workers with a hundred jobs at once each, created in two batches at once."""

import asyncio

from procrastinate import App, PsycopgConnector

from bench.peers.common import PAYLOAD, URL, create_in_lanes, done

app = App(connector=PsycopgConnector(conninfo=URL))


@app.task(name="noop")
async def noop(to: str, subject: str, *, body: str) -> None:
    done()


async def _produce(tasks: int) -> None:
    async with app.open_async():
        await create_in_lanes(tasks, lambda number: noop.batch_defer_async(*[PAYLOAD] * number))


def produce(tasks: int) -> None:
    asyncio.run(_produce(tasks))
