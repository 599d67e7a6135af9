"""The failover coordinator over two others, with its primary well and with its primary dead from the start."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial

import pytest

from rota.application.loop import Loops
from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import NoMetrics
from rota.application.ports.system import Clock
from rota.infrastructure.coordination.failover.coordinator import failover_coordinator
from rota.infrastructure.coordination.memory import MemoryState, join_memory
from rota.infrastructure.coordination.redis.coordinator import open_redis_coordinator
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.contract.coordinator import CoordinatorBackend
from rota.testing.faulty_coordinator import faulty_coordinator
from tests.contract.coordinator_backends import RedisBackend
from tests.contract.sql_coordinator_backends import SqlBackend, prepare
from tests.support.clock import FakeClock
from tests.support.outage import Outage
from tests.support.servers.process import free_port

OpenBackend = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[CoordinatorBackend]]


class MemoryBackend:
    """In one process, on a clock shared with the other side; dead, or not."""

    tick = timedelta(seconds=1)

    def __init__(self, clock: FakeClock, *, is_dead: bool = False) -> None:
        self._clock = clock
        self._state = MemoryState(clock)
        self._outage = Outage(is_out=is_dead)

    async def connect(self) -> Coordinator:
        return faulty_coordinator(join_memory(self._state), self._outage)

    async def wait(self, duration: timedelta) -> None:
        await self._clock.run(duration)

    async def forget(self) -> None:
        self._state.forget()


class DeadRedisBackend:
    """A port that nobody listens on."""

    tick = timedelta(milliseconds=100)

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._url = f"redis://127.0.0.1:{free_port()}/0"

    async def connect(self) -> Coordinator:
        return await self._stack.enter_async_context(open_redis_coordinator(self._url))

    async def wait(self, duration: timedelta) -> None:
        await SystemClock().sleep(duration)

    async def forget(self) -> None:
        """It remembers nothing."""


class FailoverBackend:
    """Two backends joined, node by node."""

    def __init__(
        self, primary: CoordinatorBackend, fallback: CoordinatorBackend, *, clock: Clock, stack: AsyncExitStack
    ) -> None:
        self._stack = stack
        self._primary = primary
        self._fallback = fallback
        self._loops = Loops(clock, SystemRandom(), NoMetrics())

    @property
    def tick(self) -> timedelta:
        return max(self._primary.tick, self._fallback.tick)

    async def connect(self) -> Coordinator:
        primary, fallback = await self._primary.connect(), await self._fallback.connect()
        opened = failover_coordinator(primary, fallback, loops=self._loops)
        node = await self._stack.enter_async_context(opened)
        await node.queue.find_generation()  # the switch has moved by now, if it must; what is there is not trusted
        return node

    async def wait(self, duration: timedelta) -> None:
        await self._fallback.wait(duration)

    async def forget(self) -> None:
        await self._primary.forget()
        await self._fallback.forget()


@asynccontextmanager
async def open_memories(_: pytest.FixtureRequest, *, is_dead: bool) -> AsyncIterator[CoordinatorBackend]:
    async with AsyncExitStack() as stack:
        clock = FakeClock()
        primary, fallback = MemoryBackend(clock, is_dead=is_dead), MemoryBackend(clock)
        yield FailoverBackend(primary, fallback, clock=clock, stack=stack)


@asynccontextmanager
async def open_redis_and_sqlite(request: pytest.FixtureRequest, *, is_dead: bool) -> AsyncIterator[CoordinatorBackend]:
    async with AsyncExitStack() as stack:
        primary: CoordinatorBackend = DeadRedisBackend(stack)
        if not is_dead:
            primary = RedisBackend(request.getfixturevalue("redis_server"), stack)
        fallback = SqlBackend(await prepare("sqlite", request), stack)
        yield FailoverBackend(primary, fallback, clock=SystemClock(), stack=stack)


FAILOVER_BACKENDS: Mapping[str, OpenBackend] = {
    "failover-memory": partial(open_memories, is_dead=False),
    "failover-memory-dead": partial(open_memories, is_dead=True),
    "failover-redis-sqlite": partial(open_redis_and_sqlite, is_dead=False),
    "failover-redis-sqlite-dead": partial(open_redis_and_sqlite, is_dead=True),
}
