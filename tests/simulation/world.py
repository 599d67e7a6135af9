"""The world of one seed: servers, processes, clients, and what befalls them."""

import asyncio
import random
from collections.abc import Mapping
from datetime import timedelta
from itertools import count
from typing import Any

from rota.config.wiring import Role
from rota.domain.log import LogEntry
from rota.domain.priority import LEVELS
from rota.domain.retry import RetryPolicy
from rota.domain.task_config import TaskConfig
from rota.infrastructure.coordination import memory as coordination
from rota.infrastructure.store.memory import store as memory_store
from rota.infrastructure.store.memory.state import MemoryState
from rota.testing.virtual_time import START
from tests.simulation.border import Weather
from tests.simulation.outsider import Outsider
from tests.simulation.process import Process, SimulatedClock, StoreClock
from tools.collect_history import describe_step, describe_task, list_steps

LIMITED, FREE, DEADLY = "limited", "free", "deadly"
MOST_LIMITED = 2
LONGER_THAN_A_LEASE = timedelta(seconds=14)  # of a worker
SHORT = timedelta(seconds=7)  # or those that wait for their turn would take most of the time
PODS = (2, 2, 3)
RETRY = RetryPolicy(max_retries=3, delay=timedelta(seconds=0.2))


class RecordedState(MemoryState):
    """Knows in which order its entries were written."""

    __slots__ = ("order",)

    def __init__(self, clock: StoreClock) -> None:
        super().__init__(clock)
        self.order: dict[tuple[int, int], tuple[int, float]] = {}

    def keep(self, entry: LogEntry) -> None:
        super().keep(entry)
        self.order.setdefault((entry.task_id, entry.seq), (len(self.order), self.clock.monotonic()))


class World:
    def __init__(self, seed: int, *, reconcile_every: float, has_deadly_tasks: bool, is_shared: bool) -> None:
        self.seed = seed
        self.is_shared = is_shared  # whether all pods dispatch, or the leader alone
        self.reconcile_every = reconcile_every
        self.has_deadly_tasks = has_deadly_tasks
        self.chance = random.Random(seed)
        self.clock = SimulatedClock(asyncio.get_running_loop())
        self.weather = Weather(away=set())
        self.store_clock = StoreClock(asyncio.get_running_loop())
        self.store = RecordedState(self.store_clock)
        self.coordinator = coordination.MemoryState(self.clock)
        self.lines: list[Mapping[str, Any]] = []
        self._numbers = count(1)
        self._skews: dict[str, timedelta] = {}
        self.pods = [
            Process(self, f"pod{n}", roles=(Role.SCHEDULER, Role.WORKER)) for n in range(self.chance.choice(PODS))
        ]
        self.client = Process(self, "client", roles=())
        self.outsider = Outsider(self)

    def number(self) -> int:
        return next(self._numbers)

    def note(self, op: str, **fields: object) -> None:
        """A line of those outside Rota: clients, the executor's ledger, the one who brings the faults."""
        self.lines.append({"op": op, "mono": self.clock.monotonic(), **fields})

    def skew_of(self, name: str) -> timedelta:
        """How wrong a process' wall clock is, the same after a restart."""
        if name not in self._skews:
            self._skews[name] = timedelta(
                seconds=random.Random(f"{self.seed} skew {name}").choice((0, 0, -3600, 3600, 5))
            )
        return self._skews[name]

    async def prepare(self) -> None:
        configs = memory_store.join_memory(self.store).configs
        await configs.put(TaskConfig(type=FREE, retry=RETRY, timeout=LONGER_THAN_A_LEASE))
        await configs.put(TaskConfig(type=LIMITED, retry=RETRY, timeout=SHORT, max_concurrent=MOST_LIMITED))
        await configs.put(TaskConfig(type=DEADLY, retry=RETRY, timeout=LONGER_THAN_A_LEASE))
        self.note("limit", kind=LIMITED, most=MOST_LIMITED)

    @property
    def is_settled(self) -> bool:
        return not self.store.live

    def dump(self) -> None:
        """What is there at the end: the rows and their records."""
        for task in self.store.tasks.values():
            steps = list_steps(self.store.logs[task.id].values())
            self.note("task", **describe_task(task, steps))
            for step in sorted(steps, key=lambda step: step.seq):
                order, written_at = self.store.order[step.task_id, step.seq]
                self.note("entry", **describe_step(step), order=order, written_at=written_at)
        for record in self.store.workers.values():
            since = (record.registered_at - START).total_seconds()
            until = None if record.retired_at is None else self.store_clock.elapsed(record.retired_at)
            self.note("worker", worker=str(record.worker.id), pod=record.worker.name, since=since, until=until)

    async def dump_coordinator(self) -> None:
        """What it still holds when everything has ended and been compared."""
        node = coordination.join_memory(self.coordinator)
        depths = await node.queue.depths()
        taken = await node.queue.take(10_000, order=LEVELS)
        self.note(
            "quiet",
            ready=len(set(taken.task_ids) & self.store.live),
            delayed=depths.delayed,
            in_flight=sum(depths.in_flight.values()) + sum(depths.assigned.values()) + len(depths.reserved),
        )
