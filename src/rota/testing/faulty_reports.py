"""The reports of a store that fails to order."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from rota.application.ports.report import Place, ReportStore, Rollup, RollupRange
from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import TaskId
from rota.domain.rollup import Grain, LeftBehind, Progress, Step, TaskFacts
from rota.testing.faults import Faults

T = TypeVar("T")


class FaultyReportStore:
    def __init__(self, inner: ReportStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def find_progress(self) -> Progress:
        return await self._around("find_progress", self._inner.find_progress)

    async def list_facts(self, *, after: int, before: int, limit: int) -> list[TaskFacts]:
        return await self._around("list_facts", lambda: self._inner.list_facts(after=after, before=before, limit=limit))

    async def load_facts(self, task_ids: Collection[TaskId]) -> list[TaskFacts]:
        return await self._around("load_facts", lambda: self._inner.load_facts(task_ids))

    async def list_live_ids(self, *, after: int, upto: int, limit: int) -> list[TaskId]:
        return await self._around(
            "list_live_ids", lambda: self._inner.list_live_ids(after=after, upto=upto, limit=limit)
        )

    async def list_left(self, *, after: int, limit: int) -> list[LeftBehind]:
        return await self._around("list_left", lambda: self._inner.list_left(after=after, limit=limit))

    async def roll_up(self, step: Step) -> bool:
        return await self._around("roll_up", lambda: self._inner.roll_up(step))

    async def list_rollups(self, wanted: RollupRange, *, after: Place | None = None) -> Sequence[Rollup]:
        return await self._around("list_rollups", lambda: self._inner.list_rollups(wanted, after=after))

    async def purge(self, grain: Grain, *, before_us: int, limit: int) -> int:
        return await self._around("purge", lambda: self._inner.purge(grain, before_us=before_us, limit=limit))

    def _around(self, operation: str, call: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        return self._faults.around(f"reports.{operation}", call, unavailable=StoreUnavailableError)
