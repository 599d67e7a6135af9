"""The life of a batch, stage by stage: created, granted, ended; by the use cases, or by their calls of their ports.

One call after the other, but for those that are made together there too, so that what each sends can be written down
(`bench/floor.py`) or counted."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

from bench.workload import BATCH, PAYLOAD
from rota.application.grant import Grants
from rota.application.node import Node
from rota.application.ports.system import System
from rota.application.reign import Reign
from rota.application.submit import SubmitTasks
from rota.application.work.report import KINDS
from rota.config.embedded import flatten
from rota.config.load import Sources, load
from rota.config.wiring import Blueprint
from rota.domain.attempt import Attempt, TaskResult
from rota.domain.events import Event
from rota.domain.ids import TaskId, WorkerId
from rota.domain.priority import LEVELS
from rota.domain.submission import Submission
from rota.domain.task import LiveTask, Task, Transition
from rota.domain.task_config import TaskConfig
from rota.domain.term import Term
from rota.infrastructure.system import SystemClock, SystemRandom

ORDER = tuple(reversed(LEVELS))
WORKER_IDS = (WorkerId(1), WorkerId(2))
NO_WAIT = timedelta(0)


def plan_of(settings: Mapping[str, Any]) -> Blueprint:
    """To open a node with these settings and no others."""
    loaded = load(Sources(flags=flatten(settings), folder=Path("/nowhere"))).settings
    return Blueprint(settings=loaded, system=System(SystemClock(), SystemRandom()))


@dataclass(slots=True)
class Life:
    """Batches of one node; the calls of each stage are in the order in which they are made."""

    node: Node
    after_call: Callable[[], None] = lambda: None
    _batches: int = 0
    _submit: SubmitTasks = field(init=False)

    def __post_init__(self) -> None:
        self._submit = SubmitTasks(self.node)

    async def prepare(self) -> None:
        """Declare the type, and connect."""
        await self.node.store.configs.put(TaskConfig(type="noop"))
        await self.create(BATCH)
        await self.grant(BATCH)
        await self.end()

    async def create(self, tasks: int) -> None:
        """As a client's request does it."""
        await self._submit.submit_many([Submission(type="noop", payload=PAYLOAD)] * tasks)
        self.after_call()

    async def grant(self, tasks: int, *, workers: Sequence[WorkerId] = ()) -> None:
        """As a round of dispatch does it: to these workers in turn; or all to one, another one each time."""
        node = self.node
        self._batches += 1
        taken = await self._call(node.coordinator.queue.take(tasks, order=ORDER))
        await self._call(asyncio.gather(node.coordinator.pool.list_alive(), node.coordinator.queue.loads()))
        unread = [task_id for task_id in taken.task_ids if task_id not in taken.added]
        read: list[LiveTask] = await self._call(node.store.tasks.find_live(unread)) if unread else []
        lives = [*taken.added.values(), *read]
        if len(lives) != tasks:
            raise RuntimeError(f"{len(lives)} of {tasks} tasks were in the queue")
        grants = Grants(node.store.tasks, node.coordinator, time=node.time, collector=node.collector)
        reign = Reign(Term(1, trusted_until=float("inf")), node.clock)
        turns = cycle(workers or (self._worker_id,))
        await self._call(grants.give(lives, {live.id: next(turns) for live in lives}, reign=reign))

    async def end(self) -> None:
        """As a worker does it: all that was granted last."""
        deliveries, tasks = self.node.coordinator.deliveries, self.node.store.tasks
        attempts: Sequence[Attempt] = await self._call(deliveries.take(self._worker_id, BATCH, wait=NO_WAIT))
        found: Mapping[TaskId, Task] = await self._call(tasks.load([attempt.task_id for attempt in attempts]))
        now = self.node.time.now()
        steps = [
            task.state.succeeded(TaskResult(), at=max(now, task.state.started_at or now)) for task in found.values()
        ]
        await self._call(tasks.advance(steps))
        told = self.node.coordinator.signals.publish([self._event_of(step) for step in steps])
        await self._call(asyncio.gather(deliveries.acknowledge(attempts), told))

    @property
    def _worker_id(self) -> WorkerId:
        return WORKER_IDS[self._batches % len(WORKER_IDS)]

    async def _call(self, call: Awaitable[Any]) -> Any:
        answer = await call
        self.after_call()
        return answer

    def _event_of(self, step: Transition) -> Event:
        after = step.after
        return Event(
            kind=KINDS[after.status],
            at=step.at,
            task_id=after.id,
            task_type="noop",
            status=after.status,
            attempt=after.attempt,
            worker_id=self._worker_id,
        )
