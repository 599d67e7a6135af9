"""One seed, from an empty store to a judged history."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rota.application.node import Node
from rota.application.steer import SteerTasks
from rota.application.submit import SubmitTasks
from rota.domain.errors import ConflictError, RotaError, UnavailableError
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.submission import Submission
from rota.testing.virtual_time import run_virtually
from tests.simulation.border import AFTER_DEATH, Side
from tests.simulation.process import Process
from tests.simulation.world import DEADLY, FREE, LIMITED, World
from tools.check_history.history import Line, gather
from tools.check_history.judge import Judgement, judge

CLIENTS, REQUESTS = 3, 10  # each asks for so many tasks
DEADLY_SHARE = 0.003  # of them take down the process that runs them
PAUSED_AT = (None, "queue.take", "tasks.find_live", "tasks.advance")  # any time, or between a look and a deed
TROUBLE = 40.0  # seconds in which faults may begin
SETTLES_IN = 150.0  # after the last fault is over, everything must have ended
QUIET_IN = 25.0  # two rounds of reconciliation


@dataclass(frozen=True, slots=True)
class Played:
    seed: int
    judgement: Judgement
    lines: Sequence[Line]


def play(seed: int) -> Played:
    """Run one seed; nothing but the seed decides what happens."""

    async def main() -> Played:
        unread: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: _note_unread(unread, context))
        world = World(seed)
        await world.prepare()
        await _live_through(world)
        await world.dump()
        if unread:
            raise AssertionError(f"seed {seed}: a failure that nobody looked at: {unread[0]}")
        return Played(seed, judge(gather(world.lines)), world.lines)

    return run_virtually(main())


def _note_unread(unread: list[str], context: dict[str, Any]) -> None:
    """A failure that nobody looked at; those of killed processes are none."""
    failure = context.get("exception")
    if AFTER_DEATH not in str(failure):
        unread.append(f"{context['message']}: {failure!r}")


async def _live_through(world: World) -> None:
    for pod in world.pods:
        pod.start()
    node = await _join(world.client)
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(Client(world, node, number=number).run())
        group.create_task(Nemesis(world).run())
    await _wait_until(lambda: world.is_settled, SETTLES_IN)
    await asyncio.sleep(QUIET_IN)
    await asyncio.gather(*(pod.stop() for pod in world.pods))


async def _join(process: Process) -> Node:
    while True:
        with suppress(UnavailableError):
            return await process.join()


async def _wait_until(is_true: Callable[[], bool], seconds: float) -> None:
    for _ in range(int(seconds)):
        if is_true():
            return
        await asyncio.sleep(1)


class Client:
    """Asks for tasks, and sometimes changes its mind."""

    def __init__(self, world: World, node: Node, *, number: int) -> None:
        self._world = world
        self._chance = random.Random(f"{world.seed} client {number}")
        self._name = f"client{number}"
        self._desk = SubmitTasks(node)
        self._steer = SteerTasks(node)

    async def run(self) -> None:
        for number in range(REQUESTS):
            await asyncio.sleep(self._chance.expovariate(REQUESTS / TROUBLE))
            task_id = await self._submit(f"{self._name}-{number}")
            if task_id is not None and self._chance.random() < 0.2:
                await asyncio.sleep(self._chance.expovariate(1))
                await self._change(task_id)
        await self._desk.close()

    async def _submit(self, key: str) -> TaskId | None:
        """Tries again with the same key, as a good client does, until it gets an answer or gives up."""
        delay = self._chance.choice((None, None, timedelta(seconds=self._chance.uniform(0.1, 20))))
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
        is_deadly = self._chance.random() < DEADLY_SHARE
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


class Nemesis:
    """Brings the faults, each for a while, and heals them all in the end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(f"{world.seed} nemesis")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self._chance.randint(3, 9)):
                fault = self._chance.choice(self._list())
                group.create_task(self._bring(fault, number))
        for pod in self._world.pods:
            if not pod.is_up:
                pod.start()

    def _list(self) -> list[Callable[[], Awaitable[None]]]:
        return [self._kill, self._stop, self._pause, self._cut, self._server_away, self._amnesia, self._bad_network]

    async def _bring(self, fault: Callable[[], Awaitable[None]], number: int) -> None:
        await asyncio.sleep(self._chance.uniform(0, TROUBLE))
        name = f"{fault.__name__.strip('_')} {number}"
        self._world.note("fault", type="begin", name=name)
        await fault()
        self._world.note("fault", type="end", name=name)

    async def _kill(self) -> None:
        pod = self._pod()
        await pod.kill()
        await self._while()
        if not pod.is_up:
            pod.start()

    async def _stop(self) -> None:
        pod = self._pod()
        await pod.stop()
        if not pod.is_up:
            pod.start()

    async def _pause(self) -> None:
        border = self._pod().border
        border.pause(at=self._chance.choice(PAUSED_AT))
        await self._while(longest=30)
        border.resume()

    async def _cut(self) -> None:
        border, side = self._pod().border, self._chance.choice(list(Side))
        border.cut.add(side)
        await self._while(longest=30)
        border.cut.discard(side)

    async def _server_away(self) -> None:
        side = self._chance.choice(list(Side))
        self._world.weather.away.add(side)
        await self._while()
        self._world.weather.away.discard(side)

    async def _amnesia(self) -> None:
        self._world.coordinator.forget()

    async def _bad_network(self) -> None:
        self._world.weather.badness = self._chance.uniform(0.01, 0.2)
        await self._while(longest=20)
        self._world.weather.badness = 0.0

    async def _while(self, *, longest: float = 15) -> None:
        await asyncio.sleep(self._chance.uniform(0.1, longest))

    def _pod(self) -> Process:
        """Any, or the one that leads."""
        lease = self._world.coordinator.memory.lease
        leading = [pod for pod in self._world.pods if lease is not None and lease.node_id.startswith(f"{pod.name}.")]
        return self._chance.choice(leading or self._world.pods if self._chance.random() < 0.5 else self._world.pods)
