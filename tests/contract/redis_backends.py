"""The store in Redis under its contract: a prefix of its own on shared servers; each node has its own client."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from secrets import token_hex

import pytest

from rota.application.ports.store import Store
from rota.domain.errors import StoreUnavailableError
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.store.redis.space import RedisSpace
from rota.infrastructure.store.redis.store import redis_store
from rota.infrastructure.system import SystemClock
from rota.testing.contract.store import StoreBackend
from tests.support.patience import PATIENT_REDIS
from tests.support.servers.redis import RedisServer
from tests.support.servers.redis_cluster import RedisCluster
from tests.support.servers.redis_sentinel import RedisSentinels


class RedisStoreBackend:
    tick = timedelta(milliseconds=50)

    def __init__(self, server: RedisServer | RedisSentinels | RedisCluster, stack: AsyncExitStack) -> None:
        self._server = server
        self._stack = stack
        self._prefix = f"contract-{token_hex(8)}"

    async def connect(self) -> Store:
        client = RedisClient(self._server.url(), PATIENT_REDIS, unavailable=StoreUnavailableError)
        self._stack.push_async_callback(client.close)
        return redis_store(RedisSpace(client, self._prefix))

    async def wait(self, duration: timedelta) -> None:
        await SystemClock().sleep(duration)

    async def forget(self) -> None:
        """Leave nothing behind: the server is shared, and some tests add tens of megabytes."""
        client = RedisClient(self._server.url(), PATIENT_REDIS, unavailable=StoreUnavailableError)
        await client.command("EXISTS", f"{{{self._prefix}}}:tenants")  # of a cluster, the node that has them all
        keys = await client.command("KEYS", f"{{{self._prefix}}}:*")
        for start in range(0, len(keys), 1000):
            await client.command("UNLINK", *keys[start : start + 1000])
        await client.close()


def open_redis_store(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[StoreBackend]:
    return _open_store(request.getfixturevalue("redis_server"))


def open_redis_sentinel_store(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[StoreBackend]:
    return _open_store(request.getfixturevalue("redis_sentinels"))


def open_redis_cluster_store(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[StoreBackend]:
    return _open_store(request.getfixturevalue("redis_cluster"))


@asynccontextmanager
async def _open_store(server: RedisServer | RedisSentinels | RedisCluster) -> AsyncIterator[StoreBackend]:
    async with AsyncExitStack() as stack:
        backend = RedisStoreBackend(server, stack)
        yield backend
        await backend.forget()
