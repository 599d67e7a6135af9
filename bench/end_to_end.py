"""How many tasks a second does an installation carry, from submit to result?

    python bench/end_to_end.py [--tasks 50000] [--rounds 3] [--only redis+mariadb]

A producer, a scheduler and two workers, each a process of its own, on servers of their own, durable and freshly
started. Each round begins with an empty database and has two parts:

- *drain*: the tasks are created while no scheduler runs; the clock runs from the first start to the last result.
- *both*: they are created in batches, by the Python API, while they are worked on; the clock runs from the first call
  to the last result.

Beside them the *floor*: processes without any logic that send the same statements and commands (`bench/floor.py`). The
embedded installation is one process. Rates are medians over the rounds; CPU is what a task takes of each process.
"""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rota
from bench import noop_app
from bench.floor import play, record
from bench.forks import in_a_fork
from bench.grounds import GROUNDS, Ground, ground
from bench.installation import (
    CAPACITY,
    Installation,
    create,
    find_first_start,
    installed,
    spare_garbage_collection,
    wait_until_done,
)
from bench.options import parser_of, within
from bench.usage import MOST_OF_OTHERS, Machine, MachineWatch, per_task
from bench.workload import BATCH
from rota.infrastructure.event_loop import new_event_loop

NOOP = noop_app.nothing  # its type is known once it is imported
WARM_UP = 2_000  # tasks
PARTS = ("drain", "both")
CREATE = "create"  # of the floor alone: what it takes to create them, with nobody who works on them


@dataclass(slots=True)
class Part:
    """One entry a round: tasks a second, what a task took of each process in microseconds of CPU, and who else ran."""

    rates: list[float] = field(default_factory=list)
    cpu: list[Mapping[str, float]] = field(default_factory=list)
    machine: list[Machine] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return median(self.rates)

    def spent(self) -> dict[str, float]:
        return {name: median(one.get(name, 0.0) for one in self.cpu) for name in (self.cpu[0] if self.cpu else ())}

    @property
    def others(self) -> float:
        """The share of the machine that somebody else used, in the worst round."""
        return max(machine.others for machine in self.machine)

    def note(self, tasks: int, seconds: float, *, cpu: Mapping[str, float], machine: Machine) -> None:
        self.rates.append(tasks / seconds)
        self.cpu.append(cpu)
        self.machine.append(machine)


@dataclass(slots=True)
class Found:
    """Of one ground: Rota and its floor, by part."""

    rota: dict[str, Part] = field(default_factory=lambda: {name: Part() for name in PARTS})
    floor: dict[str, Part] = field(default_factory=lambda: {name: Part() for name in (*PARTS, CREATE)})


def measure(where: Ground, *, tasks: int, rounds: int) -> Found:
    """Round by round, Rota and its floor in each."""
    found = Found()
    say(f"{where.name}: writing down what {tasks:,} tasks send …")
    score = asyncio.run(record(where, tasks))
    for number in range(1, rounds + 1):
        for name, first in (("drain", ("create",)), ("both", ())):
            *before, played = play(where, score, first=first)
            found.floor[name].note(tasks, played.seconds, cpu=played.cpu, machine=played.machine)
            for created in before:
                found.floor[CREATE].note(tasks, created.seconds, cpu=created.cpu, machine=created.machine)
        if where.is_embedded:
            measure_embedded(where, tasks, found=found)
        else:
            measure_cluster(where, tasks, found=found)
        for name in PARTS:
            rota, floor = found.rota[name], found.floor[name]
            say(
                f"{where.name}, round {number} of {rounds}, {name}: {rota.rates[-1]:,.0f} tasks/s,"
                f" floor {floor.rates[-1]:,.0f}; CPU of a task, in µs: {spell(rota.cpu[-1])}"
            )
    return found


def measure_cluster(where: Ground, tasks: int, *, found: Found) -> None:
    with installed(where) as installation:
        warm_up(installation)
        drain(installation, tasks, part=found.rota["drain"])
        both(installation, tasks, part=found.rota["both"])


def measure_embedded(where: Ground, tasks: int, *, found: Found) -> None:
    settings = {**asyncio.run(where.fresh()), "worker": {"capacity": CAPACITY}}
    for name in PARTS:
        watch = MachineWatch()
        seconds, cpu, whole = in_a_fork(_run_embedded, settings, tasks, name)
        found.rota[name].note(tasks, seconds, cpu={"process": cpu / tasks * 1e6}, machine=watch.read(whole))


def _run_embedded(  # fixed signature: Pool.apply
    settings: Mapping[str, Any], tasks: int, part: str
) -> tuple[float, float, float]:
    """Seconds, and CPU seconds of the one process that does it all: for that part, and with all that came before."""
    spare_garbage_collection()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return *runner.run(_run_all_roles(settings, tasks, is_drain=part == "drain")), time.process_time()


async def _run_all_roles(settings: Mapping[str, Any], tasks: int, *, is_drain: bool) -> tuple[float, float]:
    async with rota.Rota(settings) as app:  # declares the type, and warms up
        await create(app, WARM_UP)
        await wait_until_done(settings)
    began_at = time.time()
    if is_drain:
        async with rota.Rota(settings, roles=()) as app:
            await create(app, tasks)
    spent = time.process_time()
    async with rota.Rota(settings) as app:
        if not is_drain:
            spent, began_at = time.process_time(), time.time()
            await create(app, tasks)
        ended_at = await wait_until_done(settings)
        used = time.process_time() - spent
    return ended_at - (await find_first_start(settings, began_at) if is_drain else began_at), used


def warm_up(installation: Installation) -> None:
    scheduler = installation.start_scheduler()
    installation.produce(WARM_UP)
    installation.wait_until_done()
    scheduler.stop()


def drain(installation: Installation, tasks: int, *, part: Part) -> None:
    """Create first; then start a scheduler, which stays."""
    produced = installation.produce(tasks)
    before, watch = installation.cpu(), MachineWatch()
    installation.start_scheduler()
    ended_at = installation.wait_until_done()
    cpu = per_task(before, installation.cpu(), tasks=tasks)
    part.note(
        tasks, ended_at - installation.first_start(produced.began_at), cpu=cpu, machine=watch.read(_whole(cpu, tasks))
    )


def both(installation: Installation, tasks: int, *, part: Part) -> None:
    """Create while a scheduler runs."""
    before, watch = installation.cpu(), MachineWatch()
    produced = installation.produce(tasks)
    ended_at = installation.wait_until_done()
    cpu = per_task(before, installation.cpu(), tasks=tasks)
    cpu["producer"] = produced.cpu / tasks * 1e6
    part.note(tasks, ended_at - produced.began_at, cpu=cpu, machine=watch.read(_whole(cpu, tasks)))


def _whole(cpu: Mapping[str, float], tasks: int) -> float:
    return sum(cpu.values()) * tasks / 1e6


def report(name: str, found: Found) -> None:
    print(f"\n{name:18s}{'tasks/s':>10s}{'floor':>10s}{'of floor':>10s}   CPU of a task, in µs")
    for part in PARTS:
        rota, floor = found.rota[part], found.floor[part]
        line = f"  {part:16s}{rota.rate:10,.0f}{floor.rate:10,.0f}{rota.rate / floor.rate:10.0%}"
        print(f"{line}   {spell(rota.spent())}; floor: {spell(floor.spent())}")
        if max(rota.others, floor.others) > MOST_OF_OTHERS:
            print(f"  {part}: others used up to {max(rota.others, floor.others):.0%} of the machine meanwhile")


def spell(spent: Mapping[str, float]) -> str:
    told = [f"{name} {used:.0f}" for name, used in spent.items() if used >= 0.5]  # a server that is idle says nothing
    return ", ".join((*told, f"sum {sum(spent.values()):.0f}"))


def say(text: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--tasks", type=within(BATCH), default=50_000, help="of one round")
    parser.add_argument("--rounds", type=within(1), default=3, help="the result is their median")
    parser.add_argument("--only", choices=GROUNDS, action="append", help="this alone; may be repeated")
    options = parser.parse_args(arguments)
    for name in options.only or GROUNDS:
        with ground(name) as where:
            report(name, measure(where, tasks=options.tasks, rounds=options.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
