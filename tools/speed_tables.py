"""Write the tables of speed into README and the page about performance: `python -m tools.speed_tables [--check]`.

They are made from the newest whole run, `bench/results/latest.json`, so that no page tells of another run than the one
that it leads to. What stands between the marks of a table is replaced; what is around it says nothing of one run alone.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.outcome import BOTH, FLOOR_OF, GRANT_CPU, INSTALLATIONS
from bench.peers.catalogue import PEERS

ROOT = Path(__file__).parent.parent
LATEST = ROOT / "bench" / "results" / "latest.json"
MAIN, POSTGRES = "redis+mariadb", "redis+postgresql"
ON_REDIS = [peer.name for peer in PEERS if "Redis" in peer.ground]
FIRST_OF_GROWTH = "3 workers, 1 type"
START = "create to start"


class MissingFigureError(Exception):
    """The run has not all that the tables tell of."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{LATEST.relative_to(ROOT)} has no figure {name!r}, so that the tables cannot be made from it: measure it"
            f" by make bench, or go back to the run that was published: git checkout {LATEST.parent.relative_to(ROOT)}"
        )


class Run:
    """One run of the benchmarks, asked by name."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.date = document["began_at"][:10]
        self._figures = {figure["name"]: figure for figure in document["figures"]}

    def value(self, name: str) -> float:
        return float(self._of(name, "value"))

    def share(self, name: str) -> float:
        return float(self._of(name, "share"))

    def note(self, name: str) -> str:
        return str(self._of(name, "note"))

    def _of(self, name: str, what: str) -> Any:
        found = self._figures.get(name, {}).get(what)
        if found is None:  # also a share of what was not measured
            raise MissingFigureError(name)
        return found

    def both(self, name: str) -> float:
        return self.value(f"{name}{BOTH}")

    def over(self, peer: str, ground: str) -> float:
        """How many times what a peer carried Rota did on a ground."""
        return self.both(ground) / self.both(peer)

    def most(self, *names: str) -> float:
        return max(self.value(name) for name in names)


@dataclass(frozen=True, slots=True)
class Aim:
    """What is to be reached, how far it was, and how it is told."""

    what: str
    sign: str
    bar: float
    reached: Callable[[Run], float]
    form: str

    def row(self, run: Run) -> str:
        reached = self.reached(run)
        is_held = reached >= self.bar if self.sign == AT_LEAST else reached <= self.bar
        bar, found = self.form.format(self.bar), self.form.format(reached)
        return f"| {self.what} | {self.sign} {bar} | {found} | {'yes' if is_held else '**no**'} |"


AT_LEAST, AT_MOST = "≥", "≤"


def at_least(bar: float, what: str, *, reached: Callable[[Run], float], form: str = "{:,.0f}") -> Aim:
    return Aim(what, AT_LEAST, bar, reached, form)


def at_most(bar: float, what: str, *, reached: Callable[[Run], float], form: str = "{:,.0f}") -> Aim:
    return Aim(what, AT_MOST, bar, reached, form)


def _over_fastest_on_redis(ground: str) -> Callable[[Run], float]:
    return lambda run: min(run.over(peer, ground) for peer in ON_REDIS)


def _with_history(run: Run) -> float:
    return min(run.value(f"10,000,000 ended tasks: {phase}") for phase in ("add", "grant", "finish")) / 100


def _start(place: str, part: str) -> Callable[[Run], float]:
    return lambda run: run.value(f"{place}: {START}, {part}")


AIMS = (
    at_least(20_000, "Redis + MariaDB, tasks/s", reached=lambda run: run.both(MAIN)),
    at_least(0.5, "the same, of its floor", reached=lambda run: run.share(f"{MAIN}{BOTH}"), form="{:.0%}"),
    at_least(25_000, "Redis + PostgreSQL, tasks/s", reached=lambda run: run.both(POSTGRES)),
    at_least(12_000, "PostgreSQL alone, tasks/s", reached=lambda run: run.both("sql+postgresql")),
    at_least(25_000, "SQLite, one process, tasks/s", reached=lambda run: run.both("embedded")),
    at_least(
        4,
        "the fastest other Python queue on Redis, by Rota on Redis",
        reached=_over_fastest_on_redis("redis-only"),
        form="{:.1f} ×",
    ),
    at_least(4, "the same, by Rota on Redis + MariaDB", reached=_over_fastest_on_redis(MAIN), form="{:.1f} ×"),
    at_least(
        1.2,
        "PgQueuer in batches of 500, by Rota on Redis + PostgreSQL",
        reached=lambda run: run.over("pgqueuer", POSTGRES),
        form="{:.2f} ×",
    ),
    at_least(
        5_000,
        "single creates/s over HTTP, 32 connections, worked on meanwhile",
        reached=lambda run: run.value("HTTP, one by one, 32 at once, worked on meanwhile"),
    ),
    at_least(30_000, "creates/s over HTTP in batches", reached=lambda run: run.value("HTTP, batches of 1,000")),
    at_most(3, "create to start, idle, median in ms", reached=_start("mariadb + redis, idle", "p50"), form="{:.1f}"),
    at_most(10, "the same, p99", reached=_start("mariadb + redis, idle", "p99"), form="{:.1f}"),
    at_most(1, "the same embedded, median", reached=_start("embedded, idle", "p50"), form="{:.2f}"),
    at_most(50, "the same at half load, p99", reached=_start("mariadb + redis, at half load", "p99")),
    at_least(60_000, "one scheduler's grants/s", reached=lambda run: run.value(FIRST_OF_GROWTH)),
    at_least(0.85, "with ten million ended tasks, of empty", reached=_with_history, form="{:.0%}"),
    at_most(
        1.3,
        "CPU of a grant: 200 workers instead of 3",
        reached=lambda run: run.share(f"200 workers: {GRANT_CPU}"),
        form="{:.2f} ×",
    ),
    at_most(
        1.2,
        "CPU of a grant: a million queued instead of 3,000",
        reached=lambda run: run.share(f"1,000,000 queued: {GRANT_CPU}"),
        form="{:.2f} ×",
    ),
    at_most(40, "Redis with a million queued, MiB", reached=lambda run: run.value("1,000,000 queued: redis")),
    at_most(150, "the scheduler with them, MiB", reached=lambda run: run.value("1,000,000 queued: scheduler")),
    at_most(
        120, "a worker after work, MiB", reached=lambda run: run.most("after work: worker-1", "after work: worker-2")
    ),
    at_most(
        3,
        "an idle cluster of 3 pods and 10 workers, % of a core",
        reached=lambda run: run.value("idle cluster: all of Rota"),
        form="{:.1f}",
    ),
)


@dataclass(frozen=True, slots=True)
class Words:
    """Of README's table in one language."""

    head: str
    rows: Mapping[str, str]  # what a ground is called, where not as elsewhere
    record: tuple[str, str]  # whether a queue keeps one of each task
    on: str
    start: str


ENGLISH = Words(
    "| Tasks a second ({date}) | created and worked on at once | drained | keeps a record of every task |",
    {},
    ("yes", "no"),
    "{name}, on {ground}",
    "A lone task began {apart:.1f} ms after it was created (median, MariaDB and Redis, processes of their own),"
    " {embedded:.1f} ms embedded.",
)
CHINESE = Words(
    "| 每秒任务数（{date}） | 边创建边执行 | 清空积压 | 保留每个任务的记录 |",
    {"embedded": "SQLite（单进程）"},
    ("是", "否"),
    "{name}（{ground}）",
    "单个任务从创建到开始执行的中位数为 {apart:.1f} 毫秒（MariaDB 与 Redis，各自独立的进程），"
    "嵌入式为 {embedded:.1f} 毫秒。",
)


def readme_table(run: Run, words: Words) -> Iterator[str]:
    yield words.head.format(date=run.date)
    yield "|---|--:|--:|---|"
    for ground, name in INSTALLATIONS.items():
        yield _readme_row(run, ground, label=f"**Rota, {words.rows.get(ground, name)}**", record=words.record[0])
    for peer in sorted(PEERS, key=lambda peer: -run.both(peer.name)):
        label = words.on.format(name=peer.name, ground=peer.ground)
        yield _readme_row(run, peer.name, label=label, record=words.record[not peer.keeps_record])
    yield ""
    apart, embedded = (run.value(f"{place}, idle: {START}, p50") for place in ("mariadb + redis", "embedded"))
    yield words.start.format(apart=apart, embedded=embedded)


def _readme_row(run: Run, name: str, *, label: str, record: str) -> str:
    rates = (f"{round(run.value(f'{name}, {part}'), -2):,.0f}" for part in ("both", "drain"))
    return f"| {label} | {' | '.join(rates)} | {record} |"


def floors(run: Run) -> Iterator[str]:
    yield f"| created and worked on at once, {run.date} | tasks/s | floor | of the floor | |"
    yield "|---|--:|--:|--:|---|"
    for ground, name in INSTALLATIONS.items():
        own = f"{ground}{BOTH}"
        rate, floor = run.value(own), run.value(FLOOR_OF + own)
        yield f"| {name} | {rate:,.0f} | {floor:,.0f} | {run.share(own):.0%} | {run.note(own)} |"


def aims(run: Run) -> Iterator[str]:
    yield f"| | aim | {run.date} | held |"
    yield "|---|--:|--:|---|"
    for aim in AIMS:
        yield aim.row(run)


TABLES: Mapping[str, Mapping[str, Callable[[Run], Iterator[str]]]] = {
    "README.md": {"all": lambda run: readme_table(run, ENGLISH)},
    "README.zh-CN.md": {"all": lambda run: readme_table(run, CHINESE)},
    "docs/explanation/performance.md": {"floors": floors, "aims": aims},
}


def filled(text: str, name: str, *, lines: Iterator[str]) -> str:
    """The text with the table between its marks made anew."""
    begin, end = f"<!-- speed: {name}, written by tools/speed_tables.py -->\n", "<!-- end of speed -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"there is no place for the table {name!r}")
    return "".join((before, begin, *(f"{line}\n" for line in lines), end, after))


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the tables of speed from the newest run of the benchmarks.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a table is stale")
    is_check = parser.parse_args().check
    try:
        stale = find_stale(Run(json.loads(LATEST.read_text("utf-8"))))
    except MissingFigureError as exc:
        print(exc, file=sys.stderr)
        return 1
    if stale and is_check:
        print(f"{', '.join(stale)}: not of {LATEST.relative_to(ROOT)}; try: make docs", file=sys.stderr)
        return 1
    for page, text in stale.items():
        (ROOT / page).write_text(text, "utf-8")
    print(f"{', '.join(stale)} written" if stale else "the tables of speed are current")
    return 0


def find_stale(run: Run) -> dict[str, str]:
    """What each page should say that says something else."""
    found = {}
    for page, tables in TABLES.items():
        text = new = (ROOT / page).read_text("utf-8")
        for name, make in tables.items():
            new = filled(new, name, lines=make(run))
        if new != text:
            found[page] = new
    return found


if __name__ == "__main__":
    sys.exit(main())
