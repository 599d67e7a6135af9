"""The rights that a user of Redis needs are those that the guide names."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from rota.domain.schedule import Schedule
from rota.infrastructure.coordination.redis.coordinator import open_redis_coordinator
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.coordination.redis_health import read_redis_health
from rota.infrastructure.coordination.redis_watch import read_redis_watch
from rota.infrastructure.store.redis.store import open_redis_store
from rota.testing.contract.store_backend import HOUR, NOON, add, end, grant, make_tasks
from tests.integration.test_redis_store import a_cluster_of_one, a_firing
from tests.support.builders import a_config
from tests.support.patience import PATIENT_REDIS
from tests.support.require import require_server
from tests.support.servers.redis import RedisServer

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "on-redis-alone.md"
# In Redis 6.2 these are dangerous with all their subcommands, in a newer one only with some.
AS_IN_6_2 = ("-client", "-cluster", "-config")


async def add_user(server: RedisServer, rights: Sequence[str], *, taken: Sequence[str]) -> None:
    """One with the rights that the guide names, after some were taken away."""
    dangerous = rights.index("-@dangerous") + 1
    admin = RedisClient(server.url(), PATIENT_REDIS)
    own = ("~{shop}:*", "resetchannels", "&{shop}:*", *rights[:dangerous], *taken, *rights[dangerous:])
    await admin.command("ACL", "SETUSER", "rota", "on", ">secret", *own)
    await admin.close()


def read_rights(begin: str) -> list[str]:
    """Those of the guide that begin so."""
    (found,) = re.findall(rf"`({re.escape(begin)} [^`]*)`", GUIDE.read_text("utf-8"))
    return str(found).replace("\\|", "|").split()


@pytest.mark.parametrize("taken", [(), AS_IN_6_2], ids=["of this Redis", "as in Redis 6.2"])
async def test_a_user_with_few_rights_is_enough(taken: Sequence[str]) -> None:
    require_server("redis")
    with RedisServer() as server:
        await add_user(server, read_rights("+@all"), taken=taken)
        url = server.url().replace("://", "://rota:secret@")
        async with open_redis_store(url, "shop") as store, open_redis_coordinator(url, "shop") as coordinator:
            await end(store, await grant(store, await add(store, make_tasks(3))))
            put = await store.configs.put(a_config("report", schedule=Schedule(every=HOUR), next_fire_at=NOON))
            await store.schedules.fire([a_firing(put)])
            assert await store.tasks.purge(completed_before=NOON + HOUR, limit=10) == 3
            assert await coordinator.election.find_leader() is None
        assert (await read_redis_health(url, "{shop}:tenants")).persistence == "none"


@pytest.mark.parametrize("taken", [(), AS_IN_6_2], ids=["of this Redis", "as in Redis 6.2"])
async def test_on_a_cluster_a_user_needs_few_rights_more(taken: Sequence[str]) -> None:
    require_server("redis")
    async with a_cluster_of_one() as server:
        await add_user(server, [*read_rights("+@all"), *read_rights("+cluster\\|info")], taken=taken)
        url = f"redis+cluster://rota:secret@127.0.0.1:{server.port}"
        async with open_redis_store(url, "shop") as store, open_redis_coordinator(url, "shop") as coordinator:
            await end(store, await grant(store, await add(store, make_tasks(3))))
            assert await coordinator.election.find_leader() is None
        watch = await read_redis_watch(url, "{shop}:tenants")
        assert watch is not None
        assert watch.replicas == 0
