"""What a run of the benchmarks found, and how it is written down: a table, Markdown, JSON and a picture."""

import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

MOST_OF_OTHERS = 0.15  # of the machine, with what the kernel does; more, and a figure says little
QUICK = "One round of everything, and fewer tasks: the figures of a whole run are steadier."
WHOLE = (
    "Rates, the scheduler's CPU and the shares of an empty database are medians of three rounds, but for the million of"
    " queued tasks, which are queued once. Waits are those of 300 tasks, one after the other; memory and idle CPU were"
    " read once."
)
BAR, ROW, LEFT, WIDTH = 16, 24, 250, 760  # of the picture, in pixels


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

    @property
    def shown(self) -> str:
        digits = 0 if self.value >= 100 else 1 if self.value >= 10 else 2
        return f"{self.value:,.{digits}f} {self.unit}"

    @property
    def remark(self) -> str:
        disturbed = f"others used {self.others:.0%} of the machine" if self.others > MOST_OF_OTHERS else ""
        return "; ".join(filter(None, (self.note, disturbed)))


@dataclass(slots=True)
class Outcome:
    """All figures of one run, of all parts or of some."""

    began_at: str
    is_quick: bool
    is_whole: bool = True
    figures: list[Figure] = field(default_factory=list)

    @property
    def stem(self) -> str:
        """What the files are called: a look at one part, or a quick one, does not take the place of a whole run."""
        if self.is_quick:
            return "quick"
        return "latest" if self.is_whole else "part"

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)

    def groups(self) -> dict[str, list[Figure]]:
        found: dict[str, list[Figure]] = {}
        for figure in self.figures:
            found.setdefault(figure.group, []).append(figure)
        return found

    def write(self, folder: Path) -> None:
        """As Markdown, JSON and a picture, under the stem and under the time of the run."""
        folder.mkdir(parents=True, exist_ok=True)
        picture = draw([figure for figure in self.figures if figure.unit == "tasks/s" and figure.name.endswith("both")])
        for stem in (self.stem, self.began_at.replace(":", "").replace("-", "")):
            (folder / f"{stem}.md").write_text("\n".join(self.to_markdown(f"{stem}.svg")) + "\n", "utf-8")
            (folder / f"{stem}.json").write_text(json.dumps(self._document(), indent=2) + "\n", "utf-8")
            (folder / f"{stem}.svg").write_text(picture, "utf-8")

    def _document(self) -> dict[str, object]:
        return {
            "began_at": self.began_at,
            "is_quick": self.is_quick,
            "is_whole": self.is_whole,
            "machine": describe_machine(),
            "figures": [asdict(figure) for figure in self.figures],
        }

    def to_markdown(self, picture: str) -> Iterator[str]:
        yield f"# Benchmarks, {self.began_at}"
        yield ""
        yield f"{describe_machine()}. Everything runs on this one machine. {QUICK if self.is_quick else WHOLE}"
        yield f"\n![Tasks per second, created and worked on at once]({picture})"
        for group, figures in self.groups().items():
            yield f"\n## {group}\n"
            yield "| | | share | |"
            yield "|---|--:|--:|---|"
            for figure in figures:
                yield f"| {' | '.join(_cells(figure))} | {figure.remark} |"

    def to_text(self) -> Iterator[str]:
        cells = [_cells(figure) for figure in self.figures]
        names, values, shares = (max((len(row[place]) for row in cells), default=0) for place in range(3))
        for group, figures in self.groups().items():
            yield f"\n{group}"
            for figure in figures:
                name, value, share = _cells(figure)
                yield f"  {name:{names}s}  {value:>{values}s}  {share:{shares}s}  {figure.remark}".rstrip()


def _cells(figure: Figure) -> tuple[str, str, str]:
    share = "" if figure.share is None else f"{figure.share:.0%} of {figure.of}"
    return figure.name, figure.shown, share


def describe_machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def draw(figures: Sequence[Figure]) -> str:
    """Bars, longest first; readable on light and on dark: the colours follow the reader's scheme."""
    ranked = sorted(figures, key=lambda figure: -figure.value)
    most = max((figure.value for figure in ranked), default=1.0)
    height = ROW * len(ranked) + 8
    style = (
        "text{font:13px system-ui,sans-serif;fill:#24292f}.rota{fill:#0969da}.peer{fill:#8c959f}.floor{fill:#bf8700}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.rota{fill:#58a6ff}.peer{fill:#6e7681}.floor{fill:#d29922}}"
    )
    bars = [_bar(figure, number * ROW + 4, most=most) for number, figure in enumerate(ranked)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" role="img">'
        f"<title>Tasks per second, created and worked on at once</title><style>{style}</style>{''.join(bars)}</svg>\n"
    )


def _bar(figure: Figure, top: int, *, most: float) -> str:
    kind = "floor" if "floor" in figure.name else "peer" if figure.group == "Peers" else "rota"
    width = max((WIDTH - LEFT - 90) * figure.value / most, 1)
    name = figure.name.removesuffix(", both")
    label = f"Rota, {name}" if kind == "rota" else name
    return (
        f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{label}</text>'
        f'<rect class="{kind}" x="{LEFT}" y="{top}" width="{width:.0f}" height="{BAR}" rx="2"/>'
        f'<text x="{LEFT + width + 6:.0f}" y="{top + 13}">{figure.value:,.0f}</text>'
    )
