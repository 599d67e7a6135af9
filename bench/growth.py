"""Does a task cost the same when there are many workers, many types, a long queue, a long history?

    python bench/growth.py [--tasks 3000] [--rounds 3] [--large]

With 1,000 to 3,000 tasks: fewer are one batch of grants, of which there is no rate, and three workers hold no more.
On MariaDB and Redis. A real scheduler grants tasks to workers that are registered and do nothing else, so that their
number costs no processes: 3, 50 or 200 of them, tasks of one type or of a thousand, just these tasks waiting or a
hundred thousand (`--large`: a million). The rate is that of its grants, from the first one on; the CPU is what the
scheduler took for each of them; the memory is that of the scheduler and of Redis while all of it waits. What a history
of a million ended tasks (`--large`: ten million) costs the store is measured as in `bench/store.py`. Each is told as a
share of the first.
"""

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import noop_app, store
from bench.end_to_end import say
from bench.grounds import Ground, ground
from bench.installation import opened, redis_bytes
from bench.life import plan_of
from bench.options import parser_of, within
from bench.usage import OthersWatch, cpu_seconds, memory_bytes, precise_cpu_seconds
from bench.workload import BATCH, PAYLOAD
from rota.application.node import Node
from rota.application.submit import SubmitTasks
from rota.config.wiring import open_node
from rota.domain.ids import WorkerId
from rota.domain.submission import Submission
from rota.domain.task_config import TaskConfig
from rota.domain.worker import MAX_CAPACITY, Worker
from rota.infrastructure.instants import to_us
from tests.support.cluster import a_cluster

LEASE = timedelta(hours=1)
TIMEOUT = timedelta(hours=1)
LOOK_EVERY_S = 0.01
SETTLED_S = 1.0
FEWEST = 3  # workers
FEWEST_TASKS = 2 * BATCH  # a rate is that between two batches
MOST_TASKS = FEWEST * MAX_CAPACITY  # what so many workers hold
MOST_S = 120.0
PROCESSING = 3  # as the table has it
_LATER = f"FROM task_live WHERE status = {PROCESSING} AND started_us > :number"
FIRST, LAST, NUMBER = (f"SELECT {what} {_LATER}" for what in ("MIN(started_us)", "MAX(started_us)", "COUNT(*)"))


@dataclass(frozen=True, slots=True)
class Scene:
    """How much there is of each."""

    queued: int
    workers: int = FEWEST
    types: int = 1
    granted: int = 0  # how many of the queued there is room for; 0: all


class Found(NamedTuple):
    """Of one scene: grants a second, what a grant took of the scheduler, and memory while all of it waits."""

    rate: float
    cpu_us: float
    scheduler: float  # MiB
    redis: float  # MiB


def find(where: Ground, scene: Scene) -> Found:
    settings = asyncio.run(where.fresh())
    asyncio.run(_prepare(settings, scene))
    with _scheduling(settings) as pid:
        memory = memory_bytes(pid) / 2**20, asyncio.run(redis_bytes(where)) / 2**20
        since, spent = asyncio.run(_grant(settings, scene, pid=pid))
    rate = asyncio.run(_find_rate(settings, since))
    return Found(rate, spent / (scene.granted or scene.queued) * 1e6, *memory)


async def _prepare(settings: Mapping[str, Any], scene: Scene) -> None:
    async with open_node(plan_of(settings)) as node:
        for number in range(scene.types):
            await node.store.configs.put(TaskConfig(type=f"noop-{number:04d}", timeout=TIMEOUT))
        submit = SubmitTasks(node)
        for start in range(0, scene.queued, BATCH):
            await node.ids.keep()
            numbers = range(start, min(start + BATCH, scene.queued))
            await submit.submit_many(
                [Submission(type=f"noop-{number % scene.types:04d}", payload=PAYLOAD) for number in numbers]
            )


async def _grant(settings: Mapping[str, Any], scene: Scene, *, pid: int) -> tuple[int, float]:
    """Let workers come to whom all can be granted, and wait until it is: microseconds since 1970 when all of them were
    there, and CPU seconds of the scheduler from then on. Before the first one, nothing can be granted."""
    wanted = scene.granted or scene.queued
    async with open_node(plan_of(settings)) as node:
        room = -(-wanted // scene.workers)
        made = [
            Worker(id=WorkerId(node.ids.next()), name=f"worker-{number:03d}", capacity=room)
            for number in range(scene.workers)
        ]
        for worker in made:
            await node.store.workers.register(worker)
        before = precise_cpu_seconds(pid)
        await asyncio.gather(*(node.coordinator.pool.register(worker, LEASE) for worker in made))
        since = to_us(node.time.now())
        await node.coordinator.queue.wake()  # as workers do that have come
        await _wait(node, wanted)
        return since, precise_cpu_seconds(pid) - before


@contextmanager
def _scheduling(settings: Mapping[str, Any]) -> Iterator[int]:
    """A scheduler's process."""
    with TemporaryDirectory() as folder, a_cluster(Path(folder), settings, app=Path(noop_app.__file__)) as cluster:
        scheduler = cluster.start("scheduler", "scheduler")
        _settle(scheduler.pid)
        yield scheduler.pid


def _settle(pid: int) -> None:
    """Until it does nothing: what a new leader looks through once is not what is measured."""
    deadline = time.monotonic() + MOST_S
    before = cpu_seconds(pid)
    while time.monotonic() < deadline:
        time.sleep(SETTLED_S)
        before, now = cpu_seconds(pid), before
        if before - now < SETTLED_S / 5:
            return


async def _wait(node: Node, wanted: int) -> None:
    """Until so many are granted. Looks at the workers' queues: counting rows would take time itself."""
    deadline = time.monotonic() + MOST_S
    while (granted := sum((await node.coordinator.queue.depths()).assigned.values())) < wanted:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{granted} of {wanted} tasks were granted within {MOST_S:.0f} s")
        await asyncio.sleep(LOOK_EVERY_S)


async def _find_rate(settings: Mapping[str, Any], since: int) -> float:
    """Grants a second, from the first batch on after all workers were there. All of a batch have one time, at which its
    work begins: between the first and the last of them all others but the last were granted, as many as all but the
    first."""
    async with opened(settings) as ask:
        first, last = await ask(FIRST, since), await ask(LAST, since)
        number = await ask(NUMBER, first)
    return number / max((last - first) / 1e6, 1e-3)


def scenes(tasks: int, *, is_large: bool) -> dict[str, Scene]:
    """The first is what the others are compared with. The largest takes minutes to prepare: it is measured once."""
    first = Scene(queued=tasks)
    found = {
        f"{FEWEST} workers, 1 type": first,
        "50 workers": replace(first, workers=50),
        "200 workers": replace(first, workers=200),
        "1,000 types": replace(first, types=1000),
        "100,000 queued": replace(first, queued=100_000, granted=first.queued),
    }
    return found | ({"1,000,000 queued": replace(first, queued=1_000_000, granted=first.queued)} if is_large else {})


def measure(where: Ground, *, tasks: int, rounds: int, is_large: bool) -> dict[str, Found]:
    """By scene."""
    found: dict[str, list[Found]] = {}
    for number in range(1, rounds + 1):
        for name, scene in scenes(tasks, is_large=is_large and number == 1).items():
            found.setdefault(name, []).append(find(where, scene))
            say(f"growth, round {number} of {rounds}: {name}: {spell(found[name][-1])}")
    return {name: Found(*map(median, zip(*each, strict=True))) for name, each in found.items()}


def spell(found: Found) -> str:
    return f"{found.rate:,.0f} grants/s, {found.cpu_us:.1f} µs of the scheduler's CPU for a grant"


def measure_history(where: Ground, *, tasks: int, rounds: int, history: int) -> dict[str, float]:
    """For each phase of a life, the rate with a history as a share of that without."""
    found = asyncio.run(store.measure(where.place, tasks=tasks, rounds=rounds, history=history, with_cpu=False))
    return {phase: found.ratio("old", "store", phase=phase) for phase in store.PHASES}


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--tasks", type=within(FEWEST_TASKS, MOST_TASKS), default=MOST_TASKS, help="that are granted, all at once"
    )
    parser.add_argument("--rounds", type=within(1), default=3, help="the result is their median")
    parser.add_argument("--large", action="store_true", help="also a million queued, and ten million ended; takes long")
    options, watch = parser.parse_args(), OthersWatch()
    with ground("redis+mariadb") as where:
        found = measure(where, tasks=options.tasks, rounds=options.rounds, is_large=options.large)
        first = next(iter(found.values()))
        for name, one in found.items():
            shares = f"{one.rate / first.rate:6.0%} of the rate, {one.cpu_us / first.cpu_us:.2f} times the CPU"
            print(f"{name:24s}{spell(one)}{shares}; scheduler {one.scheduler:.0f} MiB, Redis {one.redis:.0f} MiB")
        for history in (1_000_000, *((10_000_000,) if options.large else ())):
            shares_of = measure_history(where, tasks=options.tasks, rounds=options.rounds, history=history)
            for phase, share in shares_of.items():
                print(f"{f'{history:,} ended, {phase}':32s}{share:8.0%} of an empty database")
    print(watch.spell())
    return 0


if __name__ == "__main__":
    sys.exit(main())
