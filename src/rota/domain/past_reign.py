"""Who led in which term, from when to when, and how it ended: read from what leaders left in the audit log."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rota.domain.audit import AuditEntry
from rota.domain.ids import NodeId

WON, RESIGNED, LOST = "leader.won", "leader.resigned", "leader.lost"


class Ending(StrEnum):
    """How a reign ended."""

    RESIGNED = "resigned"  # its node was told to stop
    LOST = "lost"  # its lease, its term or its duties could not be kept
    SILENT = "silent"  # nobody heard of its end; it was over when the next one began


@dataclass(frozen=True, slots=True, kw_only=True)
class PastReign:
    """One reign of a node."""

    term: int
    node_id: NodeId
    begun_at: datetime | None  # None: it ended before that was on record
    ended_at: datetime | None = None  # None: it goes on, or nobody knows when
    ending: Ending | None = None  # None: it goes on, or nobody knows better
    reason: str = ""


def reigns_of(entries: Iterable[AuditEntry]) -> list[PastReign]:
    """The reigns that entries tell of, the newest term first."""
    by_term: dict[int, dict[str, AuditEntry]] = {}
    for entry in entries:
        if entry.object.isdecimal():
            by_term.setdefault(int(entry.object), {})[entry.action] = entry
    found: list[PastReign] = []
    for term, told in sorted(by_term.items(), reverse=True):
        found.append(_reign(term, told, followed_by=found[-1] if found else None))
    return found


def _reign(term: int, told: dict[str, AuditEntry], *, followed_by: PastReign | None) -> PastReign:
    won, end = told.get(WON), told.get(RESIGNED) or told.get(LOST)
    node_id = NodeId(next(iter(told.values())).actor)
    begun_at = None if won is None else won.at
    if end is not None:
        ending = Ending.RESIGNED if end.action == RESIGNED else Ending.LOST
        return PastReign(
            term=term, node_id=node_id, begun_at=begun_at, ended_at=end.at, ending=ending, reason=end.detail
        )
    if followed_by is None:
        return PastReign(term=term, node_id=node_id, begun_at=begun_at)
    ended_at = followed_by.begun_at
    return PastReign(term=term, node_id=node_id, begun_at=begun_at, ended_at=ended_at, ending=Ending.SILENT)
