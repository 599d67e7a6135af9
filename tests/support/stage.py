"""A stage for the leader's duties: memory adapters that fail to order, on virtual time, and workers moved by hand."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from rota.application.config_cache import ConfigCache
from rota.application.dispatch import Dispatcher
from rota.application.loop import Loops
from rota.application.ports.metrics import Metric
from rota.application.reign import Reign
from rota.application.store_time import StoreTime
from rota.domain.attempt import Attempt, TaskResult
from rota.domain.errors import UnavailableError
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.priority import LEVELS, NORMAL
from rota.domain.queue import QueueEntry
from rota.domain.task import PROCESSING
from rota.domain.term import Term
from rota.domain.worker import Worker
from rota.infrastructure.coordination.memory import memory_coordinator
from rota.infrastructure.store.memory.state import MemoryState
from rota.infrastructure.store.memory.store import join_memory
from rota.testing.faults import Faults
from rota.testing.faulty_coordinator import faulty_coordinator
from rota.testing.faulty_store import faulty_store
from rota.testing.virtual_time import VirtualClock, run_virtually
from tests.support.builders import EMAIL, NOW, a_new_task, a_state, a_worker

T = TypeVar("T")
LEASE = timedelta(days=10)
TERM = 7


class Even:
    """Chance without surprises."""

    def chance(self) -> float:
        return 0.5


class Figures:
    """Remembers what was measured."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, ...]] = Counter()
        self.gauges: dict[tuple[str, ...], float] = {}
        self.observed: dict[tuple[str, ...], list[float]] = {}

    def add(self, counter: Metric, *labels: str, amount: float = 1) -> None:
        self.counted[counter.name, *labels] += int(amount)

    def put(self, gauge: Metric, *labels: str, value: float) -> None:
        self.gauges[gauge.name, *labels] = value

    def forget(self, gauge: Metric) -> None:
        self.gauges = {place: value for place, value in self.gauges.items() if place[0] != gauge.name}

    def observe(self, histogram: Metric, *labels: str, value: float, times: int = 1) -> None:
        self.observed.setdefault((histogram.name, *labels), []).extend([value] * times)


class Backstage(Faults):
    """Faults to order; counts the calls too, and lets something happen right before or after one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self._interludes: dict[str, Callable[[], Awaitable[object]]] = {}
        self._afterplays: dict[str, Callable[[], Awaitable[object]]] = {}

    def before(self, operation: str, interlude: Callable[[], Awaitable[object]]) -> None:
        """Before the next call of an operation, this happens."""
        self._interludes[operation] = interlude

    def after(self, operation: str, afterplay: Callable[[], Awaitable[object]]) -> None:
        """The next call of an operation is done, and its answer, good or bad, comes after this."""
        self._afterplays[operation] = afterplay

    async def around(
        self, operation: str, call: Callable[[], Awaitable[T]], *, unavailable: type[UnavailableError]
    ) -> T:
        self.calls[operation] += 1
        if operation in self._interludes:
            await self._interludes.pop(operation)()
        try:
            return await super().around(operation, call, unavailable=unavailable)
        finally:
            if operation in self._afterplays:
                await self._afterplays.pop(operation)()


class Stage:
    """Everything around one dispatcher; make it on a virtual loop."""

    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.faults = Backstage()
        self.calls = self.faults.calls
        self.truth = join_memory(MemoryState(self.clock))  # never fails
        self.calm = memory_coordinator(self.clock)
        self.store = faulty_store(self.truth, self.faults)
        self.coordinator = faulty_coordinator(self.calm, self.faults)
        self.time = StoreTime(self.truth.tasks, self.clock)
        self.figures = Figures()
        self.reign = Reign(Term(TERM, trusted_until=float("inf")), self.clock)
        self.configs = ConfigCache(self.store.configs, self.clock)
        self.loops = Loops(self.clock, Even(), self.figures)
        self.dispatcher = Dispatcher(
            self.store.tasks, self.coordinator, configs=self.configs, time=self.time, loops=self.loops
        )

    async def hire(self, worker_id: int = 1, **changes: Any) -> Worker:
        """Let a worker join, or change."""
        worker = a_worker(worker_id, **changes)
        await self.calm.pool.register(worker, LEASE)
        return worker

    async def submit(
        self,
        *task_ids: int,
        type: str = EMAIL,
        priority: int = NORMAL,
        due_at: datetime = NOW,
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        """Add tasks and queue them as ready."""
        tenant_id = TenantId(tenant)
        states = [a_state(task_id, tenant_id=tenant_id, priority=priority, due_at=due_at) for task_id in task_ids]
        await self.truth.tasks.add(
            [a_new_task(state.id, tenant_id=tenant_id, type=type, state=state) for state in states]
        )
        await self.calm.queue.push([QueueEntry(TaskId(task_id), priority) for task_id in task_ids])

    @asynccontextmanager
    async def reigning(self) -> AsyncIterator[None]:
        """Dispatch runs meanwhile, and what can be granted at once is granted before the block begins; what it holds
        at the end is handed back, as after every reign."""
        await self.time.sync()
        running = asyncio.create_task(self.dispatcher.run(self.reign))
        try:
            await self.settle()
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            with suppress(UnavailableError):
                await self.dispatcher.hand_back()

    async def settle(self) -> None:
        """Let everything happen that takes next to no time."""
        await self.pass_time(0.001)

    async def pass_time(self, seconds: float) -> None:
        await self.clock.sleep(timedelta(seconds=seconds))

    async def queued(self) -> list[int]:
        """What is ready in the queue; it is taken by looking."""
        return list((await self.calm.queue.take(10_000, order=LEVELS)).task_ids)

    async def granted(self) -> dict[int, int]:
        """Which task runs on which worker, by the store."""
        lives = await self.truth.tasks.list_running(after=None, limit=100_000)
        return {live.id: live.state.worker_id or 0 for live in lives}

    async def handed_over(self, worker_id: int = 1) -> list[Attempt]:
        """What is in a worker's queue or in flight, by task."""
        deliveries, wanted = self.calm.deliveries, WorkerId(worker_id)
        return sorted(
            [*await deliveries.list_assigned(wanted), *await deliveries.held(wanted)],
            key=lambda attempt: attempt.task_id,
        )

    async def finish(self, *task_ids: int, is_acknowledged: bool = True) -> None:
        """The workers that run these tasks succeed with them."""
        lives = await self.truth.tasks.find_live([TaskId(task_id) for task_id in task_ids])
        assert [live.state.status for live in lives] == [PROCESSING] * len(task_ids)
        for worker_id in {live.state.worker_id for live in lives}:
            assert worker_id is not None
            await self.calm.deliveries.take(worker_id, 10_000, wait=timedelta(0))
        await self.truth.tasks.advance([live.state.succeeded(TaskResult(), at=self.clock.now()) for live in lives])
        if is_acknowledged:
            await self.calm.deliveries.acknowledge(
                [Attempt(live.id, live.state.attempt, live.state.worker_id or WorkerId(0)) for live in lives]
            )

    async def cancel(self, task_id: int) -> None:
        """Somebody cancels a task, waiting or running."""
        for live in await self.truth.tasks.find_live([TaskId(task_id)]):
            await self.truth.tasks.advance([live.state.cancelled("by hand", at=self.clock.now())])


def staged(play: Callable[[Stage], Awaitable[None]]) -> Callable[[], None]:
    """A test on a stage of its own, on virtual time."""

    async def main() -> None:
        await play(Stage())

    def test() -> None:
        run_virtually(main())

    test.__name__ = play.__name__
    return test
