"""The tasks that the leader took from the queue and cannot grant now: nobody supports them, or a limit is reached.

They wait here, out of the way of the others, each in the line of its tenant and type, in the order in which they are
to be served: by priority, and the longer one waits the earlier. That order never changes while they wait, as all of
them age at the same pace, so a place in line is one number.

Of a line as many are looked at as may go. Where none of these could, as thousands were cancelled together, twice as
many are the next time, until one can: else a type with room for one would be looked at once for each of them.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import nsmallest

from rota.domain.ids import TaskId, TenantId
from rota.domain.priority import AGING_STEP
from rota.domain.queue import QueueEntry
from rota.domain.task import LiveTask
from rota.domain.waiting import Reason

MOST_PARKED = 20_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Key = tuple[TenantId, str]  # the tenant and the type, as a task config has them


def key_of(live: LiveTask) -> Key:
    return live.state.tenant_id, live.type


def rank_of(live: LiveTask) -> float:
    """The place in the order of service, smallest first: since when a task of priority 0 would have to wait."""
    return (live.state.due_at - EPOCH).total_seconds() - live.state.priority * AGING_STEP.total_seconds()


def level_of(rank: float, now: datetime) -> float:
    """The effective priority that a rank stands for at this moment."""
    return ((now - EPOCH).total_seconds() - rank) / AGING_STEP.total_seconds()


@dataclass(frozen=True, slots=True)
class _Parked:
    entry: QueueEntry
    key: Key
    rank: float
    reason: Reason


class Parking:
    """A bounded number of tasks in lines."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: dict[TaskId, _Parked] = {}
        self._lines: dict[Key, list[tuple[float, TaskId]]] = {}
        self._widths: dict[Key, int] = {}  # how many to look at, of lines whose first ones could not go
        self._counts = Counter[Reason]()
        self._turn = TaskId(0)

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._tasks

    def park(self, live: LiveTask, reason: Reason) -> bool:
        """Keep a task; whoever is here already keeps its place for the new reason. False when there is no place."""
        self.discard(live.id)
        if len(self._tasks) >= self._most:
            return False
        entry = QueueEntry(live.id, live.state.priority)
        parked = _Parked(entry, key_of(live), rank_of(live), reason)
        self._tasks[live.id] = parked
        insort(self._lines.setdefault(parked.key, []), (parked.rank, live.id))
        self._counts[reason] += 1
        return True

    def discard(self, task_id: TaskId) -> None:
        """Let a task go, if it is here."""
        parked = self._tasks.pop(task_id, None)
        if parked is None:
            return
        self._counts[parked.reason] -= 1
        line = self._lines[parked.key]
        del line[bisect_left(line, (parked.rank, task_id))]
        if not line:
            del self._lines[parked.key]
            self._widths.pop(parked.key, None)

    def keys(self) -> list[Key]:
        """Whose lines there are."""
        return list(self._lines)

    def first(self, places: Mapping[Key, int], limit: int, *, most: int) -> list[tuple[float, TaskId]]:
        """The first of all whose lines have places, with their ranks, in order. They stay until they are let go.

        These are up to the limit, or the most where there are lines whose first ones could not go."""
        is_wide = not self._widths.keys().isdisjoint(places)
        widths = {key: max(min(number, limit), self._widths.get(key, 0)) for key, number in places.items()}
        heads = [waiting for key, width in widths.items() for waiting in self._lines[key][:width]]
        return sorted(heads)[: most if is_wide else limit]

    def note(self, seen: Collection[TaskId], *, able: Collection[TaskId]) -> None:
        """Which of the first ones, now that they were read, could go."""
        numbers = Counter(self._tasks[task_id].key for task_id in seen)
        able_keys = {self._tasks[task_id].key for task_id in seen if task_id in able}
        for key, number in numbers.items():
            if key in able_keys:
                self._widths.pop(key, None)
            else:
                self._widths[key] = 2 * number

    def take_turns(self, limit: int) -> list[TaskId]:
        """The next ones by their ids, and after the last ones the first again. They stay."""
        ids = nsmallest(limit, (task_id for task_id in self._tasks if task_id > self._turn))
        self._turn = ids[-1] if len(ids) == limit else TaskId(0)
        return ids

    def counts(self) -> dict[Reason, int]:
        """How many wait for which reason; also for reasons that nobody waits for any more."""
        return dict(self._counts)

    def entries(self, limit: int) -> list[QueueEntry]:
        """Some of those that are here, to be queued again."""
        return [parked.entry for parked, _ in zip(self._tasks.values(), range(limit), strict=False)]
