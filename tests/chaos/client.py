"""A client that asks until it is answered, and writes down what it was told."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import rota
from rota.application.node import Node
from rota.domain.errors import ConflictError, NotFoundError, UnavailableError
from rota.domain.ids import TaskId
from rota.domain.task import Task
from rota.infrastructure.telemetry.history import History
from rota.sdk.options import SubmitOptions
from tests.support.cluster import eventually

KINDS = ("quick", "quick", "quick", "slow", "shaky", "bounded", "elsewhere")
PAGE = 500
AGAIN_S = 0.2
PATIENCE_S = 120.0
DELAYED, DELAYED_S = 0.25, 4.0  # such a share of the steady load is due so much later at most …
REGRETTED = 0.3  # … of which so many are cancelled before they are due …
CHANGED_MIND, CHANGED_MIND_S = 0.05, 1.0  # … and so many of the rest within so long


class Client:
    """`connection` leads through the faults, `watch` past them."""

    def __init__(self, connection: rota.Rota, history: History, *, watch: Node, chance: random.Random) -> None:
        self._connection = connection
        self._watch = watch
        self._history = history
        self._chance = chance
        self._numbers = itertools.count(1)
        self.task_ids: list[str] = []
        self.token = ""  # of the API
        self.is_enough = False
        self.refused = 0  # requests that were not answered with a task
        self.lost: set[str] = set()  # tasks that are gone, and may be

    async def submit(self, kind: str, *, delay_s: float = 0.0, **payload: Any) -> str:
        """Again with the same key until there is an answer."""
        key = self.note_request()
        options: SubmitOptions = {"idempotency_key": key, "metadata": {"key": key}}
        if delay_s:
            options["delay"] = timedelta(seconds=delay_s)
        while True:
            try:
                handle = await self._connection.submit(kind, payload, **options)
            except UnavailableError:
                self.refused += 1
                self._history.note("submit", type="info", key=key)
                await asyncio.sleep(AGAIN_S)
                self._history.note("submit", type="invoke", key=key)
            else:
                self.note_answer(key, handle.id)
                return handle.id

    def note_request(self) -> str:
        """The key of a request that is made now."""
        key = f"chaos-{next(self._numbers)}"
        self._history.note("submit", type="invoke", key=key)
        return key

    def note_answer(self, key: str, task_id: str) -> None:
        self._history.note("submit", type="ok", key=key, task=task_id)
        self.task_ids.append(task_id)

    async def note_lost_writes(self, since: float, *, until: float) -> int:
        """A failover of the store may have lost what was answered then: how many tasks. They are not waited for."""
        self._history.note("lost_writes", since=since, until=until)

        async def look() -> set[str]:
            found = set[str]()
            for begin in range(0, len(asked), PAGE):
                some = [TaskId(int(one)) for one in asked[begin : begin + PAGE]]
                found |= set(map(str, await self._watch.store.tasks.load(some)))
            return found

        asked = list(self.task_ids)
        lost = set(asked) - await eventually(look, "the store to be back", patience_s=PATIENCE_S)
        self.lost |= lost
        self.task_ids = [one for one in self.task_ids if one not in lost]
        return len(lost)

    async def load(self, per_second: float) -> None:
        """Ask steadily until it is enough, and sometimes change one's mind."""
        async with asyncio.TaskGroup() as regrets:
            while not self.is_enough:
                await asyncio.sleep(self._chance.expovariate(per_second))
                kind, delay_s = self._chance.choice(KINDS), self._draw_delay()
                task_id = await self.submit(kind, delay_s=delay_s)
                if self._chance.random() < (REGRETTED if delay_s else CHANGED_MIND):
                    regrets.create_task(self._cancel(task_id, within_s=delay_s or CHANGED_MIND_S))

    def _draw_delay(self) -> float:
        return self._chance.uniform(0.1, DELAYED_S) if self._chance.random() < DELAYED else 0.0

    async def _cancel(self, task_id: str, *, within_s: float) -> None:
        await asyncio.sleep(self._chance.uniform(0, within_s))
        self._history.note("cancel", type="invoke", task=task_id)
        try:
            await self._connection.cancel(task_id, reason="changed my mind")
        except UnavailableError:
            answer = "info"
        except (ConflictError, NotFoundError):  # it has ended, or was lost where it may be
            answer = "fail"
        else:
            answer = "ok"
        self._history.note("cancel", type=answer, task=task_id)

    async def load_ended(self, task_ids: Sequence[str]) -> list[Task]:
        """These tasks, when all of them have ended."""
        await wait_for_all(self._watch, task_ids, patience_s=PATIENCE_S)
        return list((await self._watch.store.tasks.load([TaskId(int(one)) for one in task_ids])).values())


async def wait_for_all(node: Node, task_ids: Sequence[str], *, patience_s: float) -> None:
    """Until all of these have ended."""
    left = {TaskId(int(task_id)) for task_id in task_ids}

    async def look() -> bool | None:
        for begin in range(0, len(left), PAGE):
            some = sorted(left)[begin : begin + PAGE]
            found = await node.store.tasks.load(some)
            left.difference_update(task.id for task in found.values() if task.state.status.is_final)
        return True if not left else None

    await eventually(look, f"{len(left)} tasks to end", patience_s=patience_s)
