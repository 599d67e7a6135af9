"""What does an installation take: memory, space for what waits, CPU when nothing happens?

    python bench/resources.py [--tasks 50000] [--seconds 10]

On MariaDB and Redis. The memory of each process when it has started, with so many tasks waiting, and after it has run
them (shared pages counted once); what a waiting task takes in Redis and in the tables; and the CPU that a cluster of
three pods (`rota server`, all roles), ten more workers and its servers use while nobody asks for anything.
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import noop_app
from bench.end_to_end import say
from bench.grounds import Ground, ground
from bench.installation import Installation, installed, opened, redis_bytes
from bench.options import parser_of, within
from bench.usage import cpu_seconds, memory_bytes
from tests.support.cluster import a_cluster

BYTES = "bytes"
PODS = 3
WORKERS = 10  # beside those of the pods
STEADY = 50_000  # tasks; the tables' files grow by megabytes at a time
SETTLE_S = 6.0  # until an election, the first heartbeats and the first reconciliation are over
SIZE = "SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE CONCAT(DATABASE(), '/%')"


def measure_memory(where: Ground, tasks: int) -> dict[str, dict[str, float]]:
    """MiB of each process by moment, and bytes that a waiting task takes."""
    with installed(where) as installation:
        found = {"idle": _memory(installation)}
        before = asyncio.run(_space(installation))
        say(f"memory: {tasks:,} tasks are created, and run …")
        installation.produce(tasks)
        queued = asyncio.run(_space(installation))
        scheduler = installation.start_scheduler()
        installation.wait_until_done()
        found["after work"] = _memory(installation)
        scheduler.stop()
    found[f"{BYTES} of a waiting task"] = {name: (queued[name] - before[name]) / tasks for name in queued}
    return found


def doubt(tasks: int) -> str:
    """What is to be said beside the bytes of a waiting task."""
    return f"of {tasks:,} tasks alone: files grow by megabytes, so that it says little" if tasks < STEADY else ""


def _memory(installation: Installation) -> dict[str, float]:
    pids = {process.name: process.pid for process in installation.cluster.processes if process.popen.poll() is None}
    return {name: memory_bytes(pid) / 2**20 for name, pid in {**installation.ground.pids, **pids}.items()}


async def _space(installation: Installation) -> dict[str, float]:
    """Bytes in the tables and in Redis."""
    async with opened(installation.settings) as ask:
        return {"tables": await ask(SIZE), "redis": await redis_bytes(installation.ground)}


def measure_idle_cpu(where: Ground, seconds: float) -> dict[str, float]:
    """Share of a core: of the pod that leads, of the others, of the workers, of all these, and of each server."""
    settings = {**asyncio.run(where.fresh()), "api": {"port": 0, "grpc_port": 0}}
    with TemporaryDirectory() as folder, a_cluster(Path(folder), settings, app=Path(noop_app.__file__)) as cluster:
        say(f"idle CPU: {PODS} pods and {WORKERS} workers are started, and watched for {seconds:g} s …")
        pods = cluster.start_all("server", *(f"pod-{number + 1}" for number in range(PODS)))
        workers = cluster.start_all("worker", *(f"worker-{number + 1}" for number in range(WORKERS)))
        time.sleep(SETTLE_S)
        pids = {**{process.name: process.pid for process in (*pods, *workers)}, **where.pids}
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        time.sleep(seconds)
        used = {name: (cpu_seconds(pid) - before[name]) / seconds for name, pid in pids.items()}
        leading = next((pod.name for pod in pods if pod.said("leader.won")), pods[0].name)
    return {
        "the pod that leads": used[leading],
        f"the other {PODS - 1} pods": sum(used[pod.name] for pod in pods if pod.name != leading),
        f"{WORKERS} workers": sum(used[worker.name] for worker in workers),
        "all of Rota": sum(used[process.name] for process in (*pods, *workers)),
        **{name: used[name] for name in where.pids},
    }


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--tasks", type=within(1_000), default=STEADY, help="that wait, and are run")
    parser.add_argument("--seconds", type=within(0.1), default=10.0, help="that the idle cluster is watched for")
    options = parser.parse_args()
    with ground("redis+mariadb") as where:
        for moment, figures in measure_memory(where, options.tasks).items():
            is_bytes = moment.startswith(BYTES)
            print(f"{moment:26s}{_line(figures, '.0f')}{'' if is_bytes else ' MiB'}")
            if is_bytes and (told := doubt(options.tasks)):
                print(f"{'':26s}{told}")
        print(f"{'idle, share of a core':26s}{_line(measure_idle_cpu(where, options.seconds), '.1%')}")
    return 0


def _line(figures: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in figures.items())


if __name__ == "__main__":
    sys.exit(main())
