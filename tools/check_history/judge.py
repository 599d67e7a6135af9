"""All promises, judged over one history; and whether the history could have shown anything at all."""

from collections import Counter
from dataclasses import dataclass

from tools.check_history import effects, progress, safety
from tools.check_history.history import History
from tools.check_history.verdict import Promise, Violation

PROMISES: tuple[Promise, ...] = (*safety.PROMISES, *effects.PROMISES, *progress.PROMISES)

# What must have happened for a run with faults to prove anything.
SOMETIMES = ("leader changed", "stale write refused", "attempt lost", "request unanswered", "write unanswered")


@dataclass(frozen=True, slots=True)
class Judgement:
    violations: tuple[Violation, ...]
    seen: Counter[str]

    @property
    def is_valid(self) -> bool:
        return not self.violations

    @property
    def missing(self) -> list[str]:
        """What never happened, so that nothing was proven about it."""
        return [what for what in SOMETIMES if not self.seen[what]]


def judge(history: History) -> Judgement:
    violations = tuple(violation for promise in PROMISES for violation in promise.judge(history))
    return Judgement(violations, count_seen(history))


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
            "attempt deferred": sum(entry.get("deferred", False) for entry in entries),
            "callback accepted": sum(callback["type"] == "ok" for callback in history.callbacks),
            "callback refused": sum(callback["type"] == "fail" for callback in history.callbacks),
            "request unanswered": sum(request["type"] == "info" for request in history.requests),
            "write unanswered": sum(step["type"] == "info" for step in history.steps),
        }
    )
