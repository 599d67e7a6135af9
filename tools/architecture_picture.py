"""Draw docs/images/architecture.svg: `python tools/architecture_picture.py [--check]`.

Boxes and arrows are the data below; the rest turns them into SVG. The colours work on light and dark pages.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "architecture.svg"
WIDTH, HEIGHT = 960, 560

COLOURS = {  # fill, border
    "client": ("#eef2ff", "#4f46e5"),
    "role": ("#ecfdf5", "#059669"),
    "truth": ("#fff7ed", "#ea580c"),
    "fast": ("#fef2f2", "#dc2626"),
    "work": ("#f0f9ff", "#0284c7"),
}


@dataclass(frozen=True, slots=True)
class Box:
    x: int
    y: int
    width: int
    height: int
    colour: str
    title: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arrow:
    path: str
    label: str
    at: tuple[int, int]


BOXES = (
    Box(20, 205, 170, 120, "client", "Clients", ("rota command", "Python, HTTP", "rota.Rota in a program")),
    Box(
        280,
        25,
        660,
        90,
        "fast",
        "Coordinator: fast, and disposable",
        (
            "Redis · the store's own database · in process",
            "queues, leases, heartbeats, signals; rebuilt from the store when it forgets",
        ),
    ),
    Box(280, 205, 200, 120, "role", "API (any number)", ("checks and commits", "then answers", "live logs and events")),
    Box(
        510,
        205,
        200,
        120,
        "role",
        "Scheduler (one leads)",
        ("priorities, limits", "balancing, retries", "lost workers"),
    ),
    Box(
        740, 205, 200, 120, "work", "Worker (any number)", ("async, processes", "heartbeats, drains", "reports the end")
    ),
    Box(
        280,
        415,
        660,
        90,
        "truth",
        "Store: the truth",
        (
            "MySQL · MariaDB · PostgreSQL · SQLite",
            "tasks, results, logs; every write is conditional and its answer is read",
        ),
    ),
)

ARROWS = (
    Arrow("M190 265 H278", "submit", (210, 257)),
    Arrow("M380 325 V413", "1 commit", (390, 372)),
    Arrow("M380 205 V117", "2 queue, wake", (390, 165)),
    Arrow("M560 115 V203", "3 take", (570, 165)),
    Arrow("M610 325 V413", "4 grant attempt n", (620, 372)),
    Arrow("M660 205 V117", "5 assign", (670, 165)),
    Arrow("M840 115 V203", "6 fetch", (850, 165)),
    Arrow("M840 325 V413", "7 result", (850, 372)),
)


def draw_box(box: Box) -> str:
    fill, border = COLOURS[box.colour]
    middle = box.x + box.width // 2
    top = box.y + 27
    texts = [f'<text x="{middle}" y="{top}" class="title">{escape(box.title)}</text>']
    texts += [
        f'<text x="{middle}" y="{top + 22 * place}" class="line">{escape(line)}</text>'
        for place, line in enumerate(box.lines, start=1)
    ]
    frame = (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="10"'
        f' fill="{fill}" stroke="{border}" stroke-width="1.5"/>'
    )
    return "\n".join([frame, *texts])


def draw_arrow(arrow: Arrow) -> str:
    x, y = arrow.at
    return (
        f'<path d="{arrow.path}" class="arrow" marker-end="url(#head)"/>\n'
        f'<text x="{x}" y="{y}" class="label">{escape(arrow.label)}</text>'
    )


def draw() -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        ' aria-label="Clients talk to the API; it commits tasks to the store and queues them in the coordinator;'
        ' the leading scheduler grants them to workers, which write the results to the store.">',
        "<style>text{font-family:system-ui,sans-serif;fill:#111827}.title{font-size:15px;font-weight:600;"
        "text-anchor:middle}.line{font-size:13px;text-anchor:middle;fill:#374151}.label{font-size:12px;fill:#374151}"
        ".arrow{fill:none;stroke:#6b7280;stroke-width:1.6}</style>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#6b7280"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *map(draw_arrow, ARROWS),
        *map(draw_box, BOXES),
        f'<text x="{WIDTH // 2}" y="545" class="line">Any process may die at any moment: a task that was committed'
        " runs, and only the result of its newest attempt counts.</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main(arguments: Sequence[str]) -> int:
    picture = draw()
    if "--check" in arguments:
        is_current = TARGET.exists() and TARGET.read_text("utf-8") == picture
        print(f"{TARGET.name} is current" if is_current else f"{TARGET.name} is out of date; try: make docs")
        return 0 if is_current else 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(picture, "utf-8")
    print(f"wrote {TARGET.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
