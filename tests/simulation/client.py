"""Asks for tasks, and sometimes changes its mind."""

import asyncio
import random
from contextlib import suppress
from datetime import timedelta

from rota.application.node import Node
from rota.application.steer import SteerTasks
from rota.application.submit import SubmitTasks
from rota.domain.errors import ConflictError, RotaError, UnavailableError
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.submission import Submission
from tests.simulation.world import DEADLY, FREE, LIMITED, World

DEADLY_SHARE = 0.003  # of the tasks take down the process that runs them
LONGEST_DELAY = 8.0


class Client:
    def __init__(self, world: World, node: Node, *, name: str) -> None:
        self._world = world
        self._chance = random.Random(f"{world.seed} {name}")
        self._name = name
        self._desk = SubmitTasks(node)
        self._steer = SteerTasks(node)

    async def run(self, requests: int, within: float) -> None:
        for number in range(requests):
            await asyncio.sleep(self._chance.expovariate(requests / within))
            task_id = await self._submit(f"{self._name}-{number}")
            if task_id is not None and self._chance.random() < 0.2:
                await asyncio.sleep(self._chance.expovariate(1))
                await self._change(task_id)
        await self._desk.close()

    async def _submit(self, key: str) -> TaskId | None:
        """Tries again with the same key, as a good client does, until it gets an answer or gives up."""
        delay = self._chance.choice((None, None, timedelta(seconds=self._chance.uniform(0.1, LONGEST_DELAY))))
        wish = Submission(
            type=self._kind(),
            metadata={"key": key},
            idempotency_key=key,
            delay=delay,
            priority=self._chance.choice((0, 0, 5, 9)),
        )
        for _ in range(self._chance.randint(1, 4)):
            self._world.note("submit", type="invoke", key=key)
            try:
                added = await self._desk.submit(wish)
            except UnavailableError:
                self._world.note("submit", type="info", key=key)
            else:
                self._world.note("submit", type="ok", key=key, task=str(added.task_id))
                return added.task_id
        return None

    def _kind(self) -> str:
        is_deadly = self._world.has_deadly_tasks and self._chance.random() < DEADLY_SHARE
        return DEADLY if is_deadly else self._chance.choice((FREE, LIMITED))

    async def _change(self, task_id: TaskId) -> None:
        if self._chance.random() < 0.5:
            await self._cancel(task_id)
            return
        with suppress(RotaError):
            await self._steer.amend(task_id, DEFAULT_TENANT, priority=self._chance.randint(0, 9))

    async def _cancel(self, task_id: TaskId) -> None:
        self._world.note("cancel", type="invoke", task=str(task_id))
        try:
            await self._steer.cancel(task_id, DEFAULT_TENANT, reason="changed my mind")
        except UnavailableError:
            self._world.note("cancel", type="info", task=str(task_id))
        except ConflictError:
            self._world.note("cancel", type="fail", task=str(task_id))
        else:
            self._world.note("cancel", type="ok", task=str(task_id))
