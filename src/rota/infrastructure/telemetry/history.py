"""What a process did, written down line by line, for a checker to judge afterwards whether promises were kept.

Recording happens at the ports: every step of a task that this process wrote, or tried to write, and every term it
began, with how long it could trust that it led. A line is one JSON object, appended with one `write`, so what a
killed process wrote before stays. Nothing is wrapped, and nothing costs anything, while no history is asked for
(`ROTA_HISTORY`). The format: docs/reference/history.md.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from rota.application.elect import ElectionSettings
from rota.application.ports.coordinator import Assistance, Coordinator, Election
from rota.application.ports.store import Store, TaskStore, TermStore, Written
from rota.application.ports.system import Clock
from rota.domain.audit import AuditEntry
from rota.domain.ids import NodeId
from rota.domain.task import Transition

OK, STALE, REPEATED, UNKNOWN = "ok", "stale", "repeated", "info"

Write = Callable[[Mapping[str, Any]], None]


def to_file(path: Path) -> Write:
    """Append to a file. Opened once: the lines of one process stay in order, those of several do not mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(line: Mapping[str, Any]) -> None:
        os.write(descriptor, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    return write


class History:
    """The history of one process."""

    def __init__(self, process: str, clock: Clock, *, write: Write) -> None:
        self.clock = clock
        self._process = process
        self._write = write
        self._seq = 0

    def note(self, op: str, **fields: object) -> None:
        self._seq += 1
        head = {"process": self._process, "seq": self._seq, "op": op, "mono": self.clock.monotonic()}
        self._write(head | {"wall": self.clock.now().isoformat()} | fields)


def recorded(
    store: Store, coordinator: Coordinator, *, history: History, election: ElectionSettings
) -> tuple[Store, Coordinator]:
    """The same store and coordinator; what this process writes about tasks and terms is noted."""
    leads, assists = Trust(history.clock, election), Trust(history.clock, election)
    tasks = _RecordedTasks(store.tasks, history, leads=leads, assists=assists)
    terms = _RecordedTerms(store.terms, history, leads=leads)
    elected = replace(coordinator, election=_RecordedElection(coordinator.election, leads))
    if coordinator.assistance is not None:
        elected = replace(elected, assistance=_RecordedAssistance(coordinator.assistance, assists))
    return replace(store, tasks=tasks, terms=terms), elected


class Trust:
    """Until when this node may act as leader, or beside it, reckoned apart from the code that keeps to it."""

    def __init__(self, clock: Clock, settings: ElectionSettings) -> None:
        self._clock = clock
        self._lasts = (settings.ttl - settings.margin).total_seconds()
        self.until = float("-inf")
        self.is_used = False  # a leader has a seat as well, which says nothing about what it does as leader

    def ask(self) -> float:
        return self._clock.monotonic()

    def won(self, asked_at: float) -> None:
        self.until = asked_at + self._lasts

    def end(self) -> None:
        """It may not act, whether it has noticed or not."""
        self.until = float("-inf")

    def resign(self) -> None:
        """It has noticed."""
        self.end()
        self.is_used = False


class _Recorded:
    """Everything that is not recorded passes through."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _RecordedTasks(_Recorded):
    def __init__(self, inner: TaskStore, history: History, *, leads: Trust, assists: Trust) -> None:
        super().__init__(inner)
        self._history = history
        self._leads = leads
        self._assists = assists

    async def advance(self, steps: Sequence[Transition], *, audit: Sequence[AuditEntry] = ()) -> Written:
        trust = self._leads if self._leads.is_used else self._assists
        asked_at, trusted_until = self._history.clock.monotonic(), trust.until
        try:
            written: Written = await self._inner.advance(steps, audit=audit)
        except BaseException:
            self._note(steps, lambda _step: UNKNOWN, asked_at=asked_at, trusted_until=trusted_until)
            raise
        results = dict.fromkeys(written.applied, OK) | dict.fromkeys(written.stale, STALE)
        self._note(
            steps, lambda step: results.get(step.task_id, REPEATED), asked_at=asked_at, trusted_until=trusted_until
        )
        return written

    def _note(self, steps: Sequence[Transition], outcome: Callable[[Transition], str], **asked: float) -> None:
        for step in steps:
            is_grant = step.after.attempt > step.before.attempt
            self._history.note(
                "step",
                type=outcome(step),
                task=str(step.task_id),
                version=step.after.version,
                before=step.before.status,
                after=step.after.status,
                attempt=step.after.attempt,
                worker=str(step.after.worker_id or step.before.worker_id or ""),
                **({"term": step.after.term, **asked} if is_grant else {}),
                **({} if step.is_recorded else {"recorded": False}),
            )


class _RecordedTerms(_Recorded):
    def __init__(self, inner: TermStore, history: History, *, leads: Trust) -> None:
        super().__init__(inner)
        self._history = history
        self._leads = leads

    async def begin(self, node_id: NodeId) -> int:
        number: int = await self._inner.begin(node_id)
        self._leads.is_used = True
        self._history.note("term", number=number)
        return number


class _RecordedElection(_Recorded):
    def __init__(self, inner: Election, trust: Trust) -> None:
        super().__init__(inner)
        self._trust = trust

    async def campaign(self, node_id: NodeId, ttl: timedelta) -> int | None:
        asked_at = self._trust.ask()
        lease: int | None = await self._inner.campaign(node_id, ttl)
        if lease is not None:
            self._trust.won(asked_at)
        return lease

    async def renew(self, node_id: NodeId, lease: int, *, ttl: timedelta) -> bool:
        asked_at = self._trust.ask()
        is_mine: bool = await self._inner.renew(node_id, lease, ttl=ttl)
        if is_mine:
            self._trust.won(asked_at)
        else:
            self._trust.end()
        return is_mine

    async def resign(self, node_id: NodeId, lease: int) -> None:
        self._trust.resign()
        await self._inner.resign(node_id, lease)


class _RecordedAssistance(_Recorded):
    def __init__(self, inner: Assistance, trust: Trust) -> None:
        super().__init__(inner)
        self._trust = trust

    async def join(self, node_id: NodeId, ttl: timedelta) -> int:
        asked_at = self._trust.ask()
        seat: int = await self._inner.join(node_id, ttl)
        self._trust.won(asked_at)
        return seat

    async def renew(self, node_id: NodeId, seat: int) -> bool:
        asked_at = self._trust.ask()
        is_mine: bool = await self._inner.renew(node_id, seat)
        if is_mine:
            self._trust.won(asked_at)
        else:
            self._trust.end()
        return is_mine

    async def leave(self, node_id: NodeId, seat: int) -> None:
        self._trust.end()
        await self._inner.leave(node_id, seat)
