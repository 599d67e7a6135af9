"""How long does a task wait on an idle system, from the submit call to the first line of its function?

    python bench/latency.py [--tasks 300] [--load 3000]

On MariaDB and Redis with a scheduler and two workers as processes of their own, and embedded in one process on SQLite.
The tasks are submitted one after the other, each when the one before has ended. Both ends read the clock of this one
machine. Prints the median and the 99th percentile of the wait, and of the whole way until the result is visible. With
`--load`, also while so many other tasks a second are created and run on MariaDB and Redis.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rota
from bench import noop_app
from bench.grounds import Ground, ground
from bench.installation import installed
from rota.embedding import EVERY_ROLE

STAMP = noop_app.stamp  # its tasks are known once it is imported
WARM_UP = 20
LOADED = "under load"
MOST_MS = {"mariadb + redis": (5.0, 20.0), "embedded": (2.0, None)}  # median, 99th percentile


async def measure(app: rota.Rota, tasks: int) -> tuple[list[float], list[float]]:
    """Milliseconds until the function starts, and until its result is visible."""
    starts, ends = [], []
    for number in range(tasks + WARM_UP):
        asked_at = time.time()
        handle = await app.submit("stamp")
        view = await handle.wait("30s")
        seen_at = time.time()
        if view.result is None:
            raise RuntimeError(f"task {view.id} is {view.status}: {view.error}")
        if number >= WARM_UP:
            starts.append((view.result.data["at"] - asked_at) * 1e3)
            ends.append((seen_at - asked_at) * 1e3)
    return starts, ends


@contextmanager
def separate_processes(folder: Path) -> Iterator[dict[str, Any]]:
    with ground("redis+mariadb") as where, installed(where) as installation:
        installation.start_scheduler()
        yield dict(installation.settings)


@contextmanager
def one_process(folder: Path) -> Iterator[dict[str, Any]]:
    yield {"store": {"url": f"sqlite:///{folder}/rota.db"}, "coordinator": {"url": "memory://"}}


PLACES = {"mariadb + redis": (separate_processes, ()), "embedded": (one_process, EVERY_ROLE)}


def at(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def report(name: str, starts: Sequence[float], *, ends: Sequence[float]) -> list[str]:
    """Print one line; return what missed its bar."""
    p50, p99 = at(starts, 0.5), at(starts, 0.99)
    print(f"{name:18s}{p50:10.2f}{p99:10.2f}{at(ends, 0.5):14.2f}{at(ends, 0.99):10.2f}")
    most50, most99 = MOST_MS.get(name, (float("inf"), None))
    missed = [f"{name}: median {p50:.2f} ms, wanted {most50}"] if p50 > most50 else []
    if most99 is not None and p99 > most99:
        missed.append(f"{name}: 99th percentile {p99:.2f} ms, wanted {most99}")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--load", type=float, help="other tasks a second")
    options = parser.parse_args()
    print(f"{'milliseconds':18s}{'start p50':>10s}{'p99':>10s}{'result p50':>14s}{'p99':>10s}")
    missed = []
    for name in PLACES:
        starts, ends = measure_place(name, options.tasks)
        missed += report(name, starts, ends=ends)
    if options.load:
        with ground("redis+mariadb") as where:
            starts, ends = measure_loaded(where, rate=options.load, tasks=options.tasks)
        report(LOADED, starts, ends=ends)
    print("all bars held" if not missed else "missed: " + "; ".join(missed))
    return 1 if missed else 0


def measure_place(name: str, tasks: int) -> tuple[list[float], list[float]]:
    """Milliseconds until the function starts, and until its result is visible, on an idle system."""
    place, roles = PLACES[name]
    with TemporaryDirectory() as folder, place(Path(folder)) as settings:
        return asyncio.run(run(settings, roles, tasks=tasks))


def measure_loaded(where: Ground, *, rate: float, tasks: int) -> tuple[list[float], list[float]]:
    """The same while others are served too."""
    with installed(where) as installation:
        installation.start_scheduler()
        with installation.under_load(rate):
            return asyncio.run(run(installation.settings, (), tasks=tasks))


async def run(settings: Mapping[str, Any], roles: Sequence[str], *, tasks: int) -> tuple[list[float], list[float]]:
    async with rota.Rota(settings, roles=roles) as app:
        return await measure(app, tasks)


if __name__ == "__main__":
    sys.exit(main())
