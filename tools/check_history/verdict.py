"""What the judges say."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tools.check_history.history import History, Line

MOST_LINES = 20  # of a witness

Finding = tuple[str, Sequence[Line]]  # what is wrong, and the lines that show it
Judge = Callable[[History], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, with the lines that show it."""

    invariant: str
    what: str
    witness: Sequence[Line] = ()


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise, or a part of it, who judges whether it was kept, and the lines that it is judged by."""

    name: str  # I1 …
    text: str
    judge: Judge
    needs: tuple[str, ...]  # as History.has takes them; without one of them nothing can be said


@dataclass(frozen=True, slots=True)
class Ruling:
    """What became of one promise."""

    promise: Promise
    violations: tuple[Violation, ...] = ()
    lacking: tuple[str, ...] = ()  # of what it needs

    @property
    def word(self) -> str:
        if self.lacking:
            return "not judged"
        return "BROKEN" if self.violations else "kept"


def rule(promise: Promise, history: History) -> Ruling:
    lacking = tuple(need for need in promise.needs if not history.has(need))
    if lacking:
        return Ruling(promise, lacking=lacking)
    found = promise.judge(history)
    return Ruling(promise, tuple(Violation(promise.name, what, lines[:MOST_LINES]) for what, lines in found))
