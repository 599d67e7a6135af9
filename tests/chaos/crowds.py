"""Very many tasks at once: queued anew after a loss of memory, due in the same second, and with deadlocks thrown in."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import rota
from rota.domain.task import SUCCESS
from rota.domain.task_config import TaskConfig
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.database import coordination_schema as memory
from tests.chaos import deadlocked
from tests.chaos.faults import confirm
from tests.chaos.ground import a_plain_cluster
from tests.chaos.measure import Measured
from tests.chaos.servers import SqlServers
from tests.chaos.terrain import SQL, Terrain
from tests.support.cluster import Cluster, eventually
from tests.support.servers.mariadb import MariaDbServer

WAITING, REBUILT_WITHIN_S = 100_000, 10.0
DUE, BATCH = 50_000, 10_000
DRAINED, DEADLOCKS = 20_000, 5  # and per cent
TURNS = (0, 0, DEADLOCKS, 0, DEADLOCKS, 0)
LEAST_RATE, MOST_PLAUSIBLE = 80.0, 120.0  # per cent
CAPACITY = 100
PATIENCE_S = 180.0
AHEAD, SOON = timedelta(seconds=20), timedelta(seconds=10)  # until then all are there

DEADLOCKED = Path(deadlocked.__file__)
MEMORY = [
    table.name
    for table in (
        memory.cancel,
        memory.delivery,
        memory.lease,
        memory.memory,
        memory.queue,
        memory.tally,
        memory.worker,
    )
]  # all but wishes and events

Crowd = Callable[[], Coroutine[Any, Any, Measured]]


def list_crowds(terrains: Sequence[Terrain]) -> Iterator[Crowd]:
    for terrain in (one for one in terrains if SQL in one.traits):  # elsewhere store and memory are one
        yield partial(rebuild_many, terrain)
        yield partial(drain_what_is_due_at_once, terrain)
        yield partial(drain_in_spite_of_deadlocks, terrain)


async def rebuild_many(terrain: Terrain) -> Measured:
    """How long the queue of 100,000 waiting tasks takes to be whole again."""
    async with _a_place(terrain) as place:
        place.cluster.start("scheduler", "scheduler")
        await place.submit(WAITING)
        queue = place.client._node.coordinator.queue

        async def look() -> bool | None:
            return True if sum((await queue.depths()).ready.values()) >= WAITING else None

        await eventually(look, "the queue to be full", patience_s=PATIENCE_S)
        await place.lose_memory()
        began_at = time.monotonic()
        await eventually(look, "the queue to be full again", patience_s=PATIENCE_S)
        took_s = time.monotonic() - began_at
    return Measured(f"{terrain.name}: memory lost with {WAITING:,} waiting", took_s, REBUILT_WITHIN_S)


async def drain_what_is_due_at_once(terrain: Terrain) -> Measured:
    """The rate at which what is due in one second is done, beside that of as many that are ready."""
    async with _a_place(terrain) as place:
        place.cluster.start("scheduler", "scheduler")
        await place.submit(DUE)
        place.start_worker()
        peak = await place.drain(DUE)
        await place.submit(DUE, scheduled_at=datetime.now(UTC) + AHEAD)
        due = await place.drain(DUE)
    name = f"{terrain.name}: {DUE:,} due in one second ({due:.0f}/s, ready ones {peak:.0f}/s)"
    return _compare(name, hurt=due, calm=peak, unit="% of the peak rate")


async def drain_in_spite_of_deadlocks(terrain: Terrain) -> Measured:
    """In turns, so that whatever changes with time is no part of the comparison."""
    async with _a_place(terrain) as place:
        place.inject_deadlocks(percent=0)
        place.cluster.start("scheduler", "scheduler", program=DEADLOCKED)
        place.start_worker(program=DEADLOCKED)
        rates: dict[int, list[float]] = {0: [], DEADLOCKS: []}
        shares: dict[int, list[float]] = {0: [], DEADLOCKS: []}
        for percent in TURNS:
            place.inject_deadlocks(percent=percent)
            before = await place.count_ends()
            await place.submit(DRAINED, scheduled_at=datetime.now(UTC) + SOON)
            rates[percent].append(await place.drain(DRAINED))
            commits, rollbacks = await place.count_ends() - before
            shares[percent].append(100 * rollbacks / (commits + rollbacks))
    calm, hurt = mean(rates[0][1:]), mean(rates[DEADLOCKS])  # the first one warms up
    share = mean(shares[DEADLOCKS]) - mean(shares[0][1:])
    name = f"{terrain.name}: deadlocks in {share:.1f} % ({hurt:.0f}/s, without {calm:.0f}/s)"
    confirm(DEADLOCKS / 2 < share < 2 * DEADLOCKS, f"{name}: not the {DEADLOCKS} % that were asked for")
    return _compare(name, hurt=hurt, calm=calm, unit="% of the calm rate")


def _compare(name: str, *, hurt: float, calm: float, unit: str) -> Measured:
    """Nothing gets faster by being hurt: a measurement that says so is not to be trusted, whichever way it errs."""
    percent = 100 * hurt / calm
    confirm(percent <= MOST_PLAUSIBLE, f"{name}: {percent:.0f} {unit}")
    return Measured(name, percent, LEAST_RATE, unit=unit, since="", is_least=True)


class Ends(NamedTuple):
    """How many transactions were committed, and how many rolled back."""

    commits: int
    rollbacks: int

    def __sub__(self, before: "Ends") -> "Ends":
        return Ends(self.commits - before.commits, self.rollbacks - before.rollbacks)


@dataclass(slots=True)
class Place:
    servers: SqlServers
    cluster: Cluster
    client: rota.Rota
    done: int = 0

    def start_worker(self, *, program: Path | None = None) -> None:
        self.cluster.start("worker", "worker", "--set", f"worker.capacity={CAPACITY}", program=program)

    async def submit(self, count: int, **options: Any) -> None:
        for begin in range(0, count, BATCH):
            await self.client.submit_many("plain", [{}] * min(BATCH, count - begin), **options)

    async def drain(self, count: int) -> float:
        """Tasks a second, between a fifth of them and nine tenths: by then all is warm, and not yet running out."""
        first, last = [await self._reached(self.done + int(count * part)) for part in (0.2, 0.9)]
        self.done += count
        await self._reached(self.done)
        return (last[1] - first[1]) / (last[0] - first[0])

    async def lose_memory(self) -> None:
        """All that the coordinator knows."""
        if self.servers.redis is None:
            await asyncio.to_thread(self.servers.store.execute, f"TRUNCATE {', '.join(MEMORY)}")
            return
        redis = RedisClient(self.servers.redis.url())
        await redis.command("FLUSHALL")
        await redis.close()

    async def count_ends(self) -> Ends:
        """Of all transactions so far."""
        store = self.servers.store
        if isinstance(store, MariaDbServer):
            said = await asyncio.to_thread(store.execute, "SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Com\\_%'")
            numbers = dict(line.split() for line in said.splitlines())
            return Ends(int(numbers["Com_commit"]), int(numbers["Com_rollback"]))
        sql = "SELECT xact_commit || ' ' || xact_rollback FROM pg_stat_database WHERE datname = 'rota'"
        return Ends(*map(int, (await asyncio.to_thread(store.execute, sql)).split()))

    def inject_deadlocks(self, *, percent: int) -> None:
        new = self.cluster.folder / "deadlocks.new"
        new.write_text(str(percent))
        new.replace(self.cluster.folder / "deadlocks")  # nobody reads half of it

    async def _reached(self, count: int) -> tuple[float, int]:
        """When so many have ended, and how many have by then."""

        async def look() -> tuple[float, int] | None:
            done = (await self.client.count()).get(SUCCESS, 0)
            return (time.monotonic(), done) if done >= count else None

        return await eventually(look, f"{count} tasks to end", patience_s=PATIENCE_S)


@asynccontextmanager
async def _a_place(terrain: Terrain) -> AsyncIterator[Place]:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            a_plain_cluster(terrain, Path(folder)) as (cluster, servers),
            rota.Rota(cluster.settings, roles=()) as client,
        ):
            assert isinstance(servers, SqlServers)
            await client._node.store.configs.put(TaskConfig(type="plain"))  # some wait before there is a worker
            yield Place(servers, cluster, client)
