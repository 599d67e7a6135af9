"""What does an installation take: memory, space for what waits, CPU when nothing happens?

    python bench/resources.py [--tasks 50000] [--seconds 10]

On MariaDB and Redis. The memory of each process when it has started, with so many tasks waiting, and after it has run
them (shared pages counted once); what a waiting task takes in Redis and in the tables; and the CPU that a cluster of
three pods (`rota server`, all roles) and its servers use while nobody asks for anything.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import noop_app
from bench.grounds import Ground, ground
from bench.installation import Installation, installed, opened
from bench.usage import cpu_seconds, memory_bytes
from rota.infrastructure.coordination.redis_client import RedisClient
from tests.support.cluster import a_cluster

PODS = 3
SETTLE_S = 6.0  # until an election, the first heartbeats and the first reconciliation are over
SIZE = "SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE CONCAT(DATABASE(), '/%')"


def measure_memory(where: Ground, tasks: int) -> dict[str, dict[str, float]]:
    """MiB of each process by moment, and bytes that a waiting task takes."""
    with installed(where) as installation:
        found = {"idle": _memory(installation)}
        before = asyncio.run(_space(installation))
        installation.produce(tasks)
        queued = asyncio.run(_space(installation))
        scheduler = installation.start_scheduler()
        installation.wait_until_done()
        found["after work"] = _memory(installation)
        scheduler.stop()
    found["bytes of a waiting task"] = {name: (queued[name] - before[name]) / tasks for name in queued}
    return found


def _memory(installation: Installation) -> dict[str, float]:
    pids = {process.name: process.pid for process in installation.cluster.processes if process.popen.poll() is None}
    return {name: memory_bytes(pid) / 2**20 for name, pid in {**installation.ground.pids, **pids}.items()}


async def _space(installation: Installation) -> dict[str, float]:
    """Bytes in the tables and in Redis."""
    async with opened(installation.settings) as ask:
        tables = await ask(SIZE)
    if installation.ground.redis is None:
        return {"tables": tables}
    client = RedisClient(installation.ground.redis.url())
    answer: bytes = await client.command("INFO", "memory")
    await client.close()
    fields = dict(line.split(b":", 1) for line in answer.splitlines() if b":" in line)
    return {"tables": tables, "redis": int(fields[b"used_memory"])}


def measure_idle_cpu(where: Ground, seconds: float) -> dict[str, float]:
    """Share of a core that each pod and each server uses."""
    settings = {**asyncio.run(where.fresh()), "api": {"port": 0, "grpc_port": 0}}
    with TemporaryDirectory() as folder, a_cluster(Path(folder), settings, app=Path(noop_app.__file__)) as cluster:
        pods = cluster.start_all("server", *(f"pod-{number + 1}" for number in range(PODS)))
        time.sleep(SETTLE_S)
        pids = {**{pod.name: pod.pid for pod in pods}, **where.pids}
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        time.sleep(seconds)
        return {name: (cpu_seconds(pid) - before[name]) / seconds for name, pid in pids.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    with ground("redis+mariadb") as where:
        for moment, figures in measure_memory(where, options.tasks).items():
            print(f"{moment:26s}{_line(figures, '.0f')}{'' if moment.startswith('bytes') else ' MiB'}")
        print(f"{'idle, share of a core':26s}{_line(measure_idle_cpu(where, options.seconds), '.1%')}")
    return 0


def _line(figures: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in figures.items())


if __name__ == "__main__":
    sys.exit(main())
