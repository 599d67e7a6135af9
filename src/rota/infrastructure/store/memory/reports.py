"""What reports are made of, in memory."""

from collections.abc import Collection, Sequence
from copy import deepcopy

from rota.application.ports.report import MOST_ROLLUPS, Place, Rollup, RollupRange
from rota.domain.ids import TaskId
from rota.domain.paging import purge_limit
from rota.domain.rollup import Figures, Grain, LeftBehind, Progress, Step, TaskFacts
from rota.infrastructure.store.memory.state import MemoryState
from rota.infrastructure.store.report_documents import facts_of


class MemoryReportStore:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def find_progress(self) -> Progress:
        return self._state.progress

    async def list_facts(self, *, after: int, before: int, limit: int) -> list[TaskFacts]:
        ids = sorted(task_id for task_id in self._state.tasks if after < task_id < before)
        return await self.load_facts(ids[:limit])

    async def load_facts(self, task_ids: Collection[TaskId]) -> list[TaskFacts]:
        return [facts_of(self._state.tasks[task_id]) for task_id in task_ids if task_id in self._state.tasks]

    async def list_live_ids(self, *, after: int, upto: int, limit: int) -> list[TaskId]:
        return sorted(task_id for task_id in self._state.live if after < task_id <= upto)[:limit]

    async def list_left(self, *, after: int, limit: int) -> list[LeftBehind]:
        left = sorted(self._state.left_behind.items())
        return [LeftBehind(key, ids) for key, ids in left if key > after][:limit]

    async def roll_up(self, step: Step) -> bool:
        if self._state.progress != step.before:
            return False
        self._state.progress = step.after
        for key, added in step.added.items():
            self._state.rollups.setdefault(key, Figures()).merge(added)
        for first, ids in step.left.items():
            if ids:
                self._state.left_behind[first] = ids
            else:
                self._state.left_behind.pop(first, None)
        return True

    async def list_rollups(self, wanted: RollupRange, *, after: Place | None = None) -> Sequence[Rollup]:
        found = [
            Rollup(key.start_us, key.type, deepcopy(figures))
            for key, figures in sorted(self._state.rollups.items(), key=lambda item: item[0])
            if key.tenant_id == wanted.tenant_id
            and key.grain is wanted.grain
            and wanted.begin_us <= key.start_us < wanted.end_us
            and (not wanted.types or key.type in wanted.types)
            and (after is None or (key.start_us, key.type) > after)
        ]
        return found[:MOST_ROLLUPS]

    async def purge(self, grain: Grain, *, before_us: int, limit: int) -> int:
        old = sorted(key for key in self._state.rollups if key.grain is grain and key.start_us < before_us)
        doomed = old[: purge_limit(limit)]
        for key in doomed:
            del self._state.rollups[key]
        return len(doomed)
