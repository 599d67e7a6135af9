"""What the judges say."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tools.check_history.history import History, Line

MOST_LINES = 20  # of a witness


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, with the lines that show it."""

    invariant: str
    what: str
    witness: Sequence[Line] = ()


Judge = Callable[[History], Iterator[Violation]]


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise, and who judges whether it was kept."""

    name: str  # I1 …
    text: str
    judge: Judge


def broken(name: str, what: str, *, lines: Iterable[Line] = ()) -> Violation:
    return Violation(name, what, list(lines)[:MOST_LINES])
