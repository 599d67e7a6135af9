"""A store and a coordinator in memory, on virtual time, both failing to order: what a leader's duties work on."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, ParamSpec

from rota.application.config_cache import ConfigCache
from rota.application.ids import LeasedIds
from rota.application.loop import Loops
from rota.application.node import Node
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.store import Store
from rota.application.reign import Reign
from rota.application.store_time import StoreTime
from rota.application.take_back import TakeBack
from rota.domain.attempt import Attempt
from rota.domain.events import Event
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.task import Task, TaskState
from rota.domain.term import Term
from rota.domain.worker import Heartbeat
from rota.infrastructure.coordination import memory
from rota.infrastructure.store.memory.store import memory_store
from rota.testing.contract.coordinator_backend import hear
from rota.testing.faults import Faults
from rota.testing.faulty_coordinator import faulty_coordinator
from rota.testing.faulty_store import faulty_store
from rota.testing.virtual_time import VirtualClock
from tests.support.builders import MINUTE, a_new_task, a_state, a_worker, an_attempt
from tests.support.figures import Figures
from tests.support.virtual import FixedChance

P = ParamSpec("P")
LEASE = timedelta(seconds=12)
BEAT = timedelta(seconds=3)


class Scene:
    """One leader's surroundings. `actual` parts never fail; `store` and `coordinator` fail as planned in `faults`."""

    def __init__(self, *, store: Store, coordinator: memory.MemoryState, clock: VirtualClock) -> None:
        self.clock = clock
        self.actual_store = store
        self.memory = coordinator
        self.actual = memory.join_memory(coordinator)
        self.faults = Faults()
        self.store: Store = faulty_store(store, self.faults)
        self.coordinator: Coordinator = faulty_coordinator(self.actual, self.faults)
        self.figures = Figures()
        self.random = FixedChance()
        self.time = StoreTime(store.tasks, clock)
        self.reign = Reign(Term(1, trusted_until=float("inf")), clock)
        self.take_back = TakeBack(self.store.tasks, self.coordinator, self.figures)

    @property
    def node(self) -> Node:
        """The leader's process, which has leased no ids."""
        return Node(
            id=NodeId("leader"),
            store=self.store,
            coordinator=self.coordinator,
            clock=self.clock,
            random=self.random,
            collector=self.figures,
            ids=LeasedIds(self.store.slots, self.clock, node_id=NodeId("leader")),
            time=self.time,
            configs=ConfigCache(self.store.configs, self.clock),
            loops=Loops(self.clock, self.random, self.figures),
            callback_key=b"key",
        )

    async def add(self, *task_ids: int, due_in: timedelta = timedelta(0), **spec: Any) -> list[Task]:
        """Waiting tasks, in the store alone."""
        due_at = self.clock.now() + due_in
        new = [a_new_task(task_id, state=a_state(task_id, due_at=due_at), **spec) for task_id in task_ids]
        await self.actual_store.tasks.add(new)
        return [item.task for item in new]

    async def grant(self, *task_ids: int, worker_id: int = 1, within: timedelta = MINUTE) -> list[Attempt]:
        """Let the leader grant these tasks, without handing them over."""
        states = [(await self.state_of(task_id)) for task_id in task_ids]
        now = max([self.clock.now(), *(state.due_at for state in states)])
        steps = [state.granted(WorkerId(worker_id), term=1, at=now, timeout=within) for state in states]
        await self.actual_store.tasks.advance(steps)
        return [an_attempt(step.after) for step in steps]

    async def run_at(self, worker_id: int, *task_ids: int, **grant: Any) -> list[Attempt]:
        """Grant these tasks and let the worker take them."""
        attempts = await self.grant(*task_ids, worker_id=worker_id, **grant)
        await self.actual.deliveries.assign(attempts)
        await self.actual.deliveries.take(WorkerId(worker_id), len(attempts), wait=timedelta(0))
        return attempts

    async def join(self, worker_id: int) -> None:
        """Let a worker register, with both."""
        await self.actual_store.workers.register(a_worker(worker_id))
        await self.actual.pool.register(a_worker(worker_id), LEASE)

    async def beat(self, worker_id: int, *held: Attempt) -> None:
        """One heartbeat: to the store, and to the pool, which the worker joins again if it is not known."""
        said = Heartbeat(load=len(held), held=frozenset((attempt.task_id, attempt.number) for attempt in held))
        if not await self.actual.pool.heartbeat(WorkerId(worker_id), said, lease=LEASE):
            await self.actual.pool.register(a_worker(worker_id), LEASE)
        await self.actual_store.workers.seen({WorkerId(worker_id): len(held)})

    async def state_of(self, task_id: int) -> TaskState:
        return (await self.actual_store.tasks.load([TaskId(task_id)]))[TaskId(task_id)].state

    async def queued(self) -> list[TaskId]:
        """What is ready in the queue, taken out of it."""
        return list((await self.actual.queue.take(1000, order=range(10))).task_ids)

    async def alive(self) -> list[WorkerId]:
        return [record.worker.id for record in await self.actual_store.workers.list_all()]

    async def pass_time(self, seconds: float) -> None:
        await self.clock.sleep(timedelta(seconds=seconds))


async def a_scene(clock: VirtualClock | None = None) -> Scene:
    """A scene of its own, empty, on the running loop."""
    clock = clock or VirtualClock(asyncio.get_running_loop())
    scene = Scene(store=memory_store(clock), coordinator=memory.MemoryState(clock), clock=clock)
    await scene.time.sync()
    return scene


async def heard(scene: Scene, act: Callable[[], Awaitable[object]], *, most: int = 100) -> Sequence[Event]:
    """The events that are published while something is done."""
    events: list[Event] = []
    async with scene.actual.signals.subscribe() as listener:
        await act()
        while len(events) < most:
            try:
                events.append(await asyncio.wait_for(hear(listener), 0.001))
            except TimeoutError:
                break
    return events


def ids(task_ids: Iterable[int]) -> list[TaskId]:
    return [TaskId(task_id) for task_id in task_ids]
