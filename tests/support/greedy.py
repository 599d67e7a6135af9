"""How much a worker grows by a server that sends too much, in a process that has not met one before.

    python -m tests.support.greedy MAX_RESPONSE URL

prints the growth in bytes: the peak during the attempt less what was held before it. In a process that has been flooded
already the memory is there, and nothing would show.
"""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from rota.domain.attempt import Failed
from rota.infrastructure.executors.http.settings import HttpSettings
from tests.support.http_jobs import LOOPBACK, an_http_executor, an_http_job, run

BRIEF = timedelta(seconds=0.7)  # enough to be flooded


def read_memory(field: str) -> int:
    """`VmRSS` is what is held now, `VmHWM` the peak since it was last forgotten."""
    return int(Path("/proc/self/status").read_text("ascii").split(f"{field}:")[1].split()[0]) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", "ascii")


async def measure(most: int, url: str) -> int:
    settings = HttpSettings(allow=LOOPBACK, max_response=most)
    async with an_http_executor(settings) as executor:  # what is loaded once is loaded now, and none of it is much
        await run(executor, an_http_job(f"{url.rpartition('/')[0]}/fine"))
    async with an_http_executor(settings) as executor:
        await run(executor, an_http_job(f"{url.rpartition('/')[0]}/gzip_fine"))
    async with an_http_executor(settings) as executor:  # a connection of its own: the last one may be closing
        forget_peak()
        before = read_memory("VmRSS")
        outcome = await run(executor, an_http_job(url, within=BRIEF))
        grown = read_memory("VmHWM") - before
    if isinstance(outcome, Failed) and outcome.error.code == "connection_failed":
        raise RuntimeError("there was no flood, and nothing was measured")
    return grown


if __name__ == "__main__":
    sys.stdout.write(str(asyncio.run(measure(int(sys.argv[1]), sys.argv[2]))))
