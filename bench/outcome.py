"""What a run of the benchmarks found, and how it is written down: a table, Markdown, JSON and a picture."""

import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.peers.catalogue import PEERS
from bench.usage import MOST_OF_OTHERS

QUICK = "One round of everything, and fewer tasks: the figures of a whole run are steadier."
END_TO_END_TASKS = 50_000  # of each round: some seconds, so that what happens once a second is in them
WHOLE = (
    "End to end, each round is {tasks:,} tasks. Rates, the scheduler's CPU and the shares of an empty database are"
    " medians of three rounds, but for the million of queued tasks, which are queued once. Waits are those of 300"
    " tasks, one after the other; memory and idle CPU were read once."
)
PEER_GROUP = "Peers"
BOTH = ", both"
FLOOR_OF = "floor of "
GRANT_CPU = "the scheduler's CPU of a grant"
INSTALLATIONS = {  # what each ground is called for people
    "redis+mariadb": "Redis + MariaDB",
    "redis-only": "Redis",
    "redis+postgresql": "Redis + PostgreSQL",
    "sql+postgresql": "PostgreSQL",
    "embedded": "SQLite, one process",
}
TITLE = "Tasks per second, created and worked on at once"
BAR, ROW, LEFT, WIDTH = 16, 24, 300, 800  # of the picture, in pixels …
TOP, SECOND = 84, 330  # … where its bars begin, below the legend, and the legend's second column
UNFINISHED = "unfinished"  # what the files of a run are called before all its parts have ended well
LATEST = "latest"
KINDS = {  # of bars: what the legend says, and the colours on light and on dark
    "rota": ("Rota, which keeps a record of every task", "#0969da", "#58a6ff"),
    "floor": ("the floor: Rota's messages to the servers, without any logic", "#bf8700", "#d29922"),
    "keeping": ("others that keep a record", "#8250df", "#a371f7"),
    "bare": ("others, set to keep no record of a task that has ended", "#8c959f", "#6e7681"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured. `of` is what the share is taken of: the floor, or the first of its group."""

    group: str
    name: str
    value: float
    unit: str
    share: float | None = None
    of: str = ""
    note: str = ""
    others: float = 0.0  # share of the machine that somebody else used meanwhile
    rounds: Sequence[float] = ()  # what each found, where the value is their median

    @property
    def shown(self) -> str:
        digits = 0 if self.value >= 100 else 1 if self.value >= 10 else 2
        return f"{self.value:,.{digits}f} {self.unit}"

    @property
    def remark(self) -> str:
        disturbed = f"others used {self.others:.0%} of the machine" if self.others > MOST_OF_OTHERS else ""
        return "; ".join(filter(None, (self.spread, self.note, disturbed)))

    @property
    def spread(self) -> str:
        return f"rounds: {min(self.rounds):,.0f} to {max(self.rounds):,.0f}" if len(self.rounds) > 1 else ""

    @property
    def ground(self) -> str:
        """What a peer stands on, and whether it keeps what Rota keeps; of all others the name says it."""
        peer = _PEERS.get(self.name.partition(",")[0]) if self.group == PEER_GROUP else None
        if peer is None:
            return ""
        return f"{peer.ground}; {'a record of every task' if peer.keeps_record else 'no record of ended tasks'}"

    @property
    def kind(self) -> str:
        """Which of `KINDS` its bar is."""
        if self.group == PEER_GROUP:
            peer = _PEERS.get(self.name.partition(",")[0])
            return "keeping" if peer is not None and peer.keeps_record else "bare"
        return "floor" if self.name.startswith(FLOOR_OF) else "rota"

    @property
    def label(self) -> str:
        """What its bar is called: who, and on which databases."""
        name = self.name.removesuffix(BOTH)
        if self.group == PEER_GROUP:
            return f"{name} on {_PEERS[name].ground}" if name in _PEERS else name
        ground = name.removeprefix(FLOOR_OF)
        return f"{'floor' if self.kind == 'floor' else 'Rota'} on {INSTALLATIONS.get(ground, ground)}"


_PEERS = {peer.name: peer for peer in PEERS}


@dataclass(slots=True)
class Outcome:
    """All figures of one run, of all parts or of some."""

    began_at: str
    is_quick: bool
    is_whole: bool = True
    figures: list[Figure] = field(default_factory=list)
    machine: str = field(default_factory=lambda: describe_machine())
    end_to_end_tasks: int = END_TO_END_TASKS  # of a round, as it was then
    left: list[str] = field(default_factory=list)  # parts that have not ended well, or not yet
    surroundings: dict[str, str] = field(default_factory=dict)  # of program, servers, processor and run

    @classmethod
    def read(cls, path: Path) -> "Outcome":
        """One that was written before, with the machine it was measured on."""
        found = json.loads(path.read_text("utf-8"))
        return cls(**{**found, "figures": [Figure(**figure) for figure in found["figures"]]})

    @property
    def stem(self) -> str:
        """What the files are called: a look at one part, a quick one, or one that was ended early, does not take the
        place of a whole run."""
        if self.left:
            return UNFINISHED
        if self.is_quick:
            return "quick"
        return LATEST if self.is_whole else "part"

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)

    def groups(self) -> dict[str, list[Figure]]:
        found: dict[str, list[Figure]] = {}
        for figure in self.figures:
            found.setdefault(figure.group, []).append(figure)
        return found

    def write(self, folder: Path) -> None:
        """As Markdown, JSON and a picture, under the stem and, once it is finished, under the time of the run."""
        folder.mkdir(parents=True, exist_ok=True)
        picture = draw([figure for figure in self.figures if figure.unit == "tasks/s" and figure.name.endswith(BOTH)])
        of_its_own = () if self.left else (self.began_at.replace(":", "").replace("-", ""),)
        for stem in (self.stem, *of_its_own):
            (folder / f"{stem}.md").write_text("\n".join(self.to_markdown(f"{stem}.svg")) + "\n", "utf-8")
            (folder / f"{stem}.json").write_text(json.dumps(self._document(), indent=2) + "\n", "utf-8")
            (folder / f"{stem}.svg").write_text(picture, "utf-8")

    def _document(self) -> dict[str, object]:
        known = {
            "began_at": self.began_at,
            "is_quick": self.is_quick,
            "is_whole": self.is_whole,
            "machine": self.machine,
            "end_to_end_tasks": self.end_to_end_tasks,
        }
        also = {"left": self.left, "surroundings": self.surroundings}
        figures = [asdict(figure) for figure in self.figures]
        for figure in figures:
            if not figure["rounds"]:
                del figure["rounds"]
        return {**known, **{name: told for name, told in also.items() if told}, "figures": figures}

    def headlines(self) -> Iterator[str]:
        """What a reader must know before any figure."""
        if self.left:
            yield f"unfinished: {', '.join(self.left)} did not end well, or were not begun"
        if disturbance := _disturbance(self.figures):
            yield f"{disturbance}: compare no rows, and trust no shares, that were not disturbed alike"

    def to_markdown(self, picture: str) -> Iterator[str]:
        yield f"# Benchmarks, {self.began_at}{', unfinished' if self.left else ''}"
        yield ""
        for headline in self.headlines():
            yield f"**{headline}**\n"
        how = QUICK if self.is_quick else WHOLE.format(tasks=self.end_to_end_tasks)
        yield f"{self.machine}. Everything runs on this one machine. {how}"
        yield f"\n![{TITLE}]({picture})"
        if self.surroundings:
            yield "\n| | |\n|---|---|"
            yield from (f"| {name} | {told} |" for name, told in self.surroundings.items())
        for group, figures in self.groups().items():
            yield f"\n## {group}\n"
            has_grounds = any(figure.ground for figure in figures)
            yield "| | on, and what it keeps | | share | |" if has_grounds else "| | | share | |"
            yield "|---|---|--:|--:|---|" if has_grounds else "|---|--:|--:|---|"
            for figure in figures:
                name, *cells = _cells(figure)
                row = (name, *([figure.ground] if has_grounds else ()), *cells, figure.remark)
                yield f"| {' | '.join(row)} |"

    def to_text(self) -> Iterator[str]:
        cells = [_cells(figure) for figure in self.figures]
        names, values, shares = (max((len(row[place]) for row in cells), default=0) for place in range(3))
        yield from self.headlines()
        yield from (f"{name}: {told}" for name, told in self.surroundings.items())
        for group, figures in self.groups().items():
            yield f"\n{group}"
            for figure in figures:
                name, value, share = _cells(figure)
                remark = "; ".join(filter(None, (figure.ground, figure.remark)))
                yield f"  {name:{names}s}  {value:>{values}s}  {share:{shares}s}  {remark}".rstrip()


def _cells(figure: Figure) -> tuple[str, str, str]:
    share = "" if figure.share is None else f"{figure.share:.0%} of {figure.of}"
    return figure.name, figure.shown, share


def _disturbance(figures: Sequence[Figure]) -> str:
    most = max((figure.others for figure in figures), default=0.0)
    return f"disturbed: others used up to {most:.0%} of the machine" if most > MOST_OF_OTHERS else ""


def describe_machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def draw(figures: Sequence[Figure]) -> str:
    """Bars, longest first, below a legend; on a ground of its own, since a page may be dark where its reader is not."""
    ranked = sorted(figures, key=lambda figure: -figure.value)
    most = max((figure.value for figure in ranked), default=1.0)
    height = TOP + ROW * len(ranked) + 8
    bars = [_bar(figure, TOP + number * ROW, most=most) for number, figure in enumerate(ranked)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" role="img">'
        f"<title>{TITLE}</title><style>{_style()}</style>"
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="6"/>'
        f'<text class="title" x="12" y="22">{TITLE}</text>{_mark(figures)}{_legend()}{"".join(bars)}</svg>\n'
    )


def _style() -> str:
    light, dark = ("".join(f".{kind}{{fill:{told[place]}}}" for kind, told in KINDS.items()) for place in (1, 2))
    return (
        f"text{{font:13px system-ui,sans-serif;fill:#24292f}}.title{{font-weight:600}}.ground{{fill:#fff}}{light}"
        f"@media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}.ground{{fill:#0d1117}}{dark}}}"
    )


def _mark(figures: Sequence[Figure]) -> str:
    """Opposite the title, where the bars are worth less than they seem."""
    told = _disturbance(figures)
    return f'<text class="title" x="{WIDTH - 12}" y="22" text-anchor="end">{told}</text>' if told else ""


def _legend() -> str:
    """Two rows of two."""
    entries = []
    for number, (kind, (told, *_)) in enumerate(KINDS.items()):
        left, top = 12 + SECOND * (number % 2), 34 + 22 * (number // 2)
        swatch = f'<rect class="{kind}" x="{left}" y="{top}" width="12" height="12" rx="2"/>'
        entries.append(f'{swatch}<text x="{left + 18}" y="{top + 11}">{told}</text>')
    return f'<g class="legend">{"".join(entries)}</g>'


def _bar(figure: Figure, top: int, *, most: float) -> str:
    width = max((WIDTH - LEFT - 70) * figure.value / most, 1)
    return (
        f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{figure.label}</text>'
        f'<rect class="{figure.kind}" x="{LEFT}" y="{top}" width="{width:.0f}" height="{BAR}" rx="2"/>'
        f'<text x="{LEFT + width + 6:.0f}" y="{top + 13}">{figure.value:,.0f}</text>'
    )
