"""A history as it was recorded, sorted for those who judge it. The format: docs/reference/history.md."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]

FINAL = frozenset({"SUCCESS", "FAILED", "TIMEOUT", "CANCELLED"})


@dataclass(slots=True)
class History:
    """Everything that was recorded, by what it is about."""

    requests: list[Line] = field(default_factory=list)  # of clients: submit and cancel
    steps: list[Line] = field(default_factory=list)  # what processes wrote, or tried to
    terms: list[Line] = field(default_factory=list)
    calls: list[Line] = field(default_factory=list)  # the executor's own ledger
    callbacks: list[Line] = field(default_factory=list)  # of those who finish deferred attempts
    faults: list[Line] = field(default_factory=list)
    tasks: dict[str, Line] = field(default_factory=dict)  # the rows at the end
    entries: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))  # of each task, by version
    limits: dict[str, int] = field(default_factory=dict)  # type → how many may run at once
    quiet: Line | None = None  # what the coordinator held at the very end
    healed: Line | None = None  # from when on the core was well, and who
    lost_writes: list[tuple[float, float]] = field(default_factory=list)  # of a store whose promise allows it
    lost: dict[str, float] = field(default_factory=dict)  # pod → since when, if that was later
    harms: list[Line] = field(default_factory=list)  # what happened to single pods
    pods: dict[str, str] = field(default_factory=dict)  # worker → where it runs
    joined: dict[str, float] = field(default_factory=dict)  # worker → since when
    retired: dict[str, float] = field(default_factory=dict)  # worker → since when it is no more
    ended_at: float = 0.0
    count: int = 0

    def grants(self, task_id: str) -> Iterator[Line]:
        """The entries of a task that gave it to a worker."""
        return (entry for entry in self.entries.get(task_id, ()) if is_grant(entry))

    def may_be_lost(self, line: Line) -> bool:
        """Whether this was answered when the store had nobody to copy it to, and somebody else took its place."""
        return any(since <= line["mono"] <= until for since, until in self.lost_writes)

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


def load(folder: Path) -> History:
    """Every `*.jsonl` file of a folder. A last line that was cut off by a kill is left out."""
    return gather(line for path in sorted(folder.glob("*.jsonl")) for line in _read(path))


def gather(lines: Iterable[Line]) -> History:
    """Sort lines by what they are about."""
    history = History()
    places = {
        "submit": history.requests,
        "cancel": history.requests,
        "step": history.steps,
        "term": history.terms,
        "call": history.calls,
        "callback": history.callbacks,
        "fault": history.faults,
        "harm": history.harms,
    }
    for line in lines:
        history.count += 1
        op = line["op"]
        if op in places:
            places[op].append(line)
        elif op == "task":
            history.tasks[line["task"]] = line
        elif op == "entry":
            history.entries[line["task"]].append(line)
        elif op == "limit":
            history.limits[line["kind"]] = line["most"]
        elif op == "quiet":
            history.quiet = line
        elif op == "healed":
            history.healed = line
        elif op == "lost_writes":
            history.lost_writes.append((line["since"], line["until"]))
        elif op == "lost":
            history.lost[line["pod"]] = line["mono"]
        elif op == "worker":
            history.pods[line["worker"]], history.joined[line["worker"]] = line["pod"], line["since"]
            if line.get("until") is not None:
                history.retired[line["worker"]] = line["until"]
        history.ended_at = max(history.ended_at, line.get("mono", 0.0))
    for entries in history.entries.values():
        entries.sort(key=lambda entry: entry["version"])
    return history


def _read(path: Path) -> Iterator[Line]:
    for text in path.read_text("utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue  # cut off in the middle: the process was killed while it wrote
        if isinstance(line, dict) and "op" in line:
            yield line
