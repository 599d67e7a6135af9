"""Whoever works on deferred attempts: calls back through any node, again when there is no answer, or never."""

import asyncio
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rota.application.callbacks import AttemptCallbacks
from rota.application.node import Node
from rota.application.ports.executor import Job
from rota.domain.attempt import Failed, Succeeded, TaskError, TaskResult
from rota.domain.callback import AttemptKey
from rota.domain.errors import ConflictError, FencedError, UnavailableError
from rota.domain.ids import DEFAULT_TENANT
from tests.simulation.loop import SERVERS

if TYPE_CHECKING:
    from tests.simulation.world import World

NEVER, FAILS = 0.2, 0.2  # the shares of attempts that are forgotten, and of calls that say it failed
MOST_TRIES = 8


class Outsider:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._chance = random.Random(f"{world.seed} outsider")
        self._at_work: set[asyncio.Task[None]] = set()

    def take_over(self, job: Job, call: Mapping[str, Any]) -> None:
        """From here on the attempt is no business of the worker that was given it."""
        task = asyncio.get_running_loop().create_task(self._work(job, call), context=SERVERS)
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    async def _work(self, job: Job, call: Mapping[str, Any]) -> None:
        self._world.note("call", type="deferred", **call)
        await asyncio.sleep(self._chance.choice((0.0, 0.1, 3.0, 16.0)) * self._chance.random())
        if self._chance.random() < NEVER:
            return
        key = AttemptKey(DEFAULT_TENANT, job.task.id, job.attempt.number)
        outcome = self._draw(call["nonce"])
        self._world.note("call", type="ok" if isinstance(outcome, Succeeded) else "fail", **call)
        for _ in range(MOST_TRIES):
            answer = await self._say(key, outcome)
            self._world.note("callback", type=answer, task=str(key.task_id), attempt=key.number, nonce=call["nonce"])
            if answer != "info":
                return

    def _draw(self, nonce: str) -> Succeeded | Failed:
        if self._chance.random() < FAILS:
            return Failed(TaskError("outside", nonce))
        return Succeeded(TaskResult(data=f'"{nonce}"'))

    async def _say(self, key: AttemptKey, outcome: Succeeded | Failed) -> str:
        """What became of it: ok, refused (fail), or nobody knows (info)."""
        callbacks = AttemptCallbacks(self._any_node())
        try:
            if isinstance(outcome, Succeeded):
                await callbacks.complete(key, outcome)
            else:
                await callbacks.fail(key, outcome)
        except UnavailableError:
            return "info"
        except (ConflictError, FencedError):
            return "fail"
        return "ok"

    def _any_node(self) -> Node:
        nodes = [one.node for one in (self._world.client, *self._world.pods) if one.node is not None]
        return self._chance.choice(nodes)
