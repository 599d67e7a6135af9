"""Procrastinate on PostgreSQL: two workers with a hundred jobs at once each, created in batches."""

import asyncio

from procrastinate import App, PsycopgConnector

from bench.peers.common import PAYLOAD, URL, batches, done

app = App(connector=PsycopgConnector(conninfo=URL))


@app.task(name="noop")
async def noop(to: str, subject: str, *, body: str) -> None:
    done()


async def _produce(tasks: int) -> None:
    async with app.open_async():
        for number in batches(tasks):
            await noop.batch_defer_async(*[PAYLOAD] * number)


def produce(tasks: int) -> None:
    asyncio.run(_produce(tasks))
