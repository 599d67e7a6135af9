"""All promises, judged over one history; and whether the history could have shown anything at all."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from tools.check_history import effects, progress, safety
from tools.check_history.history import Flaw, History
from tools.check_history.verdict import Promise, Ruling, Violation, rule

PROMISES: tuple[Promise, ...] = (*safety.PROMISES, *effects.PROMISES, *progress.PROMISES)

# What must have happened for a run with faults to prove anything.
SOMETIMES = ("leader changed", "stale write refused", "attempt lost", "request unanswered", "write unanswered")


class Verdict(IntEnum):
    """Of the whole; its number is what the program ends with."""

    KEPT = 0
    BROKEN = 1
    TOO_THIN = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Judgement:
    rulings: tuple[Ruling, ...]
    seen: Counter[str]
    flaws: Sequence[Flaw] = ()

    @property
    def violations(self) -> tuple[Violation, ...]:
        return tuple(violation for ruling in self.rulings for violation in ruling.violations)

    @property
    def unjudged(self) -> list[str]:
        """The promises that the history has no lines about."""
        return [ruling.promise.name for ruling in self.rulings if ruling.lacking]

    @property
    def missing(self) -> list[str]:
        """What never happened, so that nothing was proven about it."""
        return list_missing(self.seen)

    def verdict(self, *, is_calm: bool = False) -> Verdict:
        """A history with flaws proves nothing: what looks broken may be what is missing."""
        if self.flaws:
            return Verdict.UNKNOWN
        if self.violations:
            return Verdict.BROKEN
        is_thin = not self.seen["task"] or (self.missing and not is_calm)
        return Verdict.TOO_THIN if is_thin else Verdict.KEPT


def judge(history: History) -> Judgement:
    rulings = tuple(rule(promise, history) for promise in PROMISES)
    return Judgement(rulings, count_seen(history), history.flaws)


def list_missing(seen: Counter[str]) -> list[str]:
    return [what for what in SOMETIMES if not seen[what]]


def count_seen(history: History) -> Counter[str]:
    """How often each thing happened that makes a history worth judging."""
    entries = [entry for entries in history.entries.values() for entry in entries]
    return Counter(
        {
            "task": len(history.tasks),
            "call": sum(call["type"] == "invoke" for call in history.calls),
            "fault": sum(fault["type"] == "begin" for fault in history.faults),
            "leader changed": max(len(history.terms) - 1, 0),
            "stale write refused": sum(step["type"] == "stale" for step in history.steps),
            "attempt lost": sum(entry["message"] == "worker_lost" for entry in entries),
            "attempt deferred": sum(entry["deferred"] for entry in entries),
            "callback accepted": sum(callback["type"] == "ok" for callback in history.callbacks),
            "callback refused": sum(callback["type"] == "fail" for callback in history.callbacks),
            "request unanswered": sum(request["type"] == "info" for request in history.requests),
            "write unanswered": sum(step["type"] == "info" for step in history.steps),
        }
    )
