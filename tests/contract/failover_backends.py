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
from rota.infrastructure.coordination.redis.coordinator import redis_coordinator
from rota.infrastructure.coordination.redis_client import RedisClient, RedisOptions
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.contract.coordinator import CoordinatorBackend
from rota.testing.faults import Fault, Faults
from rota.testing.faulty_coordinator import faulty_coordinator
from tests.contract.sql_coordinator_backends import SqlBackend, prepare
from tests.support.clock import FakeClock
from tests.support.faults import kill
from tests.support.servers.process import free_port

OpenBackend = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[CoordinatorBackend]]


class FailoverBackend:
    """A node on each of two backends, joined. The dead primary is one that no call reaches."""

    def __init__(self, primary: CoordinatorBackend, fallback: CoordinatorBackend, *, clock: Clock) -> None:
        self.stack = AsyncExitStack()
        self._primary = primary
        self._fallback = fallback
        self._loops = Loops(clock, SystemRandom(), NoMetrics())

    @property
    def tick(self) -> timedelta:
        return max(self._primary.tick, self._fallback.tick)

    async def connect(self) -> Coordinator:
        primary, fallback = await self._primary.connect(), await self._fallback.connect()
        opened = failover_coordinator(primary, fallback, loops=self._loops)
        node = await self.stack.enter_async_context(opened)
        await node.queue.find_generation()  # the switch has moved by now, if it must; what is there is not trusted
        return node

    async def wait(self, duration: timedelta) -> None:
        await self._fallback.wait(duration)

    async def forget(self) -> None:
        await self._primary.forget()
        await self._fallback.forget()
