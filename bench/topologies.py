"""How many no-op tasks a second one process with all roles carries from submit to result, by where it keeps them.

    python bench/topologies.py [--tasks 6000] [embedded|redis+mariadb|redis|etcd …]

Servers are durable and on this machine, so the figures are for comparing, and an installation of several machines is
faster. The clock runs from the first submit until the store says that the last task ended.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rota
from bench import noop_app
from bench.workload import PAYLOAD
from rota.domain.task import SUCCESS
from rota.infrastructure.database.migrate import upgrade
from tests.support.servers.etcd import EtcdServer
from tests.support.servers.mariadb import MariaDbOptions, MariaDbServer
from tests.support.servers.redis import RedisServer

NOOP = noop_app.noop  # its tasks are known once it is imported
BATCH = 500
LOOK_EVERY_S = 0.1
MOST_LOOKS = 300


@contextmanager
def embedded(folder: Path) -> Iterator[dict[str, Any]]:
    yield {"store": {"url": f"sqlite:///{folder}/rota.db"}, "coordinator": {"url": "memory://"}}


@contextmanager
def on_redis_and_mariadb(folder: Path) -> Iterator[dict[str, Any]]:
    with RedisServer(durable=True) as redis, MariaDbServer(MariaDbOptions(durable=True)) as mariadb:
        asyncio.run(upgrade(mariadb.url()))
        yield {"store": {"url": mariadb.url()}, "coordinator": {"url": redis.url()}}


@contextmanager
def on_redis(folder: Path) -> Iterator[dict[str, Any]]:
    with RedisServer(durable=True) as redis:
        yield {"store": {"url": redis.url()}, "coordinator": {"url": redis.url()}}


@contextmanager
def on_etcd(folder: Path) -> Iterator[dict[str, Any]]:
    with EtcdServer(durable=True, options=()) as etcd:
        yield {"store": {"url": etcd.url()}, "coordinator": {"url": etcd.url()}}


TOPOLOGIES = {"embedded": embedded, "redis+mariadb": on_redis_and_mariadb, "redis": on_redis, "etcd": on_etcd}


async def measure(settings: dict[str, Any], tasks: int) -> float:
    settings = {**settings, "worker": {"capacity": 500}, "api": {"port": 0, "grpc_port": 0}}
    async with rota.Rota(settings, roles=("scheduler", "worker")) as app:
        warm = await app.submit_many("noop", [{}] * 50)
        await asyncio.gather(*(handle.wait("60s") for handle in warm))
        begun = time.perf_counter()
        for start in range(0, tasks, BATCH):
            await app.submit_many("noop", [PAYLOAD] * min(BATCH, tasks - start))
        last = await app.submit("noop", {})  # of the same priority: it ends last, or nearly so
        await last.wait("120s")
        for _ in range(MOST_LOOKS):
            if (await app.count()).get(SUCCESS, 0) > tasks + len(warm):
                return tasks / (time.perf_counter() - begun)
            await asyncio.sleep(LOOK_EVERY_S)
    raise RuntimeError("not all tasks ended well")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help=", ".join(TOPOLOGIES))
    parser.add_argument("--tasks", type=int, default=6000)
    options = parser.parse_args()
    for name in options.names or TOPOLOGIES:
        with TemporaryDirectory() as folder, TOPOLOGIES[name](Path(folder)) as settings:
            print(f"{name:16s}{asyncio.run(measure(settings, options.tasks)):8.0f} tasks/s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
