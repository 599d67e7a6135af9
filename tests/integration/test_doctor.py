"""What the doctor finds on real servers."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from tempfile import TemporaryDirectory

import pytest

from rota.config import doctor
from rota.config.doctor import Examined, examine, examine_tokens
from rota.config.finding import Finding
from rota.config.load import Loaded, Sources, load
from rota.config.registry import Registries, Surroundings
from rota.config.schema import upgrade_schema
from rota.config.tokens import issue_token
from rota.domain.calendar import BusinessDays, Calendar, StoredCalendar
from rota.domain.declaration import mark, unscheduled
from rota.domain.schedule import Schedule
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support.builders import a_config
from tests.support.names import fresh_name
from tests.support.patience import PATIENT_REDIS
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer, ask
from tests.support.servers.redis_cluster import RedisCluster
from tests.support.servers.redis_sentinel import RedisSentinels


@pytest.fixture
async def loaded(postgres_server: PostgresServer, redis_server: RedisServer) -> AsyncIterator[Loaded]:
    """A sound cluster on PostgreSQL and Redis."""
    name = fresh_name("doctor")
    postgres_server.create_database(name)
    made = load(Sources(flags={"store.url": postgres_server.url(name), "coordinator.url": redis_server.url()}))
    await upgrade_schema(made.settings)
    yield made


def by_subject(examined: Examined) -> dict[str, Finding]:
    return {finding.subject: finding for finding in examined.findings}


async def test_a_sound_cluster_has_no_finding(loaded: Loaded) -> None:
    found = by_subject(await examine(loaded))
    assert all(finding.is_sound for finding in found.values()), found
    assert {"schema", "clock", "coordinator", "redis eviction", "redis persistence", "redis version"} <= set(found)


async def test_a_redis_that_throws_keys_away_is_a_finding(loaded: Loaded) -> None:
    client = RedisClient(loaded.settings.coordinator.url, PATIENT_REDIS)
    try:
        await client.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        await client.command("CONFIG", "SET", "save", "60 1")
        found = by_subject(await examine(loaded))
    finally:
        await client.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        await client.command("CONFIG", "SET", "save", "")
        await client.close()
    assert found["redis eviction"].fix == "redis-cli CONFIG SET maxmemory-policy noeviction"
    assert found["redis persistence"].text == "rdb"


async def test_a_clock_that_differs_is_a_finding(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    class FastClock(SystemClock):
        def now(self) -> datetime:
            return super().now() + timedelta(minutes=5)

    monkeypatch.setattr(doctor, "SystemClock", FastClock)
    found = by_subject(await examine(loaded))
    assert not found["clock"].is_sound


async def test_a_calendar_that_ends_soon_is_a_finding_if_a_schedule_keeps_to_it(loaded: Loaded) -> None:
    assert by_subject(await examine(loaded))["calendars"].is_sound
    around = Surroundings(loaded.settings, SystemClock(), SystemRandom())
    async with Registries().stores.get("postgresql")(around) as store:
        now = await store.tasks.now()
        for name, last in (("over", now.year - 1), ("unused", now.year - 1), ("later", now.year + 2)):
            calendar = Calendar(name=name, business_days=BusinessDays(), years=(2020, last))
            await store.calendars.put(StoredCalendar(calendar=calendar))
        for name, calendars in (("report", ("over",)), ("mail", ("over", "later")), ("free", ("later",))):
            schedule = Schedule(every=timedelta(hours=1), only=calendars)
            await store.configs.put(a_config(name, schedule=schedule, next_fire_at=now))
        paused = Schedule(every=timedelta(hours=1), only=("unused",), is_paused=True)
        await store.configs.put(a_config("paused", schedule=paused, next_fire_at=now))
    examined = await examine(loaded)
    found = by_subject(examined)["calendars"]
    assert found.text == f"over knows nothing after {now.year - 1}, and then mail, report will not fire"
    assert "rota calendar put" in found.fix
    assert examined.nodes == {}  # none lives, which can be seen all the same


async def test_a_schedule_of_the_code_that_is_left_out_is_a_finding() -> None:
    with TemporaryDirectory() as folder:
        loaded = load(Sources(flags={"store.url": f"sqlite:///{folder}/rota.db"}))
        await upgrade_schema(loaded.settings)
        assert by_subject(await examine(loaded))["schedules in code"].is_sound
        async with Registries().stores.get("sqlite")(
            Surroundings(loaded.settings, SystemClock(), SystemRandom())
        ) as store:
            await store.configs.put(a_config("report", executor_config=mark(unscheduled("1f", ["cn"]))))
            found = by_subject(await examine(loaded))["schedules in code"]
            await store.calendars.put(StoredCalendar(calendar=Calendar(name="cn")))
            later = by_subject(await examine(loaded))["schedules in code"]
    assert found.text == "left out is that of report, when there was no calendar cn"
    assert found.fix == "rota calendar put cn, then start again what has that code"
    assert later.fix == "start again what has that code"


async def test_who_lives_is_told_on_a_redis_that_is_not_sound(redis_server: RedisServer) -> None:
    found = by_subject(await examine(load(Sources(flags={"store.url": redis_server.url()}))))
    assert not found["redis persistence"].is_sound
    assert found["nodes"].is_sound


async def test_a_token_without_an_end_is_a_finding(loaded: Loaded) -> None:
    await issue_token(loaded.settings, "short", role="viewer", expires_in=timedelta(days=1))
    assert [finding.is_sound for finding in await examine_tokens(loaded.settings)] == [True]
    token, _ = await issue_token(loaded.settings, "endless", role="admin", expires_in=None)
    (finding,) = await examine_tokens(loaded.settings)
    assert finding.fix == f"rota token revoke {token.id}"


async def test_the_token_of_this_folder_is_not_to_be_revoked(loaded: Loaded) -> None:
    _, secret = await issue_token(loaded.settings, "rota dev", role="admin", expires_in=None)
    (finding,) = await examine_tokens(loaded.settings, own=secret)
    assert finding.is_sound


@pytest.mark.parametrize("topology", ["sentinels", "cluster"])
async def test_a_sound_redis_of_several_servers_is_told(
    loaded: Loaded, topology: str, request: pytest.FixtureRequest
) -> None:
    servers: RedisSentinels | RedisCluster = request.getfixturevalue(f"redis_{topology}")
    found = by_subject(await examine(with_coordinator(loaded, servers.url())))
    assert not [finding for finding in found.values() if not finding.is_sound]
    followed = "followed by 2 replicas; 3 of 3 Sentinels answer, 2 begin a failover"
    assert (followed if topology == "sentinels" else "followed by 1 replica") in found["redis primary"].text
    assert "is replaced" in found["redis failover"].text
    assert "redis version" in found


async def test_sentinels_that_could_not_help_in_time_are_findings(loaded: Loaded) -> None:
    with RedisSentinels(down_after=timedelta(seconds=30), replicas=1) as servers:
        ask(servers.primary.port, "CONFIG", "SET", "min-replicas-to-write", "1")
        found = by_subject(await examine(with_coordinator(loaded, servers.url())))
        assert "SENTINEL SET shop down-after-milliseconds 5000" in found["redis failover"].fix
        assert found["redis writes"].fix == "redis-cli CONFIG SET min-replicas-to-write 0 on every server"
        assert found["redis primary"].is_sound
        servers.sentinels[2].kill()
        found = by_subject(await examine(with_coordinator(loaded, servers.url())))
        assert "2 of 3 Sentinels answer" in found["redis primary"].text
        assert "start the Sentinels" in found["redis primary"].fix


async def test_a_replica_that_is_dead_could_not_take_over(loaded: Loaded) -> None:
    with RedisSentinels(down_after=timedelta(seconds=2), replicas=1) as servers:
        servers.nodes[1].kill()
        found = by_subject(await examine(with_coordinator(loaded, servers.url())))
        while found["redis primary"].is_sound:  # until Sentinels have noticed
            found = by_subject(await examine(with_coordinator(loaded, servers.url())))
        assert "0 replicas" in found["redis primary"].text
        assert "nobody could take over" in found["redis primary"].text


def with_coordinator(loaded: Loaded, url: str) -> Loaded:
    return load(Sources(flags={"store.url": loaded.settings.store.url, "coordinator.url": url}))


async def test_a_database_that_refuses_the_login_is_told_with_what_to_correct(loaded: Loaded) -> None:
    url = loaded.settings.store.url.replace("rota@", "nobody:hunter2@")
    found = by_subject(await examine(load(Sources(flags={"store.url": url}))))
    assert "correct user, password and database in store.url" in found["store"].fix
