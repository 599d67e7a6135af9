"""The files of a history, line by line. What is wrong with one is told, never passed over.

One thing is normal: a last line that was cut off, because its process was killed while it wrote.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from tools.check_history.history import Flaw, History, Line

TEXT, WHOLE, NUMBER = str, int, int | float
Fields = Mapping[str, Any]  # name → what its value must be; of a moment: `datetime`, and the value is ISO 8601 or empty

FIELDS: Mapping[str, Fields] = {
    "submit": {"type": TEXT, "key": TEXT},
    "cancel": {"type": TEXT, "task": TEXT},
    "step": {"type": TEXT, "task": TEXT, "version": WHOLE, "before": TEXT, "after": TEXT, "attempt": WHOLE},
    "term": {"number": WHOLE, "mono": NUMBER},
    "call": {"type": TEXT, "task": TEXT, "attempt": WHOLE, "nonce": TEXT},
    "callback": {"type": TEXT, "task": TEXT, "attempt": WHOLE, "nonce": TEXT},
    "fault": {"type": TEXT, "name": TEXT, "mono": NUMBER},
    "lost_writes": {"since": NUMBER, "until": NUMBER},
    "limit": {"kind": TEXT, "most": WHOLE},
    "task": {"task": TEXT, "key": TEXT, "kind": TEXT, "status": TEXT, "attempt": WHOLE, "due_at": datetime}
    | {"retry_count": WHOLE, "max_retries": WHOLE, "nonce": TEXT},
    "entry": {"task": TEXT, "version": WHOLE, "before": TEXT | None, "after": TEXT, "attempt": WHOLE}
    | {"worker": TEXT, "at": datetime, "message": TEXT, "deferred": bool},
    "harm": {"pod": TEXT, "mono": NUMBER},
    "worker": {"worker": TEXT, "pod": TEXT, "since": NUMBER},
    "healed": {"mono": NUMBER, "well": list, "lost": list},
    "lost": {"pod": TEXT, "mono": NUMBER},
    "quiet": {"ready": WHOLE, "delayed": WHOLE, "in_flight": WHOLE},
}
OF_A_GRANT: Fields = {"term": WHOLE, "asked_at": NUMBER, "trusted_until": NUMBER}
OF_AN_ANSWER: Fields = {"task": TEXT}
ANYWHERE: Fields = {"mono": NUMBER, "process": TEXT, "seq": WHOLE, "order": NUMBER, "written_at": NUMBER}

Read = tuple[str, Line]  # FILE:LINE, and what it says


def load(folder: Path) -> History:
    """Every `*.jsonl` file of a folder."""
    read: list[Read] = []
    lines: list[Line] = []
    flaws: list[Flaw] = []
    for path in sorted(folder.glob("*.jsonl")):
        for where, found in _read(path):
            if isinstance(found, str):
                flaws.append(Flaw(where, found))
                continue
            read.append((where, found))
            wrong = find_wrong_field(found)
            if wrong is None:
                lines.append(found)
            else:
                flaws.append(Flaw(where, wrong, [found]))
    return History(lines, [*flaws, *find_gaps(read)])


def _read(path: Path) -> Iterator[tuple[str, Line | str]]:
    """Each line with its place, or what is wrong with it."""
    *whole, rest = path.read_bytes().split(b"\n")
    for number, text in enumerate([*whole, rest], 1):
        line = _parse(text)
        if line is not None:
            yield f"{path}:{number}", line
        elif text.strip() and number <= len(whole):
            yield f"{path}:{number}", f"no JSON object: {text[:60].decode('utf-8', errors='replace')}"


def _parse(text: bytes) -> Line | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None


def find_wrong_field(line: Line) -> str | None:
    """What keeps this line from being judged."""
    op = line.get("op")
    if not isinstance(op, str) or op not in FIELDS:
        return f"`op` is {op!r}, which is nothing that is judged"
    needed = FIELDS[op]
    if op == "step" and "term" in line:
        needed = {**needed, **OF_A_GRANT}
    if op == "submit" and line.get("type") == "ok":
        needed = {**needed, **OF_AN_ANSWER}
    for name in needed:
        if name not in line:
            return f"the field `{name}` of this `{op}` is missing"
    for name, kind in {**ANYWHERE, **needed}.items():
        if name in line and not _is(line[name], kind):
            return f"the field `{name}` of this `{op}` cannot be {json.dumps(line[name])}"
    return None


def _is(value: object, kind: Any) -> bool:
    if kind is not datetime:
        return isinstance(value, kind)
    try:
        return isinstance(value, str) and (not value or datetime.fromisoformat(value).tzinfo is not None)
    except ValueError:
        return False


def find_gaps(lines: Sequence[Read]) -> Iterator[Flaw]:
    """A process numbers its lines from 1 on: where one is missing, or there twice, the history is not what it wrote."""
    by_process = defaultdict[str, list[tuple[int, Read]]](list)
    for where, line in lines:
        process, seq = line.get("process"), line.get("seq")
        if isinstance(process, str) and isinstance(seq, int):
            by_process[process].append((seq, (where, line)))
    for process, numbered in by_process.items():
        numbered.sort(key=lambda one: one[0])
        first, (where, line) = numbered[0]
        if first != 1:
            yield Flaw(where, f"{process} begins with `seq` {first}: what it wrote before is missing", [line])
        for (before, (_, earlier)), (after, (where, later)) in pairwise(numbered):
            if after != before + 1:
                what = "is there twice" if after == before else f"is followed by {after}: lines are missing"
                yield Flaw(where, f"`seq` {before} of {process} {what}", [earlier, later])
