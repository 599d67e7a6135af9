"""Judge the coverage of each layer: `python tools/check_coverage.py [coverage.json]`.

Domain and application must be covered to the last branch; every other layer to nine tenths of its lines and branches.
A layer is judged as a whole, so that an unreachable line of error handling in one file does not need a trick.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

DEFAULT_FLOOR = 90.0
FLOORS = {"domain": 100.0, "application": 100.0}
REQUIRED = frozenset({"domain"})  # a run that never imported it has proved nothing


@dataclass(frozen=True, slots=True)
class Covered:
    """Lines and branches, counted together as coverage does."""

    covered: int = 0
    total: int = 0

    @property
    def percent(self) -> float:
        return 100.0 * self.covered / self.total if self.total else 100.0

    def __add__(self, other: "Covered") -> "Covered":
        return Covered(self.covered + other.covered, self.total + other.total)


def main(arguments: Sequence[str]) -> int:
    path = Path(arguments[0] if arguments else ".coverage.json")
    if not path.exists():
        print(f"{path} not found; try: make test-all", file=sys.stderr)
        return 2
    layers = sum_layers(json.loads(path.read_text("utf-8"))["files"])
    problems = judge(layers)
    print("coverage: " + ", ".join(f"{name} {layer.percent:.1f} %" for name, layer in sorted(layers.items())))
    for problem in problems:
        print(f"coverage: {problem}", file=sys.stderr)
    return 1 if problems else 0


def sum_layers(files: Mapping[str, Any]) -> dict[str, Covered]:
    """Coverage by the first package below `rota`; files directly in it count as `rota`."""
    layers: dict[str, Covered] = {}
    for name, report in files.items():
        summary = report["summary"]
        file = Covered(
            summary["covered_lines"] + summary.get("covered_branches", 0),
            summary["num_statements"] + summary.get("num_branches", 0),
        )
        layer = _layer_of(PurePath(name))
        layers[layer] = layers.get(layer, Covered()) + file
    return layers


def judge(layers: Mapping[str, Covered]) -> list[str]:
    """A sentence for each layer below its floor, or missing altogether."""
    problems = [f"{name} was never measured" for name in sorted(REQUIRED) if not layers.get(name, Covered()).total]
    for name, layer in sorted(layers.items()):
        floor = FLOORS.get(name, DEFAULT_FLOOR)
        if layer.percent < floor:
            missing = layer.total - layer.covered
            problems.append(f"{name} {layer.percent:.2f} % is below {floor:g} % ({missing} lines or branches missing)")
    return problems


def _layer_of(path: PurePath) -> str:
    inside = path.parts[path.parts.index("rota") + 1 :]
    return inside[0] if len(inside) > 1 else "rota"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
