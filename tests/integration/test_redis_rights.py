"""The rights that a user of Redis needs are those that the guide names."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from rota.application.ports.system import System
from rota.config.doctor import examine
from rota.config.finding import Finding
from rota.config.load import Sources, load
from rota.config.wiring import Blueprint, open_node
from rota.domain.errors import ConfigError
from rota.domain.ids import TaskId
from rota.domain.schedule import Schedule
from rota.infrastructure.coordination.redis.coordinator import open_redis_coordinator
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.coordination.redis_health import read_redis_health
from rota.infrastructure.coordination.redis_rights import spell_grant
from rota.infrastructure.coordination.redis_watch import read_redis_watch
from rota.infrastructure.store.redis.store import open_redis_store
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.contract.store_backend import HOUR, NOON, add, end, grant, make_tasks
from tests.integration.test_redis_store import a_cluster_of_one, a_firing
from tests.support.builders import a_config
from tests.support.patience import PATIENT_REDIS
from tests.support.require import require_server
from tests.support.servers.process import free_port
from tests.support.servers.redis import RedisServer, ask

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
        flags = {"store.url": url, "coordinator.prefix": "shop"}
        found = {one.subject: one for one in (await examine(load(Sources(flags=flags)))).findings}
        assert found["redis rights"].is_sound
        assert f"CLUSTER REPLICATE {watch.primary_id}" in found["redis primary"].fix


def on_sqlite(tmp_path: Path, coordinator: str) -> Blueprint:
    """A process that has a database to fall back on."""
    flags = {"store.url": f"sqlite:///{tmp_path}/rota.db", "coordinator.url": coordinator, "coordinator.prefix": "shop"}
    return Blueprint(settings=load(Sources(flags=flags)).settings, system=System(SystemClock(), SystemRandom()))


@pytest.mark.parametrize(
    ("kind", "login", "problem", "fix"),
    [
        ("redis", "rota:wrong@", "another user or password", "correct the user and password"),
        ("redis", "", "another user or password", "correct the user and password"),
        ("redis", "reader:secret@", "no permissions", "on-redis-alone.md"),
        ("redis", "other:secret@", "with the prefix shop: .*access one of the keys", "coordinator.prefix"),
        ("redis+sentinel", "", "another user or password", "sentinel_password"),
        ("redis+sentinel", "rota:secret@", "is no Sentinel", "redis://"),
        ("redis+cluster", "rota:secret@", "is no node of a cluster", "redis://"),
    ],
)
async def test_a_process_does_not_start_where_redis_refuses_it(
    tmp_path: Path, kind: str, login: str, problem: str, fix: str
) -> None:
    require_server("redis")
    with RedisServer() as server:
        await add_user(server, read_rights("+@all"), taken=())
        ask(server.port, "ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@read", "+@connection", "+info")
        ask(server.port, "ACL", "SETUSER", "other", "on", ">secret", "~{other}:*", "&*", "+@all")
        if not login:
            ask(server.port, "ACL", "SETUSER", "default", "resetpass", ">hidden")
        plan = on_sqlite(tmp_path, f"{kind}://{login}127.0.0.1:{server.port}{'/main' if 'sentinel' in kind else ''}")
        with pytest.raises(ConfigError, match=problem) as caught:
            async with open_node(plan):
                pass
        assert fix in caught.value.fix


async def test_a_process_starts_while_redis_is_away(tmp_path: Path) -> None:
    async with open_node(on_sqlite(tmp_path, f"redis://127.0.0.1:{free_port()}")) as node:
        assert await node.coordinator.election.find_leader() is None


async def test_what_to_do_is_told_when_a_redis_begins_to_refuse_a_process(tmp_path: Path) -> None:
    require_server("redis")
    with RedisServer() as server:
        await add_user(server, read_rights("+@all"), taken=())
        logs: list[Any]
        async with open_node(on_sqlite(tmp_path, server.url().replace("://", "://rota:secret@"))) as node:
            ask(server.port, "ACL", "SETUSER", "rota", "-@write")
            with capture_logs() as logs:
                await node.coordinator.signals.request_cancel([TaskId(7)], ttl=HOUR)
        [told] = [line for line in logs if line["event"] == "coordinator.fallback"]
        assert "on-redis-alone.md" in told["fix"]


async def examine_rights(url: str) -> list[Finding]:
    """What the doctor has to say of a Redis that is the coordinator beside another store."""
    flags = {"store.url": "memory://", "coordinator.url": url, "coordinator.prefix": "shop"}
    return [one for one in (await examine(load(Sources(flags=flags)))).findings if "redis" in one.subject]


@pytest.mark.parametrize(
    ("rights", "lacking"),
    [
        (("~*", "&*", "+@read", "+@connection", "+info", "+time", "+config|get"), "'set' command"),
        (("~{shop}:*", "&{shop}:*", "+@all", "-time"), "TIME: "),
        (("~{other}:*", "&*", "+@all"), "EXISTS: this user has no permissions to access one of the keys"),
        (("~*", "resetchannels", "&{other}:*", "+@all"), "PUBLISH: "),
    ],
)
async def test_the_doctor_says_which_rights_are_missing(rights: Sequence[str], lacking: str) -> None:
    require_server("redis")
    with RedisServer() as server:
        await add_user(server, read_rights("+@all"), taken=())
        ask(server.port, "ACL", "SETUSER", "few", "on", ">secret", *rights)
        url = server.url().replace("://", "://few:secret@")
        [finding] = await examine_rights(url)
        assert lacking in finding.text
        assert "{shop}:" in finding.text
        [same] = [one for one in (await examine(load(Sources(flags=alone_on(url))))).findings if one.fix]
        assert same == finding, "one cause is told once"
        ask(server.port, *shlex.split(finding.fix))
        found = await examine_rights(url)
        assert all(one.is_sound for one in found if one.subject == "redis rights"), found


def alone_on(url: str) -> dict[str, str]:
    return {"store.url": url, "coordinator.prefix": "shop"}


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:{}", "redis+cluster://127.0.0.1:{}", "redis+sentinel://127.0.0.1:{}/x"]
)
async def test_the_doctor_tells_of_a_dead_redis_once_and_how_to_ask_it(url: str) -> None:
    port = free_port()
    wrong = [one for one in (await examine(load(Sources(flags=alone_on(url.format(port)))))).findings if one.fix]
    assert [one.subject for one in wrong] == ["store"]
    assert f"redis-cli -h 127.0.0.1 -p {port} ping" in wrong[0].fix


def test_the_rights_that_the_doctor_would_give_are_those_of_the_guide() -> None:
    plain = ["+@all", *read_rights("+@all")[1:]]
    assert spell_grant("redis://rota:x@h", "shop").split()[7:] == plain
    assert spell_grant("redis+cluster://rota:x@h", "shop").split()[7:] == [*plain, *read_rights("+cluster\\|info")]
