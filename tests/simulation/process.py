"""One simulated process: the real wiring of a pod, on simulated ports."""

import asyncio
import json
import os
import random
from collections.abc import Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rota.application.elect import ElectionSettings
from rota.application.loop import FatalError
from rota.application.node import Node, join
from rota.application.ports.executor import Job, Reports
from rota.application.ports.metrics import NoMetrics
from rota.application.ports.system import System
from rota.config.load import Sources, load
from rota.config.registry import ExecutorFactory, Registries, Registry
from rota.config.settings import Settings
from rota.config.wiring import Blueprint, Built, Role, build_roles
from rota.domain.attempt import Deferred, Failed, Outcome, Snoozed, Succeeded, TaskError, TaskResult
from rota.domain.errors import UnavailableError
from rota.domain.ids import NodeId
from rota.domain.task_config import TaskConfig
from rota.infrastructure.coordination import memory as coordination
from rota.infrastructure.store.memory import store as memory_store
from rota.infrastructure.telemetry.history import History, recorded
from rota.sdk.tasks import TaskRegistry
from rota.testing.faulty_coordinator import faulty_coordinator
from rota.testing.faulty_store import faulty_store
from rota.testing.kit import SeededRandom
from rota.testing.virtual_time import START, VirtualClock
from tests.simulation.border import Border
from tests.simulation.loop import OWNER, SimulatedLoop

if TYPE_CHECKING:
    from tests.simulation.world import World

RESTART_AFTER = 1.0
TAKES = (0.001, 0.05, 0.5, 2, 6, 16)  # seconds, at most
SETTINGS = {
    "store.url": "memory://",
    "coordinator.url": "memory://",
    "metrics.collector": "none",
    "worker.capacity": 5,
    "worker.drain_timeout": "5s",
}


@cache
def _settings(name: str, reconcile_every: float, *, is_shared: bool) -> Settings:
    asked = SETTINGS | {"worker.name": name, "scheduler.reconcile_interval": f"{reconcile_every}s"}
    asked |= {"scheduler.shared_dispatch": is_shared}
    return load(Sources(flags=asked, folder=Path(os.devnull))).settings


class _OwnExecutors(Registry[ExecutorFactory]):
    def _list_points(self) -> list[EntryPoint]:
        return []  # nothing is installed beside Rota: to look for it would take a tenth of all time


class SimulatedClock(VirtualClock):
    """Sleeps at less cost."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: datetime = START) -> None:
        super().__init__(loop, start)
        self._pause = cast(SimulatedLoop, loop).pause

    def sleep(self, duration: timedelta) -> Coroutine[Any, Any, None]:
        """A future in truth, which needs no task where somebody waits for this or for something else."""
        return cast(Coroutine[Any, Any, None], self._pause(duration.total_seconds()))


class StoreClock(SimulatedClock):
    """The store's own clock, which is another one after a failover."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self._ahead

    def step(self, by: timedelta) -> None:
        self._ahead += by

    def elapsed(self, at: datetime) -> float:
        """Seconds on the monotonic clock, of a moment by this one since its last step."""
        return (at - START - self._ahead).total_seconds()


class SkewedClock(SimulatedClock):
    """Wrong by some time; all nodes' clocks run at the same pace."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew: timedelta) -> None:
        super().__init__(loop, START + skew)


class SimulatedExecutor:
    """Takes a while and ends somehow, as the seed will have it. Its ledger is its own, not Rota's."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self._chance = process.chance

    async def start(self) -> None:
        """There is nothing to start."""

    def supports(self, config: TaskConfig) -> bool:
        return True

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        world, attempt = self._process.world, job.attempt
        nonce = f"{attempt.task_id}/{attempt.number}/{world.number()}"
        call = {
            "task": str(attempt.task_id),
            "attempt": attempt.number,
            "worker": str(attempt.worker_id),
            "nonce": nonce,
        }
        world.note("call", type="invoke", **call)
        if job.task.spec.type == "deadly":
            self._process.perish()
        try:
            await self._work()
        except asyncio.CancelledError:
            world.note("call", type="stopped", **call)
            raise
        if self._chance.random() < 0.2:
            world.outsider.take_over(job, call)
            return Deferred()
        outcome = self._draw(nonce)
        world.note("call", type="ok" if isinstance(outcome, Succeeded) else "fail", **call)
        return outcome

    async def close(self) -> None:
        """There is nothing to end."""

    async def _work(self) -> None:
        border = self._process.border
        await asyncio.sleep(self._chance.choice(TAKES) * self._chance.random())
        if border.is_dead:
            await asyncio.Event().wait()  # the process is no more: nothing of it goes on

    def _draw(self, nonce: str) -> Outcome:
        roll = self._chance.random()
        if roll < 0.12:
            return Failed(TaskError("sometimes", "it happens"))
        if roll < 0.14:
            return Failed(TaskError("never", "it is final", retryable=False))
        if roll < 0.17:
            return Snoozed(timedelta(seconds=0.3))
        return Succeeded(TaskResult(data=json.dumps(nonce)))


class Process:
    """Started, killed, stopped, paused; started anew by its supervisor when it ends by itself."""

    def __init__(self, world: "World", name: str, *, roles: tuple[Role, ...]) -> None:
        self.world = world
        self.name = name
        self.chance = random.Random(f"{world.seed} {name}")
        self.border = Border(world.weather, self.chance)
        self._roles = roles
        self._starts = 0
        self.node: Node | None = None  # the one that it is at present
        self._built: Built | None = None
        self._life: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self._life is not None and not self._life.done()

    def start(self) -> None:
        self._starts += 1
        self.border = Border(self.world.weather, self.chance)
        self._life = asyncio.create_task(self._live())

    async def kill(self) -> None:
        """Like SIGKILL: from this moment on nothing of it has an effect."""
        self.world.note("harm", pod=self.name)
        self.border.is_dead = True
        self.border.resume()
        await self._end()

    def perish(self) -> None:
        """A task takes the process down; its supervisor starts another."""

        async def end() -> None:
            await self.kill()
            await asyncio.sleep(RESTART_AFTER)
            if not self.is_up:
                self.start()

        self.border.is_dead = True
        self._perishing = asyncio.get_running_loop().create_task(end())

    async def stop(self) -> None:
        """Like SIGTERM, and SIGKILL after half a minute."""
        if self._built is not None:
            self._built.roles.stop()
        if self._life is not None:
            await asyncio.wait([self._life], timeout=30)
        await self.kill()

    async def join(self) -> Node:
        """A node of the cluster, with this process' view of the servers."""
        world, clock = self.world, SkewedClock(asyncio.get_running_loop(), self.world.skew_of(self.name))
        history = History(f"{self.name}.{self._starts}", clock, write=world.lines.append)
        store, coordinator = recorded(
            faulty_store(memory_store.join_memory(world.store), self.border),
            faulty_coordinator(coordination.join_memory(world.coordinator), self.border),
            history=history,
            election=ElectionSettings(),
        )
        self.node = await join(
            NodeId(f"{self.name}.{self._starts}"),
            store,
            coordinator=coordinator,
            system=System(clock, SeededRandom(self.chance.getrandbits(32))),
            collector=NoMetrics(),
        )
        return self.node

    async def _live(self) -> None:
        OWNER.set(self.border)
        while not self.border.is_dead:
            with suppress(UnavailableError, FatalError):
                await self._live_once()
                return
            await asyncio.sleep(RESTART_AFTER)
            self._starts += 1

    async def _live_once(self) -> None:
        node = await self.join()
        registries = Registries(executors=_OwnExecutors("executor", {}, group=""))
        registries.executors.register("local", lambda _around: SimulatedExecutor(self))
        plan = Blueprint(
            settings=_settings(self.name, self.world.reconcile_every, is_shared=self.world.is_shared),
            system=System(node.clock, node.random),
            registries=registries,
            tasks=TaskRegistry(),
        )
        self._built = await build_roles(plan, node, roles=self._roles)
        await self._built.roles.run()

    async def _end(self) -> None:
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
