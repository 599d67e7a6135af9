"""A stage for one worker: memory adapters that fail to order, virtual time, and a hand that grants as a leader would.

@virtually
async def test_...() -> None:
    async with a_stage() as stage:
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from rota.application.config_cache import ConfigCache
from rota.application.ports.executor import Link, no_link
from rota.application.ports.metrics import Metric
from rota.application.ports.store import SlotLease
from rota.application.store_time import StoreTime
from rota.application.work.deputy import DeputyPlan
from rota.application.work.registry import ExecutorRegistry
from rota.application.work.settings import WorkerPorts, WorkerSettings
from rota.application.work.spool import MemorySpool, Spool
from rota.application.work.worker import WorkerService
from rota.domain.attempt import Attempt
from rota.domain.events import Event
from rota.domain.ids import DEFAULT_TENANT, TaskId, WorkerId
from rota.domain.log import LogEntry
from rota.domain.task import Task, TaskStatus
from rota.domain.worker import Worker, order_mark
from rota.infrastructure.coordination import memory as coordination_memory
from rota.infrastructure.store.memory.store import memory_store
from rota.infrastructure.system import NodeIds
from rota.testing.contract.coordinator_backend import hear
from rota.testing.faults import Fault, Faults
from rota.testing.faulty_coordinator import faulty_coordinator
from rota.testing.faulty_store import faulty_store
from rota.testing.virtual_time import VirtualClock
from tests.support.builders import EMAIL, MINUTE, SECOND, a_config, a_new_task, a_state, an_attempt
from tests.support.executors import Script, ScriptedExecutor, succeed

TICK = timedelta(milliseconds=10)
STORE_CALLS = [
    "tasks.now",
    "tasks.advance",
    "tasks.load",
    "tasks.find_live",
    "tasks.list_held",
    "logs.append",
    "configs.find_many",
    "workers.register",
    "workers.seen",
    "workers.list_all",
    "workers.retire",
]
COORDINATOR_CALLS = [
    "pool.register",
    "pool.heartbeat",
    "pool.remove",
    "queue.push",
    "deliveries.take",
    "deliveries.acknowledge",
    "deliveries.held",
    "signals.find_cancelled",
    "signals.publish",
]


class Chance:
    """No chance at all."""

    def chance(self) -> float:
        return 0.5


class Figures:
    """A collector that a test can read."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.gauges: dict[str, float] = {}
        self.observed: Counter[str] = Counter()

    def add(self, counter: Metric, *labels: str, amount: float = 1) -> None:
        self.counts[(counter.name, *labels)] += int(amount)

    def put(self, gauge: Metric, *labels: str, value: float) -> None:
        self.gauges[gauge.name] = value

    def forget(self, gauge: Metric) -> None:
        self.gauges.pop(gauge.name, None)

    def observe(self, histogram: Metric, *labels: str, value: float, times: int = 1) -> None:
        self.observed[histogram.name] += times

    def count(self, counter: Metric, *labels: str) -> int:
        return self.counts[(counter.name, *labels)]


class Stage:
    def __init__(
        self, script: Script = succeed, *, spool: Spool | None = None, link: Link = no_link, **settings: Any
    ) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.store = memory_store(self.clock)
        self.memory = coordination_memory.MemoryState(self.clock)
        self.coordinator = coordination_memory.join_memory(self.memory)
        self.faults = Faults()
        self.figures = Figures()
        self.executor = ScriptedExecutor(script)
        self.sizes: list[int] = []  # what the executors were told of the capacity
        self.executors = ExecutorRegistry({"local": self.executor}, resize=self.sizes.append)
        self.events: list[Event] = []
        self.spool = spool or MemorySpool()
        self.link = link
        self.settings = WorkerSettings(**({"name": "worker-1"} | settings))
        self.ids = NodeIds(self.clock, SlotLease(1, floor=0))
        self.worker = self.make_worker()

    def make_worker(self, deputy: DeputyPlan | None = None) -> WorkerService:
        """A process of this worker, with nothing but the store, the coordinator and the spool in common."""
        store, coordinator = faulty_store(self.store, self.faults), faulty_coordinator(self.coordinator, self.faults)
        ports = WorkerPorts(
            store=store,
            coordinator=coordinator,
            store_time=StoreTime(store.tasks, self.clock),
            configs=ConfigCache(store.configs, self.clock),
            clock=self.clock,
            random=Chance(),
            ids=self.ids,
            collector=self.figures,
            spool=self.spool,
            link=self.link,
        )
        return WorkerService(ports, self.settings, executors=self.executors, deputy=deputy)

    @asynccontextmanager
    async def running(self, *, is_awaited: bool = True) -> AsyncIterator["asyncio.Task[None]"]:
        """The worker at work, registered unless nobody waits for that; ended at once afterwards."""
        run = asyncio.create_task(self.worker.run())
        try:
            await self.until(lambda: self.worker.worker_id is not None or not is_awaited)
            yield run
        finally:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)

    async def grant(
        self, *task_ids: int, limit: timedelta = MINUTE, task_type: str = EMAIL, **spec: Any
    ) -> list[Attempt]:
        """Submit tasks and grant them to the worker, as the leader does."""
        return [await self._grant_one(task_id, limit=limit, spec={"type": task_type, **spec}) for task_id in task_ids]

    async def grant_again(self, task_id: int) -> Attempt:
        """Grant a waiting task."""
        task = await self.task(task_id)
        return await self._hand_over(task, MINUTE)

    async def write_grant(
        self, task_id: int, *, limit: timedelta = MINUTE, worker_id: WorkerId | None = None
    ) -> Attempt:
        """A grant in the store that the coordinator was not told of."""
        await self.store.tasks.add([a_new_task(task_id, state=a_state(task_id, due_at=self.clock.now()))])
        return await self._write_grant(await self.task(task_id), limit, worker_id=worker_id or self.worker_id)

    async def lose(self, task_id: int) -> None:
        """The leader takes the attempt back."""
        state = (await self.task(task_id)).state
        await self.store.tasks.advance([state.lost(at=self.clock.now())])

    async def cancel(self, task_id: int) -> None:
        """A user cancels a task."""
        state = (await self.task(task_id)).state
        await self.store.tasks.advance([state.cancelled("by test", at=self.clock.now())])
        await self.coordinator.signals.request_cancel([TaskId(task_id)], ttl=MINUTE)

    async def order(self, *, capacity: int | None = None, draining: bool | None = None) -> None:
        """An operator asks something of the worker."""
        assert await self.store.workers.order(self.worker_id, capacity=capacity, draining=draining)
        await self.coordinator.signals.request_cancel([order_mark(self.worker_id)], ttl=SECOND * 2)

    async def retire(self) -> WorkerId:
        """The leader holds the worker for dead."""
        worker_id = self.worker_id
        for held in await self.store.tasks.list_held(worker_id):
            await self.lose(held.id)
        await self.store.workers.retire([worker_id])
        await self.coordinator.pool.remove([worker_id])
        return worker_id

    @property
    def worker_id(self) -> WorkerId:
        worker_id = self.worker.worker_id
        assert worker_id is not None
        return worker_id

    async def task(self, task_id: int) -> Task:
        task = await self.store.tasks.find(TaskId(task_id), DEFAULT_TENANT)
        assert task is not None
        return task

    async def statuses(self, task_ids: Sequence[int]) -> set[TaskStatus]:
        return {(await self.task(task_id)).state.status for task_id in task_ids}

    async def lines(self, task_id: int) -> list[LogEntry]:
        """What the task itself wrote."""
        entries = await self.store.logs.read(TaskId(task_id))
        return [entry for entry in entries if entry.to_status is None]

    async def pool(self) -> list[Worker]:
        return await self.coordinator.pool.list_alive()

    async def in_flight(self) -> list[Attempt]:
        return await self.coordinator.deliveries.held(self.worker_id)

    async def until(self, is_so: Callable[[], bool], within: timedelta = MINUTE) -> None:
        end = self.clock.monotonic() + within.total_seconds()
        while not is_so():
            assert self.clock.monotonic() < end, f"it did not happen within {within}"
            await self.clock.sleep(TICK)

    async def until_status(self, task_id: int, status: TaskStatus, *, within: timedelta = MINUTE) -> None:
        end = self.clock.monotonic() + within.total_seconds()
        while (now := (await self.task(task_id)).state.status) is not status:
            assert self.clock.monotonic() < end, f"task {task_id} is {now}, not {status}, after {within}"
            await self.clock.sleep(TICK)

    async def until_free(self, within: timedelta = MINUTE) -> None:
        await self.until(lambda: not self.worker.load, within)

    async def until_free_of(self, attempt: Attempt) -> None:
        """Until this attempt is over, by the store's word."""
        while (await self.task(attempt.task_id)).state.is_held_by(attempt):
            await self.clock.sleep(TICK)

    async def pass_time(self, duration: timedelta = SECOND) -> None:
        await self.clock.sleep(duration)

    def take_store_away(self) -> None:
        for call in STORE_CALLS:
            self.faults.inject(call, Fault.GONE, times=None)

    def delay(self, call: str, pause: timedelta) -> None:
        """Let a call of the store, or of the deliveries, take its time; what it sees is as old as its answer."""
        parts: tuple[Any, ...] = (self.store.tasks, self.store.workers, self.coordinator.deliveries)
        part = next(part for part in parts if hasattr(part, call))
        answer = getattr(part, call)

        async def slowly(*args: Any, **kwargs: Any) -> Any:
            result = await answer(*args, **kwargs)
            await self.clock.sleep(pause)
            return result

        setattr(part, call, slowly)

    async def listen(self) -> None:
        async with self.coordinator.signals.subscribe() as events:
            while True:
                self.events.append(await hear(events))

    async def _grant_one(self, task_id: int, *, limit: timedelta, spec: dict[str, Any]) -> Attempt:
        state = a_state(task_id, due_at=self.clock.now())
        await self.store.tasks.add([a_new_task(task_id, state=state, **spec)])
        return await self._hand_over(await self.task(task_id), limit)

    async def _hand_over(self, task: Task, limit: timedelta) -> Attempt:
        attempt = await self._write_grant(task, limit, worker_id=self.worker_id)
        await self.coordinator.deliveries.assign([attempt])
        return attempt

    async def _write_grant(self, task: Task, limit: timedelta, *, worker_id: WorkerId) -> Attempt:
        at = max(self.clock.now(), task.state.due_at)
        step = task.state.granted(worker_id, term=1, at=at, timeout=limit)
        assert (await self.store.tasks.advance([step])).applied
        return an_attempt(step.after)


@asynccontextmanager
async def a_stage(script: Script = succeed, **settings: Any) -> AsyncIterator[Stage]:
    """A stage whose worker runs, with a task config for its tasks and an ear for its events."""
    stage = Stage(script, **settings)
    await stage.store.configs.put(a_config())
    listener = asyncio.create_task(stage.listen())
    try:
        async with stage.running():
            yield stage
    finally:
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)
