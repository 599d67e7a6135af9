"""What a chaos run happens on: servers, proxies before them, schedulers and workers, and who asks something of them."""

import asyncio
import itertools
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.infrastructure.database.migrate import upgrade
from tests.chaos import app
from tests.chaos.client import Client
from tests.chaos.measure import Measured
from tests.support.cluster import Cluster, Process, a_cluster
from tests.support.proxy import FaultyProxy
from tests.support.servers.mariadb import MariaDbOptions, MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.process import free_port
from tests.support.servers.redis import RedisServer

SCHEDULERS, WORKERS = 2, 2
SMALL_DISK = "512m"
SqlServer = MariaDbServer | PostgresServer


@dataclass(frozen=True, slots=True)
class Terrain:
    """Which servers, by name."""

    name: str
    open_store: Callable[[], SqlServer]
    has_redis: bool


def _postgres() -> PostgresServer:
    return PostgresServer(durable=True, settings=["max_wal_size=128MB"])  # so that a small disk is enough


TERRAINS = (
    Terrain("redis+mariadb", lambda: MariaDbServer(MariaDbOptions(durable=True)), has_redis=True),
    Terrain("redis+postgres", _postgres, has_redis=True),
    Terrain("sql+postgres", _postgres, has_redis=False),
)


@dataclass(frozen=True, slots=True)
class Lines:
    """What leads to the servers, and can be hurt."""

    store: FaultyProxy
    redis: FaultyProxy | None

    def heal(self) -> None:
        for proxy in (self.store, self.redis):
            if proxy is not None:
                proxy.heal()


@dataclass(frozen=True, slots=True)
class Servers:
    store: SqlServer
    redis: RedisServer | None
    disk: Path | None  # a small one, which the store has to itself

    def settings(self, lines: Lines | None = None) -> dict[str, Any]:
        """The addresses of the servers, or of what leads to them."""
        store_url, redis_url = url_of(self.store), self.redis.url() if self.redis is not None else "sql://"
        if lines is not None:
            store_url = store_url.replace(f":{self.store.port}/", f":{lines.store.port}/")
        if lines is not None and lines.redis is not None and self.redis is not None:
            redis_url = redis_url.replace(f":{self.redis.port}/", f":{lines.redis.port}/")
        return {"store": {"url": store_url}, "coordinator": {"url": redis_url}}

    @asynccontextmanager
    async def lines(self) -> AsyncIterator[Lines]:
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(FaultyProxy("127.0.0.1", self.store.port))
            redis = None
            if self.redis is not None:
                redis = await stack.enter_async_context(FaultyProxy("127.0.0.1", self.redis.port))
            yield Lines(store, redis)


@dataclass(slots=True)
class Ground:
    """All settings are the defaults, but for addresses. Each scheduler has lines of its own, all others share."""

    servers: Servers
    cluster: Cluster
    shared: Lines
    stack: AsyncExitStack
    own: dict[str, Lines] = field(default_factory=dict)  # of the schedulers, by their names
    client: Client | None = None  # while something is asked
    noted: list[Measured] = field(default_factory=list)  # what else was seen while a fault lasted
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def all_lines(self) -> list[Lines]:
        return [self.shared, *self.own.values()]

    @property
    def redis(self) -> RedisServer:
        if self.servers.redis is None:
            raise AssertionError("there is no Redis here")
        return self.servers.redis

    @property
    def api_url(self) -> str:
        url: str = self.cluster.settings["api"]["public_url"]
        return url

    def get_client(self) -> Client:
        if self.client is None:
            raise AssertionError("nobody asks for anything")
        return self.client

    async def add(self, role: str, *flags: str, program: Path | None = None) -> Process:
        """Another scheduler or worker, under a name of its own."""
        name = f"{role}-{next(self._numbers)}"
        if role == "scheduler":
            lines = self.own[name] = await self.stack.enter_async_context(self.servers.lines())
            urls = self.servers.settings(lines)
            flags += tuple(word for part in urls for word in ("--set", f"{part}.url={urls[part]['url']}"))
        process = self.cluster.launch(role, name, *flags, program=program)
        await asyncio.to_thread(process.wait_for, "node.ready")
        return process

    def live(self, role: str) -> list[Process]:
        return [one for one in self.cluster.processes if one.name.startswith(role) and one.popen.poll() is None]

    async def restore(self) -> None:
        """What a fault took away that went wrong itself."""
        for lines in self.all_lines:
            lines.heal()
        for server in (self.servers.store, self.servers.redis):
            if server is not None and not server.is_running:
                await self.restart(server)
        for role, number in (("scheduler", SCHEDULERS), ("worker", WORKERS)):
            for _ in range(number - len(self.live(role))):
                await self.add(role)

    async def restart(self, server: SqlServer | RedisServer) -> None:
        """Started from this thread, which it dies with; awaited elsewhere, so that the proxies go on."""
        server.launch()
        await asyncio.to_thread(server.wait_until_ready)


@asynccontextmanager
async def a_ground(terrain: Terrain, folder: Path, *, is_disk_small: bool = False) -> AsyncIterator[Ground]:
    with _serve(terrain, is_disk_small=is_disk_small) as servers:
        async with ground_on(servers, folder) as ground:
            yield ground


@asynccontextmanager
async def ground_on(servers: Servers, folder: Path) -> AsyncIterator[Ground]:
    """Processes at work on servers that run."""
    async with AsyncExitStack() as stack:
        await upgrade(servers.store.url())
        shared = await stack.enter_async_context(servers.lines())
        port = free_port()
        settings = servers.settings(shared) | {"api": {"public_url": f"http://127.0.0.1:{port}"}}
        cluster = stack.enter_context(a_cluster(folder, settings, app=Path(app.__file__)))
        cluster.keeps_history = True
        ground = Ground(servers, cluster, shared, stack)
        try:
            api = ground.add("api", "--set", f"api.port={port}")
            await asyncio.gather(api, *(ground.add("scheduler") for _ in range(SCHEDULERS)))
            await asyncio.gather(*(ground.add("worker") for _ in range(WORKERS)))
            yield ground
        finally:
            for lines in ground.all_lines:
                lines.heal()
            await asyncio.to_thread(cluster.stop)  # while the proxies still serve them


@asynccontextmanager
async def a_plain_cluster(terrain: Terrain | None, folder: Path) -> AsyncIterator[tuple[Cluster, Servers | None]]:
    """Without proxies and histories, to be measured; without a terrain, on a SQLite file."""
    with _serve(terrain) if terrain is not None else nullcontext() as servers:
        settings = {"store": {"url": f"sqlite:///{folder}/rota.db"}, "coordinator": {"url": "sql://"}}
        settings = servers.settings() if servers is not None else settings
        await upgrade(servers.store.url() if servers is not None else settings["store"]["url"])
        with a_cluster(folder, settings, app=Path(app.__file__)) as cluster:
            yield cluster, servers


@contextmanager
def _serve(terrain: Terrain, *, is_disk_small: bool = False) -> Iterator[Servers]:
    store = terrain.open_store()
    with (
        _small_disk(store.directory) if is_disk_small else nullcontext() as disk,
        store,
        RedisServer() if terrain.has_redis else nullcontext() as redis,
    ):
        admit_app(store)
        yield Servers(store, redis, disk)


def admit_app(store: SqlServer) -> None:
    """Processes are not root: that may write though all others may only read."""
    if isinstance(store, MariaDbServer):
        store.execute("CREATE USER app@'127.0.0.1'; GRANT ALL ON rota.* TO app@'127.0.0.1'")


def url_of(store: SqlServer) -> str:
    return store.url().replace("root@", "app@")


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """Only root can make one."""
    owner = folder.stat()
    options = f"size={SMALL_DISK},mode=0700,uid={owner.st_uid},gid={owner.st_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "rota-chaos", str(folder)], check=True)  # noqa: S603, S607 our own arguments
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607 the same
        folder.rmdir()


def has_small_disks() -> bool:
    return os.geteuid() == 0
