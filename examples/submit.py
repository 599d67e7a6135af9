"""Hand tasks to a cluster from another program: `cd examples && python submit.py`, beside a running `rota server`."""

import asyncio
import logging

import structlog

import rota


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    async with rota.Rota(roles=()) as client:  # no roles: it submits and watches, and runs nothing itself
        handle = await client.submit("greet", {"name": "Ada", "times": 2})
        task = await handle.wait("30s")
        print(task.status, task.result.data if task.result else task.error)


if __name__ == "__main__":
    asyncio.run(main())
