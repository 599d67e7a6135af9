"""Very many tasks at once: queued anew after FLUSHALL, due in the same second, and with deadlocks thrown in."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import rota
from rota.domain.task import SUCCESS
from rota.domain.task_config import TaskConfig
from rota.infrastructure.coordination.redis_client import RedisClient
from tests.chaos.faults import confirm
from tests.chaos.ground import Servers, Terrain, a_plain_cluster
from tests.chaos.measure import Measured
from tests.support.cluster import Cluster, eventually
from tests.support.servers.mariadb import MariaDbServer

WAITING, REBUILT_WITHIN_S = 100_000, 10.0
DUE, BATCH = 50_000, 10_000
DRAINED = 30_000
LEAST_RATE, MOST_PLAUSIBLE = 80.0, 120.0  # per cent
CAPACITY = 100
PATIENCE_S = 180.0
AHEAD, SOON = timedelta(seconds=20), timedelta(seconds=10)  # until then all are there

# So many transactions of a hundred end as a deadlock does. MariaDB asks for each row of each statement: what a
# connection does within 5 ms is taken for one transaction.
MARIADB_DEADLOCKS = """DELIMITER //
CREATE TRIGGER chaos_{event} BEFORE {event} ON task_live FOR EACH ROW
IF CRC32(CONCAT(FLOOR(UNIX_TIMESTAMP(NOW(6)) * 200), '-', CONNECTION_ID())) % 100 < {percent} THEN
SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found, says the chaos'; END IF //"""
POSTGRES_DEADLOCKS = """
CREATE FUNCTION chaos_{event}() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF random() * 100 < {percent} THEN RAISE EXCEPTION 'deadlock, says the chaos' USING ERRCODE = '40P01'; END IF;
RETURN NULL; END $$;
CREATE TRIGGER chaos_{event} BEFORE {event} ON task_live FOR EACH STATEMENT EXECUTE FUNCTION chaos_{event}()"""

Crowd = Callable[[], Coroutine[Any, Any, Measured]]


def list_crowds(terrains: Sequence[Terrain]) -> Iterator[Crowd]:
    for terrain in terrains:
        if terrain.has_redis:
            yield partial(rebuild_many, terrain)
        yield partial(drain_what_is_due_at_once, terrain)
        yield partial(drain_in_spite_of_deadlocks, terrain)


async def rebuild_many(terrain: Terrain) -> Measured:
    """How long the queue of 100,000 waiting tasks takes to be whole again."""
    async with _a_place(terrain) as place:
        place.cluster.start("scheduler", "scheduler")
        await place.submit(WAITING)
        if place.servers.redis is None:
            raise AssertionError("there is no Redis here")
        redis = RedisClient(place.servers.redis.url())
        queue = place.client._node.coordinator.queue

        async def look() -> bool | None:
            return True if sum((await queue.depths()).ready.values()) >= WAITING else None

        await eventually(look, "the queue to be full", patience_s=PATIENCE_S)
        await redis.command("FLUSHALL")
        began_at = time.monotonic()
        await eventually(look, "the queue to be full again", patience_s=PATIENCE_S)
        took_s = time.monotonic() - began_at
        await redis.close()
    return Measured(f"{terrain.name}: FLUSHALL with {WAITING:,} waiting", took_s, REBUILT_WITHIN_S)


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
    """Calm before and after, so that whatever changes with time is no part of the comparison."""
    async with _a_place(terrain) as place:
        place.cluster.start("scheduler", "scheduler")
        place.start_worker()
        rates, rollbacks = [], []
        for percent in (0, 0, 5, 0):  # the first one warms up; what the triggers cost is no fault
            await place.inject_deadlocks(percent=percent)
            before = await place.count_rollbacks()
            await place.submit(DRAINED, scheduled_at=datetime.now(UTC) + SOON)
            rates.append(await place.drain(DRAINED))
            rollbacks.append(await place.count_rollbacks() - before)
    confirm(rollbacks[2] > 2 * max(rollbacks[1], rollbacks[3]), f"no deadlocks to speak of: {rollbacks} rollbacks")
    calm, hurt = (rates[1] + rates[3]) / 2, rates[2]
    name = f"{terrain.name}: deadlocks at 5 % ({hurt:.0f}/s, without {calm:.0f}/s)"
    return _compare(name, hurt=hurt, calm=calm, unit="% of the calm rate")


def _compare(name: str, *, hurt: float, calm: float, unit: str) -> Measured:
    """Nothing gets faster by being hurt: a measurement that says so is not to be trusted, whichever way it errs."""
    percent = 100 * hurt / calm
    confirm(percent <= MOST_PLAUSIBLE, f"{name}: {percent:.0f} {unit}")
    return Measured(name, percent, LEAST_RATE, unit=unit, since="", is_least=True)


@dataclass(slots=True)
class Place:
    servers: Servers
    cluster: Cluster
    client: rota.Rota
    done: int = 0

    def start_worker(self) -> None:
        self.cluster.start("worker", "worker", "--set", f"worker.capacity={CAPACITY}")

    async def submit(self, count: int, **options: Any) -> None:
        for begin in range(0, count, BATCH):
            await self.client.submit_many("plain", [{}] * min(BATCH, count - begin), **options)

    async def drain(self, count: int) -> float:
        """Tasks a second, between a fifth of them and nine tenths: by then all is warm, and not yet running out."""
        first, last = [await self._reached(self.done + int(count * part)) for part in (0.2, 0.9)]
        self.done += count
        await self._reached(self.done)
        return (last[1] - first[1]) / (last[0] - first[0])

    async def count_rollbacks(self) -> int:
        """Of all transactions so far."""
        store = self.servers.store
        if isinstance(store, MariaDbServer):
            said = await asyncio.to_thread(store.execute, "SHOW GLOBAL STATUS LIKE 'Com_rollback'")
            return int(said.split()[-1])
        sql = "SELECT xact_rollback FROM pg_stat_database WHERE datname = 'rota'"
        return int(await asyncio.to_thread(store.execute, sql))

    async def inject_deadlocks(self, *, percent: int) -> None:
        store = self.servers.store
        sql = MARIADB_DEADLOCKS if isinstance(store, MariaDbServer) else POSTGRES_DEADLOCKS
        for event in ("UPDATE", "DELETE"):
            forget = f"DROP TRIGGER IF EXISTS chaos_{event}"
            if not isinstance(store, MariaDbServer):
                forget = f"{forget} ON task_live; DROP FUNCTION IF EXISTS chaos_{event}"
            await asyncio.to_thread(store.execute, forget)
            await asyncio.to_thread(store.execute, sql.format(event=event, percent=percent))

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
            assert servers is not None
            await client._node.store.configs.put(TaskConfig(type="plain"))  # some wait before there is a worker
            yield Place(servers, cluster, client)
