"""What reports are kept in: sums of what happened, and how far they go.

The sums are made by the leader, in steps (`roll_up`): each adds to sums, moves the progress, and changes who was left
behind, in one transaction and while the progress is the one it began from. So each task is counted once, whoever leads
and whatever answer was lost. Nothing is written for a report when a task is made, granted or ended.

The rules of the store hold here too (`ports/store.py`); instants are microseconds since 1970.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from rota.domain.ids import TaskId, TenantId
from rota.domain.rollup import Figures, Grain, LeftBehind, Progress, Step, TaskFacts

MOST_ROLLUPS = 2_000  # in one answer
Place = tuple[int, str]  # of a rollup among those of one width: its start and its type


class Rollup(NamedTuple):
    start_us: int
    type: str
    figures: Figures


class RollupRange(NamedTuple):
    """The rollups of a tenant that begin at one moment or later, and before another; of all types if none is named."""

    tenant_id: TenantId
    grain: Grain
    begin_us: int
    end_us: int
    types: frozenset[str] = frozenset()


class ReportStore(Protocol):
    async def find_progress(self) -> Progress:
        """How far the sums go; the beginning where none was made."""
        ...

    async def list_facts(self, *, after: int, before: int, limit: int) -> list[TaskFacts]:
        """A page of the tasks of all tenants with ids between the two, oldest id first."""
        ...

    async def load_facts(self, task_ids: Collection[TaskId]) -> list[TaskFacts]:
        """Those of the tasks that exist, in any order."""
        ...

    async def list_live_ids(self, *, after: int, upto: int, limit: int) -> list[TaskId]:
        """A page of the tasks that have not ended with ids after the one and up to the other, oldest id first."""
        ...

    async def list_left(self, *, after: int, limit: int) -> list[LeftBehind]:
        """A page of those left behind, with keys after this one, in order."""
        ...

    async def roll_up(self, step: Step) -> bool:
        """Take a step. False: the progress is another one by now, and nothing was changed. May be repeated, then the
        answer is False though it took effect: read the progress."""
        ...

    async def list_rollups(self, wanted: RollupRange, *, after: Place | None = None) -> Sequence[Rollup]:
        """Sums in the order of their start and type, behind a place; at most `MOST_ROLLUPS`, and if so more follow."""
        ...

    async def purge(self, grain: Grain, *, before_us: int, limit: int) -> int:
        """Delete up to `limit` sums of this width that begin before a moment, of all tenants; says how many."""
        ...
