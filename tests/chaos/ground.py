"""What a chaos run happens on: servers, proxies before them, schedulers and workers, and who asks something of them."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from rota.infrastructure.database.migrate import upgrade
from tests.chaos import app
from tests.chaos.client import Client
from tests.chaos.measure import Measured
from tests.chaos.servers import CoordinatedServers, EtcdServers, Lines, RedisServers, Servers, SeveralRedis, SqlServers
from tests.chaos.terrain import SMALL, Terrain
from tests.support.cluster import Cluster, Process, a_cluster
from tests.support.servers.etcd import EtcdCluster
from tests.support.servers.process import ServerFailedError, ServerProcess, free_port
from tests.support.servers.redis import RedisServer

SCHEDULERS, WORKERS = 2, 2


@dataclass(slots=True)
class Ground:
    """All settings are the defaults, but for addresses. Each scheduler has lines of its own, all others share."""

    servers: Servers
    traits: frozenset[str]  # what it can be hurt with
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
    def sql(self) -> SqlServers:
        assert isinstance(self.servers, SqlServers), "there is no database here"
        return self.servers

    @property
    def redis(self) -> RedisServer:
        assert self.sql.redis is not None, "there is no Redis here"
        return self.sql.redis

    @property
    def several(self) -> SeveralRedis:
        assert isinstance(self.servers, CoordinatedServers | RedisServers), "there is at most one Redis here"
        return self.servers.several

    @property
    def etcd(self) -> EtcdCluster:
        assert isinstance(self.servers, EtcdServers), "there is no etcd here"
        return self.servers.etcd

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
        for server in self.servers.processes:
            if not server.is_running:
                await self.restart(server)
        for role, number in (("scheduler", SCHEDULERS), ("worker", WORKERS)):
            for _ in range(number - len(self.live(role))):
                await self.add(role)

    async def restart(self, server: ServerProcess) -> None:
        """Started from this thread, which it dies with; awaited elsewhere, so that the proxies go on.

        One that ends right away is started once more, as a supervisor would: that is its own affair, not Rota's."""
        server.launch()
        try:
            await asyncio.to_thread(server.wait_until_ready)
        except ServerFailedError:
            if server.is_running:
                raise
            server.launch()
            await asyncio.to_thread(server.wait_until_ready)


@asynccontextmanager
async def a_ground(terrain: Terrain, folder: Path, *, is_disk_small: bool = False) -> AsyncIterator[Ground]:
    """Processes at work."""
    async with AsyncExitStack() as stack:
        servers = stack.enter_context(terrain.serve(is_disk_small))
        await servers.prepare()
        shared = await stack.enter_async_context(servers.lines())
        port = free_port()
        settings = servers.settings(shared) | {"api": {"public_url": f"http://127.0.0.1:{port}"}}
        cluster = stack.enter_context(a_cluster(folder, settings, app=Path(app.__file__)))
        cluster.keeps_history = True
        traits = terrain.traits | ({SMALL} if is_disk_small else set())
        ground = Ground(servers, traits, cluster, shared, stack)
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
    with terrain.serve(False) if terrain is not None else nullcontext() as servers:
        settings = {"store": {"url": f"sqlite:///{folder}/rota.db"}, "coordinator": {"url": "sql://"}}
        if servers is None:
            await upgrade(settings["store"]["url"])
        else:
            settings = servers.settings()
            await servers.prepare()
        with a_cluster(folder, settings, app=Path(app.__file__)) as cluster:
            yield cluster, servers
