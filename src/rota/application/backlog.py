"""What waits and what runs of each type.

No index has the type of what lives: it stands in the wide row of a task, and an index over it would burden every task.
So the tasks that have not ended are walked, the oldest first, and no more than `MOST_COUNTED` of them. An answer that
is not complete says so: then the numbers are lower bounds, but the ages are right for all that was met.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.application.ports.store import TaskStore
from rota.domain.ids import TaskId, TenantId
from rota.domain.task import BLOCKED, PROCESSING, LiveTask

MOST_COUNTED = 20_000  # twenty pages: what asks for it never waits for a backlog of millions
MOST_TYPES = 1_000  # of a tenant, in one answer
PAGE = 1_000


@dataclass(slots=True)
class TypeBacklog:
    """The tasks of one type that have not ended."""

    type: str
    ready: int = 0
    delayed: int = 0
    blocked: int = 0
    running: int = 0
    oldest_age_seconds: float | None = None  # how long the first of those that are ready has been due

    @property
    def waiting(self) -> int:
        return self.ready + self.delayed + self.blocked

    def add(self, live: LiveTask, now: datetime) -> None:
        state = live.state
        if state.status is PROCESSING:
            self.running += 1
        elif state.status is BLOCKED:
            self.blocked += 1
        elif state.due_at > now:
            self.delayed += 1
        else:
            self.ready += 1
            age = (now - state.due_at).total_seconds()
            self.oldest_age_seconds = max(self.oldest_age_seconds or 0.0, age)


@dataclass(frozen=True, slots=True)
class Backlog:
    """By tenant, those types first of which most waits."""

    types: Mapping[TenantId, Sequence[TypeBacklog]]
    is_complete: bool
    set_aside: int | None = None  # due, and not in the queue; None: not known

    @property
    def ready(self) -> int:
        return sum(one.ready for types in self.types.values() for one in types)


async def count_backlog(tasks: TaskStore, now: datetime) -> Backlog:
    """Look at what lives, of every tenant, as of this moment."""
    found: dict[TenantId, dict[str, TypeBacklog]] = defaultdict(dict)
    after: TaskId | None = None
    counted = 0
    while counted < MOST_COUNTED and (page := await tasks.list_live(after=after, limit=PAGE)):
        for live in page:
            types = found[live.state.tenant_id]
            types.setdefault(live.type, TypeBacklog(live.type)).add(live, now)
        after = page[-1].id
        counted += len(page)
    by_tenant = {tenant: sorted(types.values(), key=_depth) for tenant, types in found.items()}
    is_complete = counted < MOST_COUNTED and all(len(types) <= MOST_TYPES for types in by_tenant.values())
    return Backlog({tenant: types[:MOST_TYPES] for tenant, types in by_tenant.items()}, is_complete)


def _depth(backlog: TypeBacklog) -> tuple[int, int, str]:
    return -backlog.waiting, -backlog.running, backlog.type
