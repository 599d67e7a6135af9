"""Whatever happens around it: dispatch grants nothing twice, overfills nobody, keeps every limit and forgets nothing."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from rota.application.dispatch import Dispatcher, DispatchSettings
from rota.application.reign import Reign
from rota.domain.attempt import Attempt
from rota.domain.balancing import BALANCERS
from rota.domain.ids import TaskId, WorkerId
from rota.domain.queue import QueueEntry
from rota.domain.task import PROCESSING
from rota.domain.term import Term
from rota.testing.faults import Fault
from rota.testing.virtual_time import run_virtually
from tests.support.builders import a_config
from tests.support.properties import BROAD_PROPERTY
from tests.support.stage import TERM, Stage

FREE, LIMITED, SLOW, BOTH = TYPES = ("free", "limited", "slow", "both")
MOST = {LIMITED: 2, BOTH: 3}
RATES = {SLOW: 2.0, BOTH: 1.0}
WORKERS = {
    1: {"capacity": 1},
    2: {"capacity": 3, "types": frozenset({FREE, SLOW})},
    3: {"capacity": 2, "types": frozenset({LIMITED, BOTH})},
}
HARMLESS = [Fault.TIMEOUT, Fault.GONE]  # the call did not happen
ANY = [*HARMLESS, Fault.EXECUTE_AND_TIMEOUT]
CALLS = {
    "tasks.find_live": ANY,
    "tasks.advance": ANY,
    "tasks.list_running": ANY,
    "configs.find": ANY,
    "pool.list_alive": ANY,
    "queue.depths": ANY,
    "queue.take": HARMLESS,  # what a lost answer carried is for reconciliation to find
    "queue.move_due": ANY,
    "queue.push": ANY,
    "deliveries.assign": ANY,
    "signals.publish": ANY,
}


class World:
    """The stage, and what a judge wrote down of it."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.next_id = 1
        self.releases = Counter[TaskId]()
        self.reigns = 0
        self.running: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        for task_type in TYPES:
            config = a_config(task_type, max_concurrent=MOST.get(task_type), rate_per_second=RATES.get(task_type))
            await self.stage.truth.configs.put(config)
        await self.stage.time.sync()
        self.reign()

    def reign(self) -> None:
        self.reigns += 1
        stage = self.stage
        term = Term(TERM + self.reigns, trusted_until=float("inf"))
        self.running = asyncio.create_task(stage.dispatcher.run(Reign(term, stage.clock)))

    async def depose(self) -> None:
        assert self.running is not None
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    async def arrive(self, number: int, *, task_type: str, priority: int, delay: int) -> None:
        ids = range(self.next_id, self.next_id + number)
        self.next_id += number
        due_at = self.stage.clock.now() + timedelta(seconds=delay)
        await self.stage.submit(*ids, type=task_type, priority=priority, due_at=due_at)

    async def staff(self, worker_id: int, *, is_draining: bool) -> None:
        await self.stage.hire(worker_id, is_draining=is_draining, **WORKERS[worker_id])

    async def finish(self, number: int) -> None:
        await self.stage.finish(*list(await self.stage.granted())[:number])

    async def release(self) -> None:
        """A worker gives its oldest attempt back."""
        now = self.stage.clock.now()
        for live in await self.stage.truth.tasks.list_running(after=None, limit=1):
            self.releases[live.id] += 1
            await self.stage.truth.tasks.advance([live.state.released("drained", at=now, due_at=now)])
            attempt = Attempt(live.id, live.state.attempt, live.state.worker_id or WorkerId(0))
            await self.stage.calm.deliveries.take(attempt.worker_id, 1_000, wait=timedelta(0))
            await self.stage.calm.queue.push([QueueEntry(live.id, live.state.priority)])
            await self.stage.calm.deliveries.acknowledge([attempt])

    async def cancel(self, place: int) -> None:
        if waiting := [live.id for live in await self.waiting()]:
            await self.stage.cancel(waiting[place % len(waiting)])

    async def step_down(self) -> None:
        self.stage.faults.heal()
        await self.depose()
        await self.stage.dispatcher.hand_back()
        self.reign()

    async def crash(self) -> None:
        """The leader dies with all it knew, and its successor compares store and coordinator as it begins."""
        stage = self.stage
        await self.depose()
        stage.dispatcher = Dispatcher(
            stage.store.tasks, stage.coordinator, configs=stage.configs, time=stage.time, loops=stage.loops
        )
        lives = await stage.truth.tasks.list_running(after=None, limit=1_000)
        held = [Attempt(live.id, live.state.attempt, live.state.worker_id or WorkerId(0)) for live in lives]
        await stage.calm.deliveries.assign(held)
        await stage.calm.queue.push([QueueEntry(live.id, live.state.priority) for live in await self.waiting()])
        self.reign()

    async def waiting(self) -> list[object]:
        lives = await self.stage.truth.tasks.list_live(after=None, limit=1_000)
        return [live for live in lives if live.state.status.is_waiting]


def acts() -> st.SearchStrategy[Callable[[World], Awaitable[None]]]:
    arrive = st.builds(
        lambda number, task_type, priority, delay: (
            lambda world: world.arrive(number, task_type=task_type, priority=priority, delay=delay)
        ),
        st.integers(1, 6),
        st.sampled_from(TYPES),
        st.sampled_from([0, 5, 9]),
        st.sampled_from([0, 0, 3]),
    )
    return st.one_of()
