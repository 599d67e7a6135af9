"""A history as it was recorded, sorted for those who judge it. The format: docs/reference/history.md."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Line = Mapping[str, Any]

FINAL = frozenset({"SUCCESS", "FAILED", "TIMEOUT", "CANCELLED"})
TIMES = frozenset({"mono", "order", "written_at"})  # where some lines lack one, nothing can be compared by it


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something that is wrong with the history itself, so that it proves nothing."""

    where: str  # FILE:LINE
    what: str
    witness: Sequence[Line] = ()


class History:
    """Everything that was recorded, by what it is about."""

    def __init__(self, lines: Iterable[Line], flaws: Sequence[Flaw] = ()) -> None:
        self.flaws = flaws
        self.ended_at = 0.0
        by_op = self._by_op = defaultdict[str, list[Line]](list)
        for line in lines:
            by_op[line["op"]].append(line)
            self.ended_at = max(self.ended_at, line.get("mono", 0.0))
        self.requests = [*by_op["submit"], *by_op["cancel"]]  # of clients
        self.steps = by_op["step"]  # what processes wrote, or tried to
        self.terms = by_op["term"]
        self.calls = by_op["call"]  # the executor's own ledger
        self.callbacks = by_op["callback"]  # of those who finish deferred attempts
        self.faults = by_op["fault"]
        self.harms = by_op["harm"]  # what happened to single pods
        self.tasks: dict[str, Line] = {row["task"]: row for row in by_op["task"]}  # at the end
        self.entries = defaultdict[str, list[Line]](list)  # of each task, by version
        for entry in sorted(by_op["entry"], key=lambda entry: entry["version"]):
            self.entries[entry["task"]].append(entry)
        self.limits: dict[str, int] = {limit["kind"]: limit["most"] for limit in by_op["limit"]}  # by type
        self.quiet = _last(by_op["quiet"])  # what the coordinator held at the very end
        self.healed = _last(by_op["healed"])  # from when on the core was well, and who
        self.lost_writes = by_op["lost_writes"]  # of a store whose promise allows it
        self.lost: dict[str, float] = {
            one["pod"]: one["mono"] for one in by_op["lost"]
        }  # since when, if that was later
        self.workers: dict[str, Line] = {one["worker"]: one for one in by_op["worker"]}

    def has(self, need: str) -> bool:
        """Whether there are lines as needed: `entry` any; `cancel:ok` of this type; `task.key` with this field."""
        op, _, name = need.partition(".")
        op, _, kind = op.partition(":")
        lines = [line for line in self._by_op[op] if not kind or line["type"] == kind]
        if not name:
            return bool(lines)
        has_it = (line.get(name) is not None and line[name] is not False and line[name] != "" for line in lines)
        return bool(lines) and (all(has_it) if name in TIMES else any(has_it))

    def grants(self, task_id: str) -> Iterator[Line]:
        """The entries of a task that gave it to a worker."""
        return (entry for entry in self.entries.get(task_id, ()) if is_grant(entry))

    def may_be_lost(self, line: Line) -> bool:
        """Whether this was answered when the store had nobody to copy it to, and somebody else took its place."""
        return any("mono" in line and lost["since"] <= line["mono"] <= lost["until"] for lost in self.lost_writes)

    def lost_steps(self, *, only_grants: bool = False) -> Counter[tuple[str, int]]:
        """Attempts, by task and number: how many of their steps were written in a way that may have been lost."""
        steps = (step for step in self.steps if step["type"] != "stale" and ("term" in step or not only_grants))
        return Counter((step["task"], step["attempt"]) for step in steps if self.may_be_lost(step))


def is_grant(entry: Line) -> bool:
    return bool(entry["after"] == "PROCESSING" and entry["before"] != "PROCESSING")


def ends_attempt(entry: Line) -> bool:
    return bool(entry["before"] == "PROCESSING" and entry["after"] != "PROCESSING")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _last(lines: Sequence[Line]) -> Line | None:
    return lines[-1] if lines else None
