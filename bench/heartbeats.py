"""How much CPU an etcd uses for workers that have nothing to do: their heartbeats, and the waiting for work.

    python bench/heartbeats.py [--workers 100] [--seconds 30]

The workers are whole ones, with their settings as they are by default, in this process; a scheduler leads beside them.
Figures are shares of one core of the etcd: first with the scheduler alone, then with the workers.
"""

import asyncio
import logging
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rota
from bench.options import parser_of, within
from bench.usage import cpu_seconds
from tests.support.servers.etcd import EtcdServer

SETTLES_IN_S = 10  # joining costs more than being there


async def share_of_a_core(pid: int, seconds: float) -> float:
    await asyncio.sleep(SETTLES_IN_S)
    began, used = time.monotonic(), cpu_seconds(pid)
    await asyncio.sleep(seconds)
    return (cpu_seconds(pid) - used) / (time.monotonic() - began)


async def measure(etcd: EtcdServer, *, workers: int, seconds: float) -> None:
    settings = {"store": {"url": etcd.url()}, "coordinator": {"url": etcd.url()}, "metrics": {"collector": "none"}}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(rota.Rota(settings, roles=("scheduler",)))
        print(f"scheduler alone {await share_of_a_core(etcd.pid, seconds):8.1%} of a core", flush=True)
        for _ in range(workers):
            await stack.enter_async_context(rota.Rota(settings, roles=("worker",)))
        print(f"{workers:5d} workers   {await share_of_a_core(etcd.pid, seconds):8.1%} of a core", flush=True)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--workers", type=within(1), default=100, help="that have nothing to do")
    parser.add_argument("--seconds", type=within(0.1), default=30, help="of each measurement")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))  # the figures are the news
    with EtcdServer(durable=True, options=()) as etcd:
        asyncio.run(measure(etcd, workers=options.workers, seconds=options.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
