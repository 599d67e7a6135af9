"""An installation to measure: a scheduler and workers as real processes, a producer beside them, an empty database."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

from sqlalchemy import text

import rota
from bench import noop_app
from bench.forks import end_in_silence, in_a_fork
from bench.grounds import Ground
from bench.usage import cpu_seconds
from bench.workload import BATCH, PAYLOAD
from rota.application.ports.store import Store
from rota.config.process import MOST_YOUNG_OBJECTS
from rota.domain.paging import MAX_PAGE, TaskFilter
from rota.domain.task import LIVE, SUCCESS, TaskStatus
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.database.codes import STATUS_CODES
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.event_loop import new_event_loop
from rota.infrastructure.store.redis.store import open_redis_store
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support.cluster import Cluster, Process, a_cluster

CAPACITY = 1000  # of each worker
LANES = 2  # batches that the producer has under way
LOOK_EVERY_S = 0.02
MOST_S = 120.0
STEADY_EVERY_S = 0.02


class Produced(NamedTuple):
    began_at: float  # seconds since 1970
    seconds: float
    cpu: float  # seconds


@dataclass(slots=True)
class Installation:
    """Runs from `installed` on; a scheduler is started when it is wanted."""

    ground: Ground
    cluster: Cluster

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.cluster.settings

    def start_scheduler(self) -> Process:
        number = sum(process.name.startswith("scheduler") for process in self.cluster.processes)
        return self.cluster.start("scheduler", f"scheduler-{number + 1}")

    def produce(self, tasks: int) -> Produced:
        """Create tasks, from a process of its own."""
        return in_a_fork(produce, self.settings, tasks)

    @contextmanager
    def under_load(self, rate: float) -> Iterator[None]:
        """Meanwhile tasks are created at this rate, from a process of its own."""
        context = get_context("fork")
        stop = context.Event()
        producer = context.Process(target=produce_steadily, args=(self.settings, rate, stop))
        producer.start()
        try:
            yield
        finally:
            stop.set()
            producer.join(MOST_S)

    def wait_until_done(self) -> float:
        """Seconds since 1970 when the last task had ended."""
        return asyncio.run(wait_until_done(self.settings))

    def first_start(self, since: float) -> float:
        """When the first of the tasks created since then was given to a worker."""
        return asyncio.run(find_first_start(self.settings, since))

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far of everything that runs, by role."""
        spent = {name: cpu_seconds(pid) for name, pid in self.ground.pids.items()}
        for process in self.cluster.processes:
            if process.popen.poll() is None:
                role = process.name.partition("-")[0]
                spent[role] = spent.get(role, 0.0) + cpu_seconds(process.pid)
        return spent


async def wait_until_done(settings: Mapping[str, Any]) -> float:
    """Seconds since 1970 when the last task had ended. All must have succeeded: to fail may be faster."""
    deadline = time.monotonic() + MOST_S
    async with looking(settings) as look:
        while await look.has_live():
            if time.monotonic() > deadline:
                raise RuntimeError(f"not all tasks had ended after {MOST_S:.0f} s")
            await asyncio.sleep(LOOK_EVERY_S)
        ended_at = time.time()
        if failed := await look.count_failed():
            raise RuntimeError(f"{failed} tasks did not succeed")
    return ended_at


async def find_first_start(settings: Mapping[str, Any], since: float) -> float:
    """When the first of the tasks created since then was given to a worker."""
    async with looking(settings) as look:
        return await look.first_start(since)


class Looking(Protocol):
    """What is asked of a store, beside the installation."""

    async def has_live(self) -> bool: ...
    async def first_start(self, since: float) -> float: ...
    async def count_failed(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LookingAtSql:
    ask: Callable[..., Awaitable[int]]

    async def has_live(self) -> bool:
        return bool(await self.ask("SELECT COUNT(*) FROM (SELECT id FROM task_live LIMIT 1) AS waiting"))

    async def first_start(self, since: float) -> float:
        return await self.ask("SELECT MIN(started_us) FROM task WHERE created_us >= :number", int(since * 1e6)) / 1e6

    async def count_failed(self) -> int:
        return await self.ask("SELECT SUM(number) FROM task_count WHERE status <> :number", STATUS_CODES[SUCCESS])


@dataclass(frozen=True, slots=True)
class LookingAtRedis:
    store: Store

    async def has_live(self) -> bool:
        return bool(LIVE & (await self._count()).keys())

    async def first_start(self, since: float) -> float:
        since_at, before = datetime.fromtimestamp(since, UTC), None
        started: list[datetime] = []
        while True:
            page = await self.store.tasks.list_page(TaskFilter(created_after=since_at, before=before, limit=MAX_PAGE))
            started += [task.state.started_at for task in page.items if task.state.started_at is not None]
            before = page.next_before
            if before is None:
                return min(started).timestamp()

    async def count_failed(self) -> int:
        return sum(number for status, number in (await self._count()).items() if status not in (*LIVE, SUCCESS))

    async def _count(self) -> Mapping[TaskStatus, int]:
        return await self.store.tasks.count_by_status(None)


@asynccontextmanager
async def looking(settings: Mapping[str, Any]) -> AsyncIterator[Looking]:
    url = settings["store"]["url"]
    if url.startswith("redis://"):
        async with open_redis_store(url) as store:
            yield LookingAtRedis(store)
        return
    async with opened(settings) as ask:
        yield LookingAtSql(ask)


@asynccontextmanager
async def opened(settings: Mapping[str, Any]) -> AsyncIterator[Callable[..., Awaitable[int]]]:
    """Ask the database for a number, beside the installation."""
    database = open_database(settings["store"]["url"], clock=SystemClock(), random=SystemRandom())

    async def ask(query: str, number: int = 0) -> int:
        bound = {"number": number} if ":number" in query else {}
        return await database.read(lambda connection: int(connection.execute(text(query), bound).scalar_one() or 0))

    try:
        yield ask
    finally:
        await database.close()


async def redis_bytes(ground: Ground) -> int:
    """What is in Redis takes so much; 0 where there is none."""
    if ground.redis is None:
        return 0
    client = RedisClient(ground.redis.url())
    answer: bytes = await client.command("INFO", "memory")
    await client.close()
    fields = dict(line.split(b":", 1) for line in answer.splitlines() if b":" in line)
    return int(fields[b"used_memory"])


@contextmanager
def installed(ground: Ground, *, workers: int = 2, capacity: int = CAPACITY) -> Iterator[Installation]:
    """Workers that wait, on an empty database."""
    settings = {**asyncio.run(ground.fresh()), "worker": {"capacity": capacity}}
    with TemporaryDirectory() as folder, a_cluster(Path(folder), settings, app=Path(noop_app.__file__)) as cluster:
        cluster.start_all("worker", *(f"worker-{number + 1}" for number in range(workers)))
        yield Installation(ground, cluster)


def produce(settings: Mapping[str, Any], tasks: int) -> Produced:
    """`create`, as a program of its own."""
    spare_garbage_collection()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_produce(settings, tasks))


def spare_garbage_collection() -> None:
    """As a server has it: what this program has read in before it measures is no part of what it measures."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(MOST_YOUNG_OBJECTS)


async def _produce(settings: Mapping[str, Any], tasks: int) -> Produced:
    async with rota.Rota(settings, roles=()) as app:
        await app.count()  # connect before the clock starts
        return await create(app, tasks)


async def create(app: rota.Rota, tasks: int) -> Produced:
    """Create tasks in batches, a few of them under way at once."""
    left = iter([min(BATCH, tasks - start) for start in range(0, tasks, BATCH)])

    async def lane() -> None:
        for number in left:
            await app.submit_many("nothing", [PAYLOAD] * number)

    began_at, began, spent = time.time(), time.perf_counter(), time.process_time()
    await asyncio.gather(*(lane() for _ in range(LANES)))
    return Produced(began_at, time.perf_counter() - began, time.process_time() - spent)


def produce_steadily(settings: Mapping[str, Any], rate: float, stop: Event) -> None:  # fixed signature: Process
    """Create tasks at a rate, in small batches, until told to stop."""
    end_in_silence()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_produce_steadily(settings, rate, stop=stop))


async def _produce_steadily(settings: Mapping[str, Any], rate: float, *, stop: Event) -> None:
    async with rota.Rota(settings, roles=()) as app:
        began, created = time.perf_counter(), 0
        while not stop.is_set():
            due = int((time.perf_counter() - began) * rate) - created
            if due > 0:
                await app.submit_many("nothing", [PAYLOAD] * min(due, BATCH))
                created += min(due, BATCH)
            await asyncio.sleep(STEADY_EVERY_S)
