"""The coordinators that the contract is run on. A new adapter adds its function to `BACKENDS`."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from secrets import token_hex

import pytest

from rota.application.ports.coordinator import Coordinator
from rota.infrastructure.coordination.memory import MemoryState, join_memory
from rota.infrastructure.coordination.redis.coordinator import redis_coordinator
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.system import SystemClock
from rota.testing.contract.coordinator import CoordinatorBackend
from tests.contract.etcd_backends import open_etcd_coordinator
from tests.contract.sql_coordinator_backends import SQL_BACKENDS
from tests.support.clock import FakeClock
from tests.support.patience import PATIENT_REDIS
from tests.support.servers.redis import RedisServer
from tests.support.servers.redis_cluster import RedisCluster
from tests.support.servers.redis_sentinel import RedisSentinels

OpenBackend = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[CoordinatorBackend]]


class MemoryBackend:
    """In one process, on a virtual clock."""

    tick = timedelta(seconds=1)

    def __init__(self) -> None:
        self._clock = FakeClock()
        self._state = MemoryState(self._clock)

    async def connect(self) -> Coordinator:
        return join_memory(self._state)

    async def wait(self, duration: timedelta) -> None:
        await self._clock.run(duration)

    async def forget(self) -> None:
        self._state.forget()


class RedisBackend:
    """On the shared server, under a prefix of its own; each node has its own connections."""

    tick = timedelta(milliseconds=100)

    def __init__(self, server: RedisServer | RedisSentinels | RedisCluster, stack: AsyncExitStack) -> None:
        self._server = server
        self._stack = stack
        self._prefix = f"contract-{token_hex(8)}"

    async def connect(self) -> Coordinator:
        return redis_coordinator(self._make_client(), self._prefix)

    async def wait(self, duration: timedelta) -> None:
        await SystemClock().sleep(duration)

    async def forget(self) -> None:
        client = self._make_client()
        await client.command("EXISTS", f"{{{self._prefix}}}:")  # of a cluster's nodes, the one that has our keys
        keys = await client.command("KEYS", f"{{{self._prefix}}}:*")
        if keys:
            await client.command("DEL", *keys)

    def _make_client(self) -> RedisClient:
        client = RedisClient(self._server.url(), PATIENT_REDIS)
        self._stack.push_async_callback(client.close)
        return client


@asynccontextmanager
async def open_memory(_: pytest.FixtureRequest) -> AsyncIterator[CoordinatorBackend]:
    yield MemoryBackend()


@asynccontextmanager
async def open_redis(request: pytest.FixtureRequest) -> AsyncIterator[CoordinatorBackend]:
    async with AsyncExitStack() as stack:
        yield RedisBackend(request.getfixturevalue("redis_server"), stack)


@asynccontextmanager
async def open_sentinels(request: pytest.FixtureRequest) -> AsyncIterator[CoordinatorBackend]:
    async with AsyncExitStack() as stack:
        yield RedisBackend(request.getfixturevalue("redis_sentinels"), stack)


@asynccontextmanager
async def open_redis_cluster(request: pytest.FixtureRequest) -> AsyncIterator[CoordinatorBackend]:
    async with AsyncExitStack() as stack:
        yield RedisBackend(request.getfixturevalue("redis_cluster"), stack)


BACKENDS: Mapping[str, OpenBackend] = {
    "memory": open_memory,
    "redis": open_redis,
    "redis-sentinel": open_sentinels,
    "redis-cluster": open_redis_cluster,
    "etcd": open_etcd_coordinator,
    **SQL_BACKENDS,
}
