"""How long does a task wait on an idle system, from the submit call to the first line of its function?

    python bench/latency.py [--tasks 300] [--load 3000]

On MariaDB and Redis with a scheduler and two workers as processes of their own, and embedded in one process on SQLite.
The tasks are submitted one after the other, each when the one before has ended. Both ends read the clock of this one
machine. Prints the median and the 99th percentile of the wait, and of the whole way until the result is visible. With
`--load`, also while so many other tasks a second are created and run on MariaDB and Redis.

A machine may be several times slower from one minute to the next. So after each task another one takes the same way
without Rota: bare processes pass it along by the same servers (`bench/lone.py`). That is the floor, and the times above
it are of the same moments.
"""

import asyncio
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rota
from bench import noop_app
from bench.grounds import Ground, ground
from bench.installation import installed, spare_garbage_collection
from bench.lone import Pass, floor_of, record
from bench.options import parser_of, within
from bench.places import Place, place
from bench.usage import OthersWatch
from rota.embedding import EVERY_ROLE
from rota.infrastructure.event_loop import new_event_loop

STAMP = noop_app.moment  # its tasks are known once it is imported
WARM_UP = 20
LOADED = "under load"
MOST_MS = {"mariadb + redis": (3.0, 10.0), "embedded": (1.0, None)}  # median, 99th percentile


class Waits(NamedTuple):
    """Milliseconds of each task."""

    starts: list[float]  # until the function starts
    ends: list[float]  # until its result is visible
    floors: list[float]  # until it could have started, passed along without Rota


class Stage(NamedTuple):
    """Where Rota is measured, and where its floor is."""

    settings: Mapping[str, Any]
    place: Place
    redis: str | None


async def measure(app: rota.Rota, tasks: int, *, pass_one: Pass | None = None) -> Waits:
    """Tasks of Rota and of its floor in turns."""
    waits = Waits([], [], [])
    for number in range(tasks + WARM_UP):
        asked_at = time.time()
        handle = await app.submit("moment")
        view = await handle.wait("30s")
        seen_at = time.time()
        if view.result is None:
            raise RuntimeError(f"task {view.id} is {view.status}: {view.error}")
        passed = await pass_one() if pass_one is not None else None
        if number >= WARM_UP:
            waits.starts.append((view.result.data["at"] - asked_at) * 1e3)
            waits.ends.append((seen_at - asked_at) * 1e3)
            if passed is not None:
                waits.floors.append((passed.started_at - passed.asked_at) * 1e3)
    return waits


@contextmanager
def separate_processes() -> Iterator[Stage]:
    with ground("redis+mariadb") as where, installed(where) as installation:
        installation.start_scheduler()
        yield Stage(installation.settings, where.place, installation.settings["coordinator"]["url"])


@contextmanager
def one_process() -> Iterator[Stage]:
    with TemporaryDirectory() as folder, place("sqlite") as where:
        yield Stage({"store": {"url": f"sqlite:///{folder}/rota.db"}, "coordinator": {"url": "memory://"}}, where, None)


PLACES = {"mariadb + redis": (separate_processes, ()), "embedded": (one_process, EVERY_ROLE)}


def at(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def report(name: str, waits: Waits) -> list[str]:
    """Print one line; return what missed its bar."""
    p50, p99 = at(waits.starts, 0.5), at(waits.starts, 0.99)
    line = f"{name:18s}{p50:10.2f}{p99:10.2f}{at(waits.ends, 0.5):14.2f}{at(waits.ends, 0.99):10.2f}"
    if waits.floors:
        floor = at(waits.floors, 0.5)
        line += f"{floor:13.2f}{at(waits.floors, 0.99):10.2f}{p50 / floor:9.2f}"
    print(line, flush=True)
    most50, most99 = MOST_MS.get(name, (float("inf"), None))
    missed = [f"{name}: median {p50:.2f} ms, wanted {most50}"] if p50 > most50 else []
    if most99 is not None and p99 > most99:
        missed.append(f"{name}: 99th percentile {p99:.2f} ms, wanted {most99}")
    return missed


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--tasks", type=within(1), default=300, help="one after the other")
    parser.add_argument("--load", type=within(1.0), help="other tasks a second, if any")
    parser.add_argument("--only", choices=PLACES, help="this alone")
    options = parser.parse_args()
    print(
        f"{'milliseconds':18s}{'start p50':>10s}{'p99':>10s}{'result p50':>14s}{'p99':>10s}"
        f"{'floor p50':>13s}{'p99':>10s}{'ratio':>9s}"
    )
    missed, watch = [], OthersWatch()
    for name in PLACES if options.only is None else (options.only,):
        missed += report(name, measure_place(name, options.tasks))
    if options.load:
        with ground("redis+mariadb") as where:
            report(LOADED, measure_loaded(where, rate=options.load, tasks=options.tasks))
    print(watch.spell())
    print("all bars held" if not missed else "missed: " + "; ".join(missed))
    return 1 if missed else 0


def measure_place(name: str, tasks: int) -> Waits:
    """How long tasks wait on an idle system, and how long without Rota."""
    place_of, roles = PLACES[name]
    with place_of() as stage:
        return _run(run_beside_floor(stage, roles, tasks=tasks))


def measure_loaded(where: Ground, *, rate: float, tasks: int) -> Waits:
    """How long they wait while others are served too."""
    with installed(where) as installation:
        installation.start_scheduler()
        with installation.under_load(rate):
            return _run(run(installation.settings, (), tasks=tasks))


def _run(measuring: Coroutine[Any, Any, Waits]) -> Waits:
    """As our own processes run."""
    spare_garbage_collection()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(measuring)


async def run_beside_floor(stage: Stage, roles: Sequence[str], *, tasks: int) -> Waits:
    steps = await record(stage.place, tasks + WARM_UP)
    async with floor_of(stage.place, stage.redis, steps=steps) as pass_one:
        return await run(stage.settings, roles, tasks=tasks, pass_one=pass_one)


async def run(settings: Mapping[str, Any], roles: Sequence[str], *, tasks: int, pass_one: Pass | None = None) -> Waits:
    async with rota.Rota(settings, roles=roles) as app:
        return await measure(app, tasks, pass_one=pass_one)


if __name__ == "__main__":
    sys.exit(main())
