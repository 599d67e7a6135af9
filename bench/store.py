"""How fast is the store, beside a bare driver that sends the very same statements?

    python bench/store.py [--tasks 30000] [--rounds 3] [--history 1000000] [--only mariadb]

For MariaDB, PostgreSQL and SQLite, each durable and freshly started: rows a second for add, grant and finish in batches
of 500 through the store; then the recorded statements again through the bare driver on an equal database; then the
store on a database with a history. On MariaDB also the server's CPU per task for the whole life, its background work
included, with and without the log rows. Everything is a median over rounds in this one run: compare ratios, not rates.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.bare import REPLAY
from bench.history import write_history
from bench.places import Place, place
from bench.recording import Recording, Statement, recording
from bench.workload import Workload, prepare, run_phases
from rota.infrastructure.store.sql.store import open_sql_store
from rota.infrastructure.system import SystemClock, SystemRandom

PHASES = ("add", "grant", "finish")
LEAST_OF_BARE = 0.60
LEAST_OF_EMPTY = 0.80
IN_FLIGHT = 4  # batches between a task being added, granted and ended
MOST_CPU_US = {"with logs": 45.0, "without logs": 32.0}
Phases = dict[str, float]


@dataclass(slots=True)
class Findings:
    """Rates by phase, one entry a round; CPU per task in microseconds."""

    store: list[Phases] = field(default_factory=list)
    bare: list[Phases] = field(default_factory=list)
    old: list[Phases] = field(default_factory=list)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def ratio(self, part: list[Phases], whole: list[Phases], *, phase: str) -> float:
        return _median(part, phase) / _median(whole, phase)


async def run_store(url: str, work: Workload) -> tuple[Phases, Recording]:
    """Rates of the store, and what it sent."""
    with recording() as tape:
        async with open_sql_store(url, clock=SystemClock(), random=SystemRandom()) as store:
            await store.tasks.now()  # connect before the clock starts
            seconds = await run_phases(store, work)
    return {phase: work.tasks / spent for phase, spent in seconds.items()}, tape


async def run_bare(where: Place, work: Workload, *, tape: Recording) -> Phases:
    """Rates of the bare driver with the same statements on an equal database."""
    url = await where.fresh()
    transactions = [part for part in tape.transactions if any(is_write(statement) for statement in part)]
    each = len(transactions) // len(PHASES)
    rates = {}
    for number, phase in enumerate(PHASES):
        part = transactions[number * each : (number + 1) * each]
        rates[phase] = work.tasks / await REPLAY[where.name](url, part)
    return rates


async def measure_cpu(where: Place, work: Workload, *, tape: Recording) -> dict[str, float]:
    """Server CPU per task for the whole life, with and without the log rows, until its background work is done."""
    results = {}
    writes = [part for part in tape.transactions if any(is_write(statement) for statement in part)]
    without_logs = [[statement for statement in part if "task_logs" not in statement.sql] for part in writes]
    for name, transactions in (("with logs", writes), ("without logs", without_logs)):
        url = await where.fresh()
        wait_until_idle(where)
        before = where.cpu_seconds()
        await REPLAY[where.name](url, in_life_order(transactions))
        wait_until_idle(where)
        results[name] = (where.cpu_seconds() - before) / work.tasks * 1e6
    return results


def in_life_order(transactions: Sequence[Sequence[Statement]]) -> list[Sequence[Statement]]:
    """As in a running system: while some batches are added, earlier ones are granted and still earlier ones end."""
    each = len(transactions) // len(PHASES)
    return [
        transactions[phase * each + moment - phase * IN_FLIGHT]
        for moment in range(each + len(PHASES) * IN_FLIGHT)
        for phase in range(len(PHASES))
        if 0 <= moment - phase * IN_FLIGHT < each
    ]


def wait_until_idle(where: Place, *, quiet_s: float = 0.5, most_s: float = 30.0) -> None:
    """Until the server used almost no CPU for a moment: its purge and flush are part of the cost."""
    deadline = perf_counter() + most_s
    while perf_counter() < deadline:
        before = where.cpu_seconds()
        sleep(quiet_s)
        if where.cpu_seconds() - before <= 0.02 * quiet_s + 0.01:
            return


def is_write(statement: Statement) -> bool:
    return not statement.sql.lstrip().startswith(("SELECT", "SHOW", "SET", "select", "show"))


async def measure(where: Place, *, tasks: int, rounds: int, history: int) -> Findings:
    """Round by round, everything in each, so that a slow moment of the machine meets all alike."""
    found = Findings()
    old_url = await prepare_history(where, history) if history else None
    for number in range(1, rounds + 1):
        print(f"  {where.name}: round {number} of {rounds} …", flush=True)
        work = prepare(tasks)
        rates, tape = await run_store(await where.fresh(), work)
        found.store.append(rates)
        found.bare.append(await run_bare(where, work, tape=tape))
        if old_url is not None:
            found.old.append((await run_store(old_url, work))[0])
        if where.name == "mariadb":
            for name, cost in (await measure_cpu(where, work, tape=tape)).items():
                found.cpu.setdefault(name, []).append(cost)
    return found


async def prepare_history(where: Place, tasks: int) -> str:
    print(f"  {where.name}: writing a history of {tasks:,} tasks …", flush=True)
    url = await where.fresh()
    write_history(where, url, tasks=tasks)
    wait_until_idle(where)
    return url


def report(name: str, found: Findings) -> list[str]:
    """Print one table; return what missed its bar."""
    missed = []
    print(f"\n{name:12s}{'store/s':>12s}{'bare/s':>12s}{'of bare':>10s}{'old/s':>12s}{'of empty':>10s}")
    for phase in PHASES:
        share = found.ratio(found.store, found.bare, phase=phase)
        line = f"  {phase:10s}{_median(found.store, phase):12,.0f}{_median(found.bare, phase):12,.0f}{share:10.0%}"
        if share < LEAST_OF_BARE:
            missed.append(f"{name} {phase}: {share:.0%} of bare, wanted {LEAST_OF_BARE:.0%}")
        if found.old:
            kept = found.ratio(found.old, found.store, phase=phase)
            line += f"{_median(found.old, phase):12,.0f}{kept:10.0%}"
            if kept < LEAST_OF_EMPTY:
                missed.append(f"{name} {phase}: {kept:.0%} of the empty rate, wanted {LEAST_OF_EMPTY:.0%}")
        print(line)
    for what, costs in found.cpu.items():
        print(f"  life cycle {what}: {median(costs):.1f} µs of server CPU per task (at most {MOST_CPU_US[what]:.0f})")
        if median(costs) > MOST_CPU_US[what]:
            missed.append(f"{name} life cycle {what}: {median(costs):.1f} µs, wanted {MOST_CPU_US[what]:.0f}")
    return missed


def _median(rounds: list[Phases], phase: str) -> float:
    return median(rates[phase] for rates in rounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--tasks", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--history", type=int, default=1_000_000)
    parser.add_argument("--only", choices=sorted(REPLAY), action="append")
    options = parser.parse_args()
    missed = []
    for name in options.only or ("mariadb", "postgresql", "sqlite"):
        with place(name) as where:
            work = measure(where, tasks=options.tasks, rounds=options.rounds, history=options.history)
            missed += report(name, asyncio.run(work))
    print("\nall bars held" if not missed else "\nmissed: " + "; ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
