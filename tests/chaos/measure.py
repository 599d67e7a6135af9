"""What was measured against which bound, and the table of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.cluster import SHARED


@dataclass(frozen=True, slots=True)
class Measured:
    what: str
    value: float
    bound: float
    unit: str = "s"
    since: str = "begin"  # of the fault, or its end
    is_least: bool = False  # whether the bound must be reached, not kept below

    @property
    def is_kept(self) -> bool:
        return self.value >= self.bound / SHARED if self.is_least else self.value <= self.bound * SHARED

    def __str__(self) -> str:
        return f"{self.what}: {self.value:.1f} {self.unit} of {self._sign} {self.bound:g}{self._verdict('')}"

    @property
    def row(self) -> str:
        bound, measured = f"{self._sign} {self.bound:g} {self.unit}", f"{self.value:.1f} {self.unit}"
        return f"| {self.what} | {bound} | {self.since} | {measured} |{self._verdict(' kept')} |"

    @property
    def _sign(self) -> str:
        return "≥" if self.is_least else "≤"

    def _verdict(self, good: str) -> str:
        return good if self.is_kept else " MISSED"

    def is_worse_than(self, other: "Measured") -> bool:
        return self.value < other.value if self.is_least else self.value > other.value


def table(measured: Sequence[Measured], *, untried: Sequence[str] = ()) -> str:
    """The worst of each, and the rows of what there was no time for."""
    worst: dict[str, Measured] = {}
    for one in measured:
        known = worst.get(one.what)
        worst[one.what] = one if known is None or one.is_worse_than(known) else known
    lines = ["| fault | bound | from its | measured | verdict |", "|---|---:|---|---:|---|"]
    return "\n".join([*lines, *(one.row for one in worst.values()), *untried])
