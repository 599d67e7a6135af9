"""Let other processes compute while this one stays free: `python draw.py`."""

import asyncio
import logging
import os
from pathlib import Path

import structlog

import rota

SETTINGS = {"store": {"url": "memory://"}, "worker": {"capacity": os.cpu_count() or 1}}  # one attempt for each core
APP = str(Path(__file__).with_name("fractal.py"))  # child processes import it from there


async def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    async with rota.Rota(SETTINGS, app=APP) as app:
        drawn = await app.submit("mandelbrot")
        endless = await app.submit("mandelbrot", {"depth": 10**9}, timeout="500ms")
        task = await drawn.wait("1m")
        if task.result is not None:
            print("\n".join(task.result.data["rows"]))
            print("in another process:", task.result.data["process"] != os.getpid())
        said = [line.message for line in await app.logs(drawn.id) if line.message.startswith("row")]
        print("said on the way:", said[-1])
        print("what would never end:", (await endless.wait("30s")).status)


if __name__ == "__main__":
    asyncio.run(main())
