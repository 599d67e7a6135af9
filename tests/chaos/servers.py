"""The servers of a chaos run: which there are, what leads to them, and how a process is told of them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rota.infrastructure.database.migrate import upgrade
from tests.support.proxy import FaultyProxy
from tests.support.servers.etcd import EtcdCluster
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.process import ServerProcess
from tests.support.servers.redis import RedisServer
from tests.support.servers.redis_cluster import RedisCluster
from tests.support.servers.redis_sentinel import RedisSentinels

STORE, REDIS = "store", "redis"  # the sides of an installation that a network leads to
OUR_KEYS = "{rota}"

SqlServer = MariaDbServer | PostgresServer
SeveralRedis = RedisSentinels | RedisCluster


@dataclass(frozen=True, slots=True)
class Lines:
    """What leads to the servers, and can be hurt: by side, a proxy for each of its servers."""

    sides: Mapping[str, Sequence[FaultyProxy]] = field(default_factory=dict)

    def to(self, side: str) -> Sequence[FaultyProxy]:
        return self.sides.get(side, ())

    def heal(self) -> None:
        for proxies in self.sides.values():
            for proxy in proxies:
                proxy.heal()


class Servers(Protocol):
    """Servers that run."""

    @property
    def processes(self) -> Sequence[ServerProcess]:
        """All that must run again after a fault."""
        ...

    @property
    def disk(self) -> Path | None:
        """A small one, which the store has to itself."""
        ...

    def settings(self, lines: Lines | None = None) -> dict[str, Any]:
        """The addresses of the servers, or of what leads to them."""
        ...

    def lines(self) -> AbstractAsyncContextManager[Lines]: ...

    async def prepare(self) -> None:
        """Before the first process of Rota starts."""
        ...


@dataclass(frozen=True, slots=True)
class SqlServers:
    """A database; and a Redis, or none."""

    store: SqlServer
    redis: RedisServer | None
    disk: Path | None = None

    @property
    def processes(self) -> Sequence[ServerProcess]:
        return (self.store,) if self.redis is None else (self.store, self.redis)

    def settings(self, lines: Lines | None = None) -> dict[str, Any]:
        store_url, redis_url = url_of(self.store), self.redis.url() if self.redis is not None else "sql://"
        if lines is not None:
            store_url = store_url.replace(f":{self.store.port}/", f":{lines.to(STORE)[0].port}/")
        if lines is not None and self.redis is not None:
            redis_url = redis_url.replace(f":{self.redis.port}/", f":{lines.to(REDIS)[0].port}/")
        return {"store": {"url": store_url}, "coordinator": {"url": redis_url}}

    @asynccontextmanager
    async def lines(self) -> AsyncIterator[Lines]:
        async with AsyncExitStack() as stack:
            sides = {STORE: await _proxies(stack, [self.store.port])}
            if self.redis is not None:
                sides[REDIS] = await _proxies(stack, [self.redis.port])
            yield Lines(sides)

    async def prepare(self) -> None:
        await upgrade(self.store.url())


@dataclass(frozen=True, slots=True)
class CoordinatedServers(SqlServers):
    """A database and a Redis of several servers, which no proxy stands before: clients find them by their own names."""

    several: SeveralRedis = field(kw_only=True)

    @property
    def processes(self) -> Sequence[ServerProcess]:
        return (self.store, *_processes(self.several))

    def settings(self, lines: Lines | None = None) -> dict[str, Any]:
        return SqlServers.settings(self, lines) | {"coordinator": {"url": self.several.url()}}


@dataclass(frozen=True, slots=True)
class RedisServers:
    """A Redis of several servers, and nothing else."""

    several: SeveralRedis
    disk: Path | None = None

    @property
    def processes(self) -> Sequence[ServerProcess]:
        return _processes(self.several)

    def settings(self, _lines: Lines | None = None) -> dict[str, Any]:
        return {"store": {"url": self.several.url()}, "coordinator": {"url": self.several.url()}}

    @asynccontextmanager
    async def lines(self) -> AsyncIterator[Lines]:
        yield Lines()

    async def prepare(self) -> None:
        """There is no schema."""


@dataclass(frozen=True, slots=True)
class EtcdServers:
    """Members of one etcd cluster, and nothing else."""

    etcd: EtcdCluster
    disk: Path | None = None

    @property
    def processes(self) -> Sequence[ServerProcess]:
        return self.etcd.servers

    def settings(self, lines: Lines | None = None) -> dict[str, Any]:
        url = self.etcd.url()
        for server, proxy in zip(self.etcd.servers, lines.to(STORE) if lines is not None else (), strict=False):
            url = url.replace(f":{server.port}", f":{proxy.port}")
        return {"store": {"url": url}, "coordinator": {"url": url}}

    @asynccontextmanager
    async def lines(self) -> AsyncIterator[Lines]:
        async with AsyncExitStack() as stack:
            yield Lines({STORE: await _proxies(stack, [server.port for server in self.etcd.servers])})

    async def prepare(self) -> None:
        """There is no schema."""


def find_primary(several: SeveralRedis) -> RedisServer:
    """The server that has our keys."""
    return several.find_owner(OUR_KEYS).server if isinstance(several, RedisCluster) else several.primary


def list_followers(several: SeveralRedis) -> list[RedisServer]:
    """Those that would take its place."""
    if isinstance(several, RedisCluster):
        return [node.server for node in several.list_replicas(several.find_owner(OUR_KEYS))]
    return several.replicas


def admit_app(store: SqlServer) -> None:
    """Processes are not root: that may write though all others may only read."""
    if isinstance(store, MariaDbServer):
        store.execute("CREATE USER app@'127.0.0.1'; GRANT ALL ON rota.* TO app@'127.0.0.1'")


def url_of(store: SqlServer) -> str:
    return store.url().replace("root@", "app@")


def _processes(several: SeveralRedis) -> list[ServerProcess]:
    if isinstance(several, RedisCluster):
        return [node.server for node in several.nodes]
    return [*several.nodes, *several.sentinels]


async def _proxies(stack: AsyncExitStack, ports: Sequence[int]) -> list[FaultyProxy]:
    return [await stack.enter_async_context(FaultyProxy("127.0.0.1", port)) for port in ports]
