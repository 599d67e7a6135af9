"""What an installation stands on: its database, its coordinator, on servers of its own, durable, on private ports."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from bench.places import Place, place
from rota.infrastructure.coordination.redis_client import RedisClient
from tests.support.servers.redis import RedisServer

REDIS_ONLY = "redis-only"
GROUNDS = {  # name: database, and whether Redis coordinates; else the database does
    "redis+mariadb": ("mariadb", True),
    REDIS_ONLY: ("redis", True),
    "redis+postgresql": ("postgresql", True),
    "sql+postgresql": ("postgresql", False),
    "embedded": ("sqlite", False),
}


@dataclass(frozen=True, slots=True)
class Ground:
    """Servers that run; each round takes an empty database of theirs."""

    name: str
    place: Place
    redis: RedisServer | None

    async def fresh(self) -> dict[str, Any]:
        """Settings for an installation on an empty database and an empty Redis."""
        emptied = await self.empty("redis") if self.redis is not None else ""
        store = emptied if self.name == REDIS_ONLY else await self.place.fresh()
        coordinator = "memory://" if self.place.server is None else "sql://"
        return {
            "store": {"url": store},
            "coordinator": {"url": coordinator if self.redis is None else self.redis.url()},
            "log": {"format": "json"},
        }

    async def empty(self, product: str) -> str:
        """The URL of the emptied Redis, or of a new database without tables, for whoever is not Rota."""
        if product == "redis" and self.redis is not None:
            client = RedisClient(self.redis.url())
            await client.command("FLUSHALL")
            await client.close()
            return self.redis.url()
        return self.place.create()

    @property
    def is_embedded(self) -> bool:
        """Whether there is no server at all, and so one process."""
        return self.place.server is None and self.redis is None

    @property
    def pids(self) -> Mapping[str, int]:
        """The servers' processes by name."""
        found = {} if self.place.server is None else {self.place.name: self.place.server.pid}
        return found if self.redis is None else {**found, "redis": self.redis.pid}


@contextmanager
def ground(name: str) -> Iterator[Ground]:
    """Start its servers; they are gone at the end."""
    database, has_redis = GROUNDS[name]
    with place(database) as where, RedisServer(durable=True) if has_redis else nullcontext() as redis:
        yield Ground(name, where, redis)
