"""Submit twenty tasks at once and say which worker ran how many: `python spread.py`, beside running processes."""

import asyncio
import logging
from collections import Counter

import structlog

import rota


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    async with rota.Rota(roles=()) as client:
        handles = await client.submit_many("long_nap", [{"seconds": 2}] * 20)
        tasks = await asyncio.gather(*(handle.wait("1m") for handle in handles))
    for worker, number in Counter(task.worker_id for task in tasks).items():
        print(f"worker {worker} finished {number}")
    for (status, attempt), number in Counter((str(task.status), task.attempt) for task in tasks).items():
        print(f"{number} ended as {status} at attempt {attempt}")


if __name__ == "__main__":
    asyncio.run(main())
