"""How fast is the store, beside a bare driver that sends the very same statements?

    python bench/store.py [--tasks 30000] [--rounds 3] [--history 1000000] [--only mariadb]

For MariaDB, PostgreSQL and SQLite, each durable and freshly started: rows a second for add, grant and finish in batches
of 500 through the store; each batch's recorded statements again through the bare driver on an equal database; and the
batch through the store on a database with a history. On MariaDB also the server's CPU per task for the whole life, its
background work included, with and without the log rows, and that of a plain table. Everything is a median over rounds
in this one run: compare ratios, not rates.
"""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.bare import BARE, Send
from bench.history import write_history
from bench.options import parser_of, within
from bench.places import Place, place
from bench.plain import CREATE, plain_transactions
from bench.recording import Recording, Statement, recording
from bench.usage import OthersWatch
from bench.workload import Workload, prepare
from rota.application.ports.store import Store
from rota.domain.submission import NewTask
from rota.domain.task import Transition
from rota.infrastructure.store.sql.store import open_sql_store
from rota.infrastructure.system import SystemClock, SystemRandom

PHASES = ("add", "grant", "finish")
LEAST_OF_BARE = 0.60
LEAST_OF_EMPTY = 0.80
IN_FLIGHT = 4  # batches between a task being added, granted and ended
MOST_OF_PLAIN = {"with logs": 45 / 78, "without logs": 32 / 78}  # of a plain table's CPU; microseconds vary by machine
PLAIN = "plain table"
Phases = dict[str, float]


@dataclass(slots=True)
class Findings:
    """Rates by runner and phase, one entry a round; CPU per task in microseconds."""

    rates: dict[str, list[Phases]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def rate(self, runner: str, phase: str) -> float:
        return median(rates[phase] for rates in self.rates[runner])

    def ratio(self, part: str, whole: str, *, phase: str) -> float:
        return median(one[phase] / other[phase] for one, other in zip(self.rates[part], self.rates[whole], strict=True))


@dataclass(slots=True)
class Race:
    """The same batches through the store, through the bare driver, and through the store on an old database.

    Batch by batch in turn, so that a slow moment of the machine meets all three alike."""

    store: Store
    old: Store | None
    bare: Send
    tape: Recording
    transactions: list[list[Statement]] = field(default_factory=list)  # all that was sent, reads left out
    seconds: dict[str, Phases] = field(default_factory=dict)  # by runner and phase

    async def run(self, work: Workload) -> None:
        for batch in work.adds:
            await self._each(partial(_add, batch=batch), phase="add")
        for phase, batches in (("grant", work.grants), ("finish", work.ends)):
            for steps in batches:
                await self._each(partial(_advance, batch=steps), phase=phase)

    async def _each(self, call: Callable[[Store], Awaitable[object]], *, phase: str) -> None:
        self.tape.transactions.clear()
        await self._timed("store", phase, work=call(self.store))
        sent = [part for part in self.tape.transactions if any(statement.is_write for statement in part)]
        for transaction in sent:
            await self._timed("bare", phase, work=self.bare(transaction))
        self.transactions += sent
        if self.old is not None:
            await self._timed("old", phase, work=call(self.old))

    async def _timed(self, runner: str, phase: str, *, work: Awaitable[object]) -> None:
        started = perf_counter()
        await work
        spent = self.seconds.setdefault(runner, dict.fromkeys(PHASES, 0.0))
        spent[phase] += perf_counter() - started


async def _add(store: Store, *, batch: Sequence[NewTask]) -> None:
    await store.tasks.add(batch)


async def _advance(store: Store, *, batch: Sequence[Transition]) -> None:
    await store.tasks.advance(batch)


async def race(where: Place, work: Workload, *, old_url: str | None) -> Race:
    """Run the work on an empty database, bare on an equal one, and on the old one if there is one."""
    async with AsyncExitStack() as stack:
        tape = stack.enter_context(recording())
        open_store = partial(open_sql_store, clock=SystemClock(), random=SystemRandom())
        store = await stack.enter_async_context(open_store(await where.fresh()))
        old = await stack.enter_async_context(open_store(old_url)) if old_url else None
        bare = await stack.enter_async_context(BARE[where.name](await where.fresh()))
        for each in (store, old):
            if each is not None:
                await each.tasks.now()  # connect before the clock starts
        run = Race(store, old, bare, tape)
        await run.run(work)
        return run


async def measure_cpu(where: Place, work: Workload, *, writes: list[list[Statement]]) -> dict[str, float]:
    """Server CPU per task for the whole life, until its background work is done.

    Of our tables with and without the log rows, and of a plain one without log rows."""
    results = {}
    without_logs = [[statement for statement in part if "task_logs" not in statement.sql] for part in writes]
    plain = plain_transactions(work)
    for name, transactions in (("with logs", writes), ("without logs", without_logs), (PLAIN, plain)):
        async with BARE[where.name](await where.fresh()) as send:
            await send([Statement(CREATE, None, is_many=False)])
            wait_until_idle(where)
            before = where.cpu_seconds()
            for transaction in in_life_order(transactions):
                await send(transaction)
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


async def measure(where: Place, *, tasks: int, rounds: int, history: int, with_cpu: bool = True) -> Findings:
    """Round by round, everything in each."""
    found = Findings()
    old_url = await prepare_history(where, history) if history else None
    for number in range(1, rounds + 1):
        print(f"  {where.name}: round {number} of {rounds} …", flush=True)
        work = prepare(tasks)
        gc.freeze()  # what was prepared is no part of a running Rota: its collector shall not walk over it
        run = await race(where, work, old_url=old_url)
        for runner, seconds in run.seconds.items():
            found.rates.setdefault(runner, []).append({phase: tasks / seconds[phase] for phase in PHASES})
        if where.name == "mariadb" and with_cpu:
            for name, cost in (await measure_cpu(where, work, writes=run.transactions)).items():
                found.cpu.setdefault(name, []).append(cost)
    return found


async def prepare_history(where: Place, tasks: int) -> str:
    print(f"  {where.name}: writing a history of {tasks:,} tasks …", flush=True)
    url = await where.fresh()
    write_history(where, url, tasks=tasks)
    where.settle()
    wait_until_idle(where)
    return url


def report(name: str, found: Findings) -> list[str]:
    """Print one table; return what missed its bar."""
    missed = []
    print(f"\n{name:12s}{'store/s':>12s}{'bare/s':>12s}{'of bare':>10s}{'old/s':>12s}{'of empty':>10s}")
    for phase in PHASES:
        share = found.ratio("store", "bare", phase=phase)
        line = f"  {phase:10s}{found.rate('store', phase):12,.0f}{found.rate('bare', phase):12,.0f}{share:10.0%}"
        if share < LEAST_OF_BARE:
            missed.append(f"{name} {phase}: {share:.0%} of bare, wanted {LEAST_OF_BARE:.0%}")
        if "old" in found.rates:
            kept = found.ratio("old", "store", phase=phase)
            line += f"{found.rate('old', phase):12,.0f}{kept:10.0%}"
            if kept < LEAST_OF_EMPTY:
                missed.append(f"{name} {phase}: {kept:.0%} of the empty rate, wanted {LEAST_OF_EMPTY:.0%}")
        print(line)
    return missed + (report_cpu(found) if found.cpu else [])


def report_cpu(found: Findings) -> list[str]:
    """Print what a whole life costs the server; return what costs too much beside a plain table."""
    missed = []
    for what, costs in found.cpu.items():
        line = f"  life cycle, {what}: {median(costs):.1f} µs of server CPU per task"
        if what in MOST_OF_PLAIN:
            share = median(costs) / median(found.cpu[PLAIN])
            line += f", {share:.0%} of a plain table (at most {MOST_OF_PLAIN[what]:.0%})"
            if share > MOST_OF_PLAIN[what]:
                missed.append(f"life cycle {what}: {share:.0%} of a plain table, wanted {MOST_OF_PLAIN[what]:.0%}")
        print(line)
    return missed


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--tasks", type=within(1_000), default=30_000, help="of one round")
    parser.add_argument("--rounds", type=within(1), default=3, help="the result is their median")
    parser.add_argument("--history", type=within(0), default=1_000_000, help="ended tasks of the old database; 0: none")
    parser.add_argument("--only", choices=sorted(BARE), action="append", help="this alone; may be repeated")
    options = parser.parse_args()
    missed, watch = [], OthersWatch()
    for name in options.only or ("mariadb", "postgresql", "sqlite"):
        with place(name) as where:
            work = measure(where, tasks=options.tasks, rounds=options.rounds, history=options.history)
            missed += report(name, asyncio.run(work))
    print(f"\n{watch.spell()}")
    print("all bars held" if not missed else "missed: " + "; ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
