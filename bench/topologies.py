"""How many no-op tasks a second one process with all roles carries from submit to result, by where it keeps them.

    python bench/topologies.py [--tasks 20000] [--rounds 3] [embedded|redis+mariadb|redis|etcd|sql+postgresql …]

Servers are durable and on this machine, so the figures are for comparing, and an installation of several machines is
faster. Each round has every topology once, on new servers, so that whatever else the machine does meanwhile is shared
by all. The clock runs from the first submit until the store says that the last task ended. Prints a table, and writes
it to `bench/results/topologies.md`.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import structlog

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rota
from bench import noop_app
from bench.options import parser_of, within
from bench.outcome import describe_machine
from bench.workload import PAYLOAD
from rota.domain.task import SUCCESS
from rota.infrastructure.database.migrate import upgrade
from tests.support.servers.etcd import EtcdServer
from tests.support.servers.mariadb import MariaDbOptions, MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer

NOOP = noop_app.nothing  # its tasks are known once it is imported
BATCH = 500
LOOK_EVERY_S = 0.1
MOST_LOOKS = 300
RESULTS = Path(__file__).with_name("results")


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


@contextmanager
def on_postgresql(folder: Path) -> Iterator[dict[str, Any]]:
    with PostgresServer(durable=True) as postgres:
        asyncio.run(upgrade(postgres.url()))
        yield {"store": {"url": postgres.url()}, "coordinator": {"url": "sql://"}}


TOPOLOGIES = {
    "embedded": embedded,
    "redis+mariadb": on_redis_and_mariadb,
    "redis": on_redis,
    "etcd": on_etcd,
    "sql+postgresql": on_postgresql,
}
COMPARED_WITH = "redis+mariadb"


async def measure(settings: dict[str, Any], tasks: int) -> float:
    settings = {**settings, "worker": {"capacity": 500}, "api": {"port": 0, "grpc_port": 0}}
    async with rota.Rota(settings, roles=("scheduler", "worker")) as app:
        warm = await app.submit_many("nothing", [{}] * 50)
        await asyncio.gather(*(handle.wait("60s") for handle in warm))
        begun = time.perf_counter()
        for start in range(0, tasks, BATCH):
            await app.submit_many("nothing", [PAYLOAD] * min(BATCH, tasks - start))
        last = await app.submit("nothing", {})  # of the same priority: it ends last, or nearly so
        await last.wait("120s")
        for _ in range(MOST_LOOKS):
            if (await app.count()).get(SUCCESS, 0) > tasks + len(warm):
                return tasks / (time.perf_counter() - begun)
            await asyncio.sleep(LOOK_EVERY_S)
    raise RuntimeError("not all tasks ended well")


def to_table(rates: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """The median of each topology, and how it compares."""
    base = median(rates[COMPARED_WITH]) if COMPARED_WITH in rates else None
    yield f"| topology | tasks/s | of {COMPARED_WITH} | rounds |"
    yield "|---|--:|--:|---|"
    for name, found in rates.items():
        share = "" if base is None else f"{median(found) / base:.0%}"
        yield f"| {name} | {median(found):,.0f} | {share} | {', '.join(f'{rate:,.0f}' for rate in found)} |"


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(TOPOLOGIES))
    parser.add_argument("--tasks", type=within(1), default=20_000, help="of one round")
    parser.add_argument("--rounds", type=within(1), default=3, help="the result is their median")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in TOPOLOGIES]:
        parser.error(f"no topology is called {unknown[0]}: choose from {', '.join(TOPOLOGIES)}")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))  # the table is what matters
    rates: dict[str, list[float]] = {name: [] for name in options.names or TOPOLOGIES}
    for number in range(1, options.rounds + 1):
        for name, found in rates.items():
            with TemporaryDirectory() as folder, TOPOLOGIES[name](Path(folder)) as settings:
                found.append(asyncio.run(measure(settings, options.tasks)))
            print(f"round {number}: {name:16s}{found[-1]:8.0f} tasks/s", file=sys.stderr, flush=True)
    table = [
        f"{options.tasks:,} tasks, medians of {options.rounds} rounds. {describe_machine()}.",
        "",
        *to_table(rates),
    ]
    print("\n".join(["", *table]))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "topologies.md").write_text("\n".join([*table, ""]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
