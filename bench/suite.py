"""All that is measured of an installation, in one run: `make bench`, or `make bench QUICK=1`.

    python bench/suite.py [--quick] [--without peers] [--only growth]
    python bench/suite.py --render      # the table and the picture of the latest whole run anew, without measuring

Composed of what the other programs in this folder measure one by one. Starts servers of its own on private ports,
shows how far it is, prints a table, and writes Markdown, JSON and a picture into `bench/results/`: as `latest`, or as
`quick` or `part` where it was not a whole run, and under the time when it began. Before all parts have ended well it
is `unfinished`, and the others stay as they were. About thirteen minutes; three to five with `--quick`, which measures
one round of everything and fewer tasks; the first time longer, since the other queues are installed. Exit code 1 when a
part failed, 130 when it was interrupted. What somebody else used of the machine meanwhile is told beside its figures
where it was much: a run that was disturbed is worth little.
"""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import api, end_to_end, growth, grpc_api, latency, resources
from bench.end_to_end import say
from bench.gathering import gather
from bench.grounds import GROUNDS, ground
from bench.installation import wait_until_done
from bench.options import parser_of
from bench.outcome import END_TO_END_TASKS, GRANT_CPU, LATEST, UNFINISHED, Figure, Outcome
from bench.peers import run as peers
from bench.surroundings import surroundings
from bench.usage import MachineWatch
from bench.yardstick import measure_python

RESULTS = Path(__file__).with_name("results")
MAIN = "redis+mariadb"
INTERRUPTED = 130  # as a shell tells of a program that was ended by Ctrl-C


@dataclass(slots=True)
class Size:
    """How much of everything."""

    is_quick: bool
    reached: float = 0.0  # tasks a second that Rota carried on the main ground, once it is known …
    floor: float = 0.0  # … and that the floor created there

    @property
    def rounds(self) -> int:
        return 1 if self.is_quick else 3

    def of(self, quick: float, whole: float) -> float:
        return quick if self.is_quick else whole


def measure_end_to_end(size: Size) -> Iterator[Figure]:
    group = "End to end"
    for name in GROUNDS if not size.is_quick else (MAIN, "embedded"):
        with ground(name) as where:
            found = end_to_end.measure(where, tasks=int(size.of(10_000, END_TO_END_TASKS)), rounds=size.rounds)
        for part in end_to_end.PARTS:
            rota, floor = found.rota[part], found.floor[part]
            start = ", with the scheduler's start" if part == "drain" and not where.is_embedded else ""
            spent = f"CPU of a task{start}: {end_to_end.spell(rota.spent())} µs"
            share = rota.rate / floor.rate
            others = max(rota.others, floor.others)
            yield Figure(group, f"{name}, {part}", rota.rate, "tasks/s", share, "the floor", spent, others, rota.rates)
            idle = max(machine.idle for machine in floor.machine)  # none, or something else than work held it up
            spent = f"CPU of a task: {end_to_end.spell(floor.spent())} µs; up to {idle:.0%} of the machine was idle"
            floor_name, others, rounds = f"floor of {name}, {part}", floor.others, floor.rates
            yield Figure(group, floor_name, floor.rate, "tasks/s", None, "", spent, others, rounds)
        if name == MAIN:
            size.reached, size.floor = found.rota["both"].rate, found.floor[end_to_end.CREATE].rate
            yield Figure(group, f"floor of {name}, creating alone", size.floor, "tasks/s")


class Form(NamedTuple):
    """How tasks are created."""

    lanes: int
    batch: int = 0  # tasks in each request; 0: one, by itself
    is_working: bool = False  # whether a scheduler and workers run

    @property
    def name(self) -> str:
        name = f"batches of {self.batch:,}" if self.batch else f"one by one, {self.lanes} at once"
        return f"{name}, worked on meanwhile" if self.is_working else name


FORMS = (Form(1), Form(32), Form(128), Form(api.BATCH_LANES, batch=1000), Form(32, is_working=True))


def measure_creates(size: Size) -> Iterator[Figure]:
    for is_working, forms in groupby(FORMS, key=lambda form: form.is_working):
        with ground(MAIN) as where, api.serving(where, is_working=is_working) as served:
            for form in forms:
                say(f"creating over HTTP and gRPC, {form.name} …")
                yield from _creates(served, form, size=size)


def _creates(served: api.Served, form: Form, *, size: Size) -> Iterator[Figure]:
    seconds = size.of(1.0, 2.0)
    load = api.Load(served.http, served.secret, seconds, served.pids)
    wanted = grpc_api.Wanted(form.lanes, form.batch, seconds)
    once: dict[str, Callable[[], float]] = {
        "HTTP": lambda: load.run(form.lanes, batch=form.batch).rate,
        "gRPC": lambda: grpc_api.rate(served, wanted),
    }
    for protocol, create in once.items():
        watch = MachineWatch()
        rates = [create() for _ in range(size.rounds)]
        rate = median(rates)
        note = f"{watch.read(0).idle:.0%} of the machine was idle"
        if form.is_working:
            note += f"; tasks left to be done when the last one was created: {asyncio.run(served.count_left()):,}"
            asyncio.run(wait_until_done(served.settings))
        share = rate / size.floor if size.floor else None
        name, of = f"{protocol}, {form.name}", "creating alone"
        yield Figure("Creating tasks", name, rate, "tasks/s", share, of, note, rounds=rates)


def measure_waits(size: Size) -> Iterator[Figure]:
    tasks = int(size.of(100, 300))
    for name in latency.PLACES:
        say(f"waits, {name} …")
        yield from _waits(f"{name}, idle", latency.measure_place(name, tasks))
    rate = (size.reached or 2_000) / 2
    say(f"waits at {rate:,.0f} tasks/s …")
    with ground(MAIN) as where:
        yield from _waits("mariadb + redis, at half load", latency.measure_loaded(where, rate=rate, tasks=tasks))


def _waits(name: str, found: latency.Waits) -> Iterator[Figure]:
    for until, values in (("start", found.starts), ("result", found.ends), ("start, the floor", found.floors)):
        for share in (0.5, 0.99) if values else ():
            yield Figure("Waits", f"{name}: create to {until}, p{share * 100:.0f}", latency.at(values, share), "ms")


def measure_resources(size: Size) -> Iterator[Figure]:
    tasks = int(size.of(10_000, resources.STEADY))
    with ground(MAIN) as where:
        memory = resources.measure_memory(where, tasks)
        idle = resources.measure_idle_cpu(where, size.of(5.0, 20.0))
    for moment, figures in memory.items():
        unit, note = ("bytes", resources.doubt(tasks)) if moment.startswith(resources.BYTES) else ("MiB", "")
        for name, value in figures.items():
            yield Figure("Resources", f"{moment}: {name}", value, unit, note=note)
    for name, value in idle.items():
        yield Figure("Resources", f"idle cluster: {name}", value * 100, "% of a core")


def measure_peers(size: Size) -> Iterator[Figure]:
    found = peers.measure_all((), rounds=size.rounds, share=size.of(0.25, 0.6))
    for name, figures in found.items():
        if isinstance(figures, str):
            yield Figure("Peers", name, 0.0, "tasks/s", note=f"could not be measured: {figures}")
            continue
        for part, rates in (("drain", figures.drain), ("both", figures.both)):
            share = rates.rate / size.reached if part == "both" and size.reached else None
            spent = f"CPU of a task: {end_to_end.spell(rates.spent())} µs"
            note = f"release {figures.version}, workers take {figures.memory:.0f} MiB; {spent}"
            told, of = f"{name}, {part}", f"Rota on {MAIN}"
            yield Figure("Peers", told, rates.rate, "tasks/s", share, of, note, rates.others, rates.rates)
    if lost := [name for name, figures in found.items() if isinstance(figures, str)]:
        raise RuntimeError(f"not all could be measured: {', '.join(lost)}")  # a whole run has them all


def measure_growth(size: Size) -> Iterator[Figure]:
    with ground(MAIN) as where:
        found = growth.measure(where, tasks=3_000, rounds=size.rounds, is_large=not size.is_quick)
        for name, one in found.items():
            yield from _growth(name, one, found=found)
        for history in (1_000_000,) if size.is_quick else (1_000_000, 10_000_000):
            say(f"growth: a history of {history:,} tasks …")
            tasks = int(size.of(5_000, 10_000))
            kept = growth.measure_history(where, tasks=tasks, rounds=size.rounds, history=history)
            for phase, share in kept.items():
                yield Figure("Growth", f"{history:,} ended tasks: {phase}", share * 100, "% of empty")


def _growth(name: str, one: growth.Found, *, found: Mapping[str, growth.Found]) -> Iterator[Figure]:
    name_of_first, first = next(iter(found.items()))
    rate, cpu = (None, None) if one is first else (one.rate / first.rate, one.cpu_us / first.cpu_us)
    yield Figure("Growth", name, one.rate, "grants/s", rate, name_of_first)
    yield Figure("Growth", f"{name}: {GRANT_CPU}", one.cpu_us, "µs", cpu, name_of_first)
    yield Figure("Growth", f"{name}: scheduler", one.scheduler, "MiB")
    yield Figure("Growth", f"{name}: redis", one.redis, "MiB")


def measure_machine(_: Size, *, moment: str) -> Iterator[Figure]:
    """How fast plain Python is here and now: servers are native code, and do not get slower and faster with it."""
    yield Figure("The machine", f"a thousand calls of plain Python, {moment}", measure_python(), "µs")


PARTS: dict[str, Callable[[Size], Iterator[Figure]]] = {
    "machine": partial(measure_machine, moment="at the beginning"),
    "end-to-end": measure_end_to_end,
    "creates": measure_creates,
    "waits": measure_waits,
    "resources": measure_resources,
    "peers": measure_peers,
    "growth": measure_growth,
    "machine-after": partial(measure_machine, moment="at the end"),
}


def main(arguments: Sequence[str]) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of everything, and fewer tasks")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone; may be repeated")
    parser.add_argument("--without", choices=PARTS, action="append", help="all but this part; may be repeated")
    parser.add_argument("--render", action="store_true", help="write the latest whole run anew, without measuring")
    options = parser.parse_args(arguments)
    names = [name for name in options.only or PARTS if name not in (options.without or ())]
    if not names:
        parser.error("nothing is left to be measured")
    if options.render:
        Outcome.read(RESULTS / f"{LATEST}.json").write(RESULTS)
        return 0
    return measure(names, is_quick=options.quick)


def measure(names: Sequence[str], *, is_quick: bool) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))  # so that every server and process is ended
    began_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    outcome = Outcome(began_at, is_quick, is_whole=set(names) == set(PARTS))
    outcome.surroundings.update(surroundings(["python", "bench/suite.py", *sys.argv[1:]]))
    if outcome.is_whole:
        say(f"about {'three to five' if is_quick else 'thirteen'} minutes; more where other queues are to be installed")
    size = Size(is_quick)  # one for all: what the first part reaches, others are measured by
    try:
        gather({name: partial(PARTS[name], size) for name in names}, outcome, folder=RESULTS, say=say)
    except (KeyboardInterrupt, SystemExit):
        print(f"\ninterrupted: what there is so far stands in {_folder()}/{UNFINISHED}.md, no other run was replaced")
        return INTERRUPTED
    print("\n".join(outcome.to_text()))
    print("\n".join(["", *last_words(outcome)]))
    return 1 if outcome.left else 0


def last_words(outcome: Outcome) -> Iterator[str]:
    """Where it stands, and what to do with it."""
    stem = outcome.stem
    yield f"written to {_folder()}/{stem}.md, and as {stem}.json and {stem}.svg (the picture)"
    if outcome.left:
        yield f"failed: {', '.join(outcome.left)}; no other run was replaced"
    elif stem == LATEST:
        yield "the tables of speed in both READMEs and the docs are made from it by: make docs"
        yield from outcome.headlines()


def _folder() -> Path:
    return RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
