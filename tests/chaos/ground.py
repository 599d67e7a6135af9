"""What a chaos run happens on: servers, proxies before them, schedulers and workers, and what a client asks."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.infrastructure.database.migrate import upgrade
from tests.chaos import app
from tests.support.cluster import Cluster, Process, a_cluster
from tests.support.proxy import FaultyProxy
from tests.support.servers.mariadb import MariaDbOptions, MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer

SCHEDULERS, WORKERS = 2, 2
SqlServer = MariaDbServer | PostgresServer


@dataclass(frozen=True, slots=True)
class Terrain:
    """Which servers, by name."""

    name: str
    open_store: Callable[[], SqlServer]
    has_redis: bool


TERRAINS = (
    Terrain("redis+mariadb", lambda: MariaDbServer(MariaDbOptions(durable=True)), has_redis=True),
    Terrain("redis+postgres", lambda: PostgresServer(durable=True), has_redis=True),
    Terrain("sql+postgres", lambda: PostgresServer(durable=True), has_redis=False),
)


@dataclass(slots=True)
class Ground:
    cluster: Cluster
    store: SqlServer
    store_proxy: FaultyProxy
    redis: RedisServer | None
    redis_proxy: FaultyProxy | None
    direct: dict[str, Any]  # settings that lead past the proxies
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def add(self, role: str) -> Process:
        """Another scheduler or worker, under a name of its own."""
        process = self.cluster.launch(role, f"{role}-{next(self._numbers)}")
        await asyncio.to_thread(process.wait_for, "node.ready")
        return process

    def live(self, role: str) -> list[Process]:
        return [one for one in self.cluster.processes if one.name.startswith(role) and one.popen.poll() is None]

    async def restart(self, server: SqlServer | RedisServer) -> None:
        """Started from this thread, which it dies with; awaited elsewhere, so that the proxies go on."""
        server.launch()
        await asyncio.to_thread(server.wait_until_ready)


@asynccontextmanager
async def a_ground(terrain: Terrain, folder: Path) -> AsyncIterator[Ground]:
    with terrain.open_store() as store, _redis(terrain) as redis:
        await upgrade(store.url())
        async with AsyncExitStack() as stack:
            store_proxy = await stack.enter_async_context(FaultyProxy("127.0.0.1", store.port))
            redis_proxy = None
            if redis is not None:
                redis_proxy = await stack.enter_async_context(FaultyProxy("127.0.0.1", redis.port))
            direct = _settings(store.url(), redis.url() if redis is not None else "sql://")
            proxied = _settings(
                store.url().replace(f":{store.port}/", f":{store_proxy.port}/"),
                redis.url().replace(f":{redis.port}", f":{redis_proxy.port}") if redis and redis_proxy else "sql://",
            )
            cluster = stack.enter_context(a_cluster(folder, proxied, app=Path(app.__file__)))
            cluster.keeps_history = True
            ground = Ground(cluster, store, store_proxy, redis, redis_proxy, direct)
            roles = ["scheduler"] * SCHEDULERS + ["worker"] * WORKERS
            await asyncio.gather(*(ground.add(role) for role in roles))
            try:
                yield ground
            finally:
                store_proxy.heal()
                if redis_proxy is not None:
                    redis_proxy.heal()
                await asyncio.to_thread(cluster.stop)  # while the proxies still serve them


@contextmanager
def _redis(terrain: Terrain) -> Iterator[RedisServer | None]:
    if not terrain.has_redis:
        yield None
        return
    with RedisServer() as redis:
        yield redis


def _settings(store_url: str, coordinator_url: str) -> dict[str, Any]:
    return {
        "store": {"url": store_url},
        "coordinator": {"url": coordinator_url},
        "worker": {"capacity": 20, "drain_timeout": "3s"},
        "scheduler": {"reconcile_interval": "10s"},
    }
