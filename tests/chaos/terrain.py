"""The terrains of chaos: which servers an installation stands on, and so what it can be hurt with."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from tests.chaos.servers import (
    CoordinatedServers,
    EtcdServers,
    RedisServers,
    Servers,
    SeveralRedis,
    SqlServer,
    SqlServers,
    admit_app,
)
from tests.support.servers.etcd import EtcdCluster
from tests.support.servers.mariadb import MariaDbOptions, MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer
from tests.support.servers.redis_cluster import RedisCluster
from tests.support.servers.redis_sentinel import RedisSentinels

SMALL_DISK = "512m"
DOWN_AFTER = timedelta(seconds=5)  # as the guide says

# What a fault needs of the terrain it is brought on.
SQL, REDIS, ETCD = "a database", "one Redis", "etcd"
SENTINEL, CLUSTER = "Redis with Sentinels", "Redis Cluster"
NETWORK = "a network"  # proxies stand before the servers
CLOCK = "a clock"  # of the servers, so that those of the processes do not matter
REDIS_STORE = "tasks in Redis"
SMALL = "a small disk"

Serve = Callable[[bool], AbstractContextManager[Servers]]  # told whether the store is to be on a small disk
OpenSql = Callable[[], SqlServer]


@dataclass(frozen=True, slots=True)
class Terrain:
    """Which servers, by name, and what they can be hurt with."""

    name: str
    serve: Serve
    traits: frozenset[str]


@contextmanager
def _serve_sql(is_disk_small: bool, *, open_store: OpenSql, has_redis: bool) -> Iterator[Servers]:
    store = open_store()
    with (
        _small_disk(store.directory) if is_disk_small else nullcontext() as disk,
        store,
        RedisServer() if has_redis else nullcontext() as redis,
    ):
        admit_app(store)
        yield SqlServers(store, redis, disk)


@contextmanager
def _serve_etcd(_is_disk_small: bool) -> Iterator[Servers]:
    with EtcdCluster(durable=True, options=()) as etcd:  # its own times: those that the bounds are for
        yield EtcdServers(etcd)


@contextmanager
def _serve_redis(_is_disk_small: bool, *, make: Callable[[], SeveralRedis]) -> Iterator[Servers]:
    with make() as several:
        yield RedisServers(several)


@contextmanager
def _serve_beside_mariadb(_is_disk_small: bool, *, make: Callable[[], SeveralRedis]) -> Iterator[Servers]:
    with make() as several, _mariadb() as store:
        admit_app(store)
        yield CoordinatedServers(store, None, several=several)


def _mariadb() -> MariaDbServer:
    return MariaDbServer(MariaDbOptions(durable=True))


def _postgres() -> PostgresServer:
    return PostgresServer(durable=True, settings=["max_wal_size=128MB"])  # so that a small disk is enough


def _sentinels() -> RedisSentinels:
    return RedisSentinels(down_after=DOWN_AFTER, durable=True)


def _cluster() -> RedisCluster:
    return RedisCluster(node_timeout=DOWN_AFTER, durable=True)


def _on_sql(name: str, open_store: OpenSql, *, has_redis: bool) -> Terrain:
    traits = {SQL, CLOCK, NETWORK} | ({REDIS} if has_redis else set())
    return Terrain(name, partial(_serve_sql, open_store=open_store, has_redis=has_redis), frozenset(traits))


TERRAINS = (
    _on_sql("redis+mariadb", _mariadb, has_redis=True),
    _on_sql("redis+postgres", _postgres, has_redis=True),
    _on_sql("sql+postgres", _postgres, has_redis=False),
    Terrain("etcd", _serve_etcd, frozenset({ETCD, NETWORK})),
    Terrain("sentinel", partial(_serve_redis, make=_sentinels), frozenset({SENTINEL, CLOCK, REDIS_STORE})),
    Terrain("cluster", partial(_serve_redis, make=_cluster), frozenset({CLUSTER, CLOCK, REDIS_STORE})),
)
WITH_MARIADB = (  # in the tests alone: there the database stands in
    Terrain("sentinel+mariadb", partial(_serve_beside_mariadb, make=_sentinels), frozenset({SENTINEL, SQL})),
    Terrain("cluster+mariadb", partial(_serve_beside_mariadb, make=_cluster), frozenset({CLUSTER, SQL})),
)


def get_terrain(name: str) -> Terrain:
    return next(terrain for terrain in (*TERRAINS, *WITH_MARIADB) if terrain.name == name)


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
