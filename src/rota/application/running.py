"""What runs now of the types whose number is limited, as the leader knows it.

Only the leader grants what is limited, so it knows what began. What ended it need not be told: when a limit seems to be
reached, the store is asked which of these attempts still run. So a lost event does no harm, and a type that is not
limited costs nothing. The leader before may have granted something after this one began, and a write that seemed to
have failed may be done later: so the store is asked for everything once more when that must be over, and seldom from
then on. Until a write of this leader that got no answer must be over, what it was to start counts, whatever the store
says meanwhile.

Where others grant as well what has no limit, a type that has got one is begun with anew in the same way: they may learn
of it a moment later.
"""

from collections.abc import Iterable, Mapping

from rota.application.parking import Key, key_of
from rota.application.ports.store import TaskStore
from rota.application.ports.system import Clock
from rota.domain.ids import TaskId
from rota.domain.task import PROCESSING

PAGE = 1000
PAUSE_PER_TASK = 100e-6  # seconds; about ten times what it takes to ask for one
LONGEST_PAUSE = 1.0
SEED_AGAIN_AFTER = 10.0  # seconds; more than a leader trusts itself, and than any write takes
SEED_EVERY = 600.0
MOST_UNCOUNTED = 10_000  # types; beyond it the store is asked anew for the next limited one


class RunningOfTypes:
    def __init__(self, tasks: TaskStore, clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._known: dict[Key, set[TaskId]] = {}
        self._doubts: dict[TaskId, tuple[Key, float]] = {}  # may still begin until then, by the monotonic clock
        self._uncounted: set[Key] = set()  # something was granted while they had no limit
        self._seed_at = float("-inf")  # by the monotonic clock
        self._seed_pause = SEED_AGAIN_AFTER
        self._ask_at: dict[Key, float] = {}
        self._postponed: set[Key] = set()

    async def watch(self, limits: Mapping[Key, int]) -> None:
        """Know what runs of limited types. The store is asked about those that are new, and those that seem full."""
        now = self._clock.monotonic()
        if limits and (now >= self._seed_at or not self._uncounted.isdisjoint(limits)):
            await self._seed()
        full = [key for key, most in limits.items() if not self.room(key, most)]
        self._postponed = {key for key in full if self._ask_at.get(key, now) > now}
        doubtful = [key for key in full if key not in self._postponed]
        if doubtful:
            await self._verify(doubtful)

    def begin_anew(self) -> None:
        """Somebody else may have granted, or may be about to: ask for everything now, and again when that is over."""
        self._seed_at = float("-inf")
        self._seed_pause = SEED_AGAIN_AFTER

    def room(self, key: Key, most: int) -> int:
        """How many more of a limited type may start."""
        return max(most - len(self._known.get(key, ())), 0)

    def find_next_ask(self, key: Key) -> float | None:
        """When to ask the store about a type that seems full, by the monotonic clock; None: it has just been asked."""
        return self._ask_at[key] if key in self._postponed else None

    def add(self, key: Key, task_ids: Iterable[TaskId]) -> None:
        """These are about to start; said before it is done, as the answer may get lost."""
        self._known.setdefault(key, set()).update(task_ids)

    def doubt(self, key: Key, task_ids: Iterable[TaskId]) -> None:
        """Nobody knows whether these started. They count until that must have shown."""
        until = self._clock.monotonic() + SEED_AGAIN_AFTER
        self._forget_old_doubts()
        self._doubts.update(dict.fromkeys(task_ids, (key, until)))

    def settle(self, task_ids: Iterable[TaskId]) -> None:
        """What became of these is known: an older write can change nothing any more."""
        if self._doubts:
            for task_id in task_ids:
                self._doubts.pop(task_id, None)

    def is_in_doubt(self, task_id: TaskId) -> bool:
        """Whether it counts already, though it may not have started: to start it again takes no more room."""
        return task_id in self._doubts

    def ignore(self, key: Key) -> None:
        """Something starts of a type that has no limit: it is not counted."""
        self._known.pop(key, None)
        self._uncounted.add(key)
        if len(self._uncounted) > MOST_UNCOUNTED:
            self._uncounted.clear()
            self._seed_at = float("-inf")

    async def _seed(self) -> None:
        known: dict[Key, set[TaskId]] = {}
        after: TaskId | None = None
        while page := await self._tasks.list_running(after=after, limit=PAGE):
            for live in page:
                known.setdefault(key_of(live), set()).add(live.id)
            after = page[-1].id
        self._forget_old_doubts()
        for task_id, (key, _) in self._doubts.items():
            known.setdefault(key, set()).add(task_id)
        self._known, self._uncounted = known, set()
        self._seed_at = self._clock.monotonic() + self._seed_pause
        self._seed_pause = SEED_EVERY

    async def _verify(self, keys: list[Key]) -> None:
        listed = [task_id for key in keys for task_id in self._known[key]]
        running: set[TaskId] = set()
        for begin in range(0, len(listed), PAGE):
            found = await self._tasks.find_live(listed[begin : begin + PAGE])
            running.update(live.id for live in found if live.state.status is PROCESSING)
        now = self._clock.monotonic()
        self._forget_old_doubts()
        running |= self._doubts.keys()
        for key in keys:
            self._known[key] &= running
            self._ask_at[key] = now + min(len(self._known[key]) * PAUSE_PER_TASK, LONGEST_PAUSE)

    def _forget_old_doubts(self) -> None:
        now = self._clock.monotonic()
        self._doubts = {task_id: doubt for task_id, doubt in self._doubts.items() if doubt[1] > now}
