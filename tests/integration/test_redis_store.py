"""What the store in Redis does beyond its contract."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from rota.application.ports.store import Added, Store, Written
from rota.application.ports.system import System
from rota.config.doctor import examine
from rota.config.finding import Finding
from rota.config.load import Sources, load
from rota.config.wiring import Blueprint, open_node
from rota.domain.audit import AuditEntry
from rota.domain.broken import skip_unreadable
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.errors import (
    CalendarInUseError,
    ConfigError,
    InvalidError,
    RevisionConflictError,
    StoreUnavailableError,
)
from rota.domain.firing import NEVER_RAN, FullFiring, decide, firing_of
from rota.domain.ids import DEFAULT_TENANT, NodeId
from rota.domain.log import LogEntry, place
from rota.domain.schedule import Occurrence, Schedule
from rota.domain.submission import NewTask
from rota.domain.task import SUCCESS, LiveTask, LogKind
from rota.domain.task_config import TaskConfig, UnreadableConfig
from rota.infrastructure.coordination.redis_client import Part, RedisClient, Script
from rota.infrastructure.store.redis.space import RedisSpace
from rota.infrastructure.store.redis.store import redis_store
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.contract.store_backend import (
    HOUR,
    NOON,
    WORKER_1,
    add,
    add_one,
    end,
    grant,
    grant_step,
    make_tasks,
    success_step,
)
from rota.testing.values import replace
from tests.support.builders import a_config
from tests.support.names import fresh_name
from tests.support.patience import PATIENT_REDIS
from tests.support.require import require_server
from tests.support.servers.process import free_port
from tests.support.servers.redis import RedisServer

OFFICE = StoredCalendar(calendar=Calendar(name="office"))
OUT_OF_OFFICE = TaskConfig(type="report", schedule=Schedule(cron="0 9 * * *", exclude=("office",)), next_fire_at=NOON)
LONG = '{"text": "' + "x" * 5_000 + '"}'


@pytest.fixture
def prefix() -> str:
    return fresh_name("redis")


@pytest.fixture
async def client(redis_server: RedisServer) -> AsyncIterator[RedisClient]:
    opened = RedisClient(redis_server.url(), PATIENT_REDIS, unavailable=StoreUnavailableError)
    yield opened
    await opened.close()


@pytest.fixture
def store(client: RedisClient, prefix: str) -> Store:
    return redis_store(RedisSpace(client, prefix))


async def list_keys(client: RedisClient, prefix: str) -> set[str]:
    return {key.decode().partition("}:")[2] for key in await client.command("KEYS", f"{{{prefix}}}:*")}


async def test_a_purge_leaves_no_key_of_a_task_behind(store: Store, client: RedisClient, prefix: str) -> None:
    tasks = make_tasks(3, payload=LONG)
    await store.tasks.add([NewTask(task, key=f"k{task.id}", digest="d") for task in tasks])
    await end(store, await grant(store, tasks))
    await store.logs.append([a_line(tasks[0].id)])
    assert await store.tasks.purge(completed_before=NOON + HOUR, limit=100) == 3
    assert await list_keys(client, prefix) == {"tasks:count", "tasks:count:ended", "tenants"}
    assert await store.tasks.count_by_status(None) == {}
    assert await store.tasks.count_ended(DEFAULT_TENANT) == {SUCCESS: 3}


def an_entry() -> AuditEntry:
    return AuditEntry(id=1, tenant_id=DEFAULT_TENANT, at=NOON, actor="me", action="config.delete", object="report")


def a_line(task_id: int) -> LogEntry:
    return LogEntry(task_id=task_id, seq=place(2, 1), kind=LogKind.INFO, at=NOON, message="late")  # type: ignore[arg-type]


async def test_lines_of_a_task_that_is_gone_are_forgotten_some_day(
    store: Store, client: RedisClient, prefix: str
) -> None:
    kept, gone = make_tasks(2)
    await add(store, [kept])
    await store.logs.append([a_line(kept.id), a_line(gone.id)])
    lives = [await client.command("TTL", f"{{{prefix}}}:task:{task.id}:lines") for task in (kept, gone)]
    assert lives[0] == -1
    assert 0 < lives[1] <= timedelta(days=7).total_seconds()


async def test_a_task_is_one_text_that_can_be_read(store: Store, client: RedisClient, prefix: str) -> None:
    [task] = await grant(store, [await add_one(store)])
    text = await client.command("GET", f"{{{prefix}}}:task:{task.id}")
    state, spec, granted = text.decode().splitlines()
    assert state.startswith('[2,"PROCESSING",1,')
    assert '"type":"report"' in spec
    assert granted.startswith("[2,")
    assert granted.endswith(f'"PENDING","PROCESSING",1,{WORKER_1}]')


async def test_what_a_newer_release_wrote_is_skipped_and_kept_as_it_is(
    store: Store, client: RedisClient, prefix: str
) -> None:
    key = f"{{{prefix}}}:configs"
    schedule = Schedule(every=timedelta(seconds=1))
    for task_type in ("newer", "newest", "old"):
        await store.configs.put(a_config(task_type, schedule=schedule, next_fire_at=NOON))
    await rewrite(client, (key, "default:newer"), before=b'"jitter":', after=b'"moon_phase":1,"jitter":')
    await rewrite(client, (key, "default:newest"), before=b'"skip"', after=b'"mirror"')
    newer, newest, old = await store.schedules.list_due(10)
    assert isinstance(newer, UnreadableConfig)
    assert isinstance(newest, UnreadableConfig)
    assert (newer.type, newer.problem) == ("newer", "schedule.moon_phase: is not known")
    assert old == await store.configs.find(DEFAULT_TENANT, "old")
    assert await store.schedules.list_unreadable(10) == [newer, newest]
    assert await store.schedules.list_unreadable(1) == [newer]
    for task_type, problem in (("newer", "moon_phase"), ("newest", "'newest' cannot be read: Invalid enum value")):
        with pytest.raises(InvalidError, match=problem):
            await store.configs.find(DEFAULT_TENANT, task_type)
    assert [one.type for one in await store.configs.list_page(DEFAULT_TENANT)] == ["old"]
    skipped = [skip_unreadable(one, NOON) for one in (newer, newest)]
    noted = await store.schedules.fire(skipped)
    assert [one.reason.split(":")[0] for (one,) in noted] == ["unreadable"] * 2
    assert await store.schedules.aim(replace(newest, next_fire_at=skipped[1].next_fire_at), NOON + HOUR)
    await rewrite(client, (key, "default:newest"), before=b'"mirror"', after=b'"skip"')
    found = await store.configs.find(DEFAULT_TENANT, "newest")
    assert found is not None
    assert (found.schedule, found.next_fire_at, found.runs) == (schedule, NOON + HOUR, 0)


async def test_a_schedule_that_an_older_release_paused_is_found_once_more_and_then_no_more(
    store: Store, client: RedisClient, prefix: str
) -> None:
    await store.configs.put(a_config("report", schedule=Schedule(every=HOUR), next_fire_at=NOON))
    await rewrite(
        client, (f"{{{prefix}}}:configs", "default:report"), before=b'"is_paused":false', after=b'"is_paused":true'
    )
    [paused] = await store.schedules.list_due(10)
    assert isinstance(paused, TaskConfig)
    decision = decide(paused, NOON + HOUR, last=NEVER_RAN)
    [[noted]] = await store.schedules.fire([firing_of(paused, decision, task_ids=(), now=NOON)])
    assert noted.reason == "paused"
    assert (await store.schedules.list_due(10), await store.schedules.find_next()) == ([], None)


async def rewrite(client: RedisClient, place_: tuple[str, str], *, before: bytes, after: bytes) -> None:
    document = await client.command("HGET", *place_)
    assert before in document
    await client.command("HSET", *place_, document.replace(before, after))


@pytest.mark.parametrize("written", [b"1\nno json", b'1\n{"calendar": {"moons": 1}}'])
async def test_a_calendar_that_cannot_be_read_is_no_calendar(
    store: Store, client: RedisClient, prefix: str, written: bytes
) -> None:
    await client.command("HSET", f"{{{prefix}}}:calendars", "default:office", written)
    with pytest.raises(InvalidError, match="what is stored as 'office' cannot be read"):
        await store.calendars.find(DEFAULT_TENANT, "office")
    assert await store.calendars.load([(DEFAULT_TENANT, "office")]) == {}
    with pytest.raises(RevisionConflictError):
        await store.calendars.put(OFFICE, expected_revision=0)
    assert (await store.calendars.put(OFFICE, expected_revision=1)).revision == 2


async def test_a_term_is_greater_than_those_that_the_server_forgot(
    store: Store, client: RedisClient, prefix: str
) -> None:
    before = await store.terms.begin(NodeId("a"))
    await client.command("DEL", f"{{{prefix}}}:leadership")  # it came back without its last writes
    assert not await store.terms.confirm(before)
    assert await store.terms.begin(NodeId("b")) >= before


class LossyClient(RedisClient):
    """The server does what it is asked, and its answer is lost, once for each script."""

    def __init__(self, url: str) -> None:
        super().__init__(url, unavailable=StoreUnavailableError)
        self._lost: set[str] = set()

    async def run(self, script: Script, *, keys: Sequence[str], args: Sequence[Part] = ()) -> Any:
        answer = await super().run(script, keys=keys, args=args)
        if script.sha not in self._lost:
            self._lost.add(script.sha)
            raise StoreUnavailableError("redis: no answer in time")
        return answer

    def forget(self) -> None:
        self._lost.clear()


@pytest.fixture
async def lossy(redis_server: RedisServer) -> AsyncIterator[LossyClient]:
    opened = LossyClient(redis_server.url())
    yield opened
    await opened.close()


async def twice(call: Callable[[], Awaitable[Any]]) -> Any:
    """What the second call answers after the answer to the first one was lost."""
    with pytest.raises(StoreUnavailableError):
        await call()
    return await call()


async def test_a_call_whose_answer_was_lost_may_be_repeated(store: Store, lossy: LossyClient, prefix: str) -> None:
    node = redis_store(RedisSpace(lossy, prefix))
    [task] = make_tasks(1)
    assert await twice(lambda: node.tasks.add([NewTask(task, key="k", digest="d")])) == [Added(task.id)]
    granted = grant_step(task)
    assert await twice(lambda: node.tasks.advance([granted])) == Written(repeated=frozenset({task.id}))
    running = task.after(granted)
    assert await node.tasks.advance([success_step(running)]) == Written(applied=frozenset({task.id}))
    assert len(await store.logs.read(task.id)) == 3
    assert await twice(lambda: node.logs.append([a_line(task.id)])) is None
    assert len(await store.logs.read(task.id)) == 4
    assert await twice(lambda: node.tasks.purge(completed_before=NOON + HOUR, limit=10)) == 0
    assert await store.tasks.count_by_status(None) == {}
    lossy.forget()
    config = a_config("report", schedule=Schedule(every=timedelta(hours=1)), next_fire_at=NOON)
    put = await twice(lambda: node.configs.put(config, expected_revision=0))
    assert put.revision == 1
    lossy.forget()
    firing = a_firing(put)
    assert await twice(lambda: node.schedules.fire([firing])) == [list(firing.occurrences)]
    assert await store.tasks.load([firing.tasks[0].id]) == {firing.tasks[0].id: firing.tasks[0]}
    assert (await store.configs.find(DEFAULT_TENANT, "report")) == replace(
        put, next_fire_at=NOON + HOUR, runs=1, last_run=firing.tasks[0].id
    )


def a_firing(config: TaskConfig) -> FullFiring:
    [task] = make_tasks(1, at=NOON + HOUR)
    return FullFiring(
        tenant_id=config.tenant_id,
        task_type=config.type,
        revision=config.revision,
        seen_at=NOON,
        next_fire_at=NOON + HOUR,
        occurrences=(Occurrence(task_type=config.type, fire_at=NOON, task_id=task.id),),
        tasks=(task,),
    )


class OvertakenClient(RedisClient):
    """Before its first script, or its first command of a kind, somebody else is faster."""

    def __init__(self, url: str, rival: Callable[[], Awaitable[object]], *, before: str) -> None:
        super().__init__(url, unavailable=StoreUnavailableError)
        self._rivals = [rival]
        self._before = before

    async def command(self, *parts: Part) -> Any:
        while self._rivals and parts[0] == self._before:
            await self._rivals.pop()()
        return await super().command(*parts)


@asynccontextmanager
async def overtaken(
    server: RedisServer, prefix: str, *, by: Callable[[], Awaitable[object]], before: str = "EVALSHA"
) -> AsyncIterator[Store]:
    client = OvertakenClient(server.url(), by, before=before)
    yield redis_store(RedisSpace(client, prefix))
    await client.close()


async def test_what_ends_while_a_page_is_read_does_not_make_it_look_the_last(
    store: Store, redis_server: RedisServer, prefix: str
) -> None:
    first, second, third = await grant(store, await add(store, make_tasks(3)))
    async with overtaken(redis_server, prefix, by=lambda: end(store, [first]), before="MGET") as slower:
        assert [live.id for live in await slower.tasks.list_live(after=None, limit=1)] == [second.id]
    async with overtaken(redis_server, prefix, by=lambda: end(store, [second]), before="MGET") as slower:
        assert [live.id for live in await slower.tasks.list_running(after=None, limit=1)] == [third.id]


async def test_what_is_granted_while_it_is_looked_for_does_not_wait(
    store: Store, redis_server: RedisServer, prefix: str
) -> None:
    [task] = await add(store, make_tasks(1))
    async with overtaken(redis_server, prefix, by=lambda: grant(store, [task]), before="MGET") as slower:
        assert await slower.tasks.list_due(10) == []


async def test_what_is_handed_back_while_it_is_looked_for_does_not_run(
    store: Store, redis_server: RedisServer, prefix: str
) -> None:
    looks: Sequence[Callable[[Store], Awaitable[list[LiveTask]]]] = (
        lambda node: node.tasks.list_overdue(10),
        lambda node: node.tasks.list_running(after=None, limit=10),
        lambda node: node.tasks.list_held(WORKER_1),
    )
    for task, look in zip(await grant(store, await add(store, make_tasks(3))), looks, strict=True):
        rival = partial(store.tasks.advance, [task.state.released("drained", at=NOON, due_at=NOON)])
        async with overtaken(redis_server, prefix, by=rival, before="MGET") as slower:
            assert task.id not in [live.id for live in await look(slower)]


async def test_a_config_that_is_deleted_while_a_page_is_read_does_not_make_it_look_the_last(
    store: Store, redis_server: RedisServer, prefix: str
) -> None:
    for task_type in ("a", "b"):
        await store.configs.put(a_config(task_type))
    rival = partial(store.configs.delete, DEFAULT_TENANT, "a")
    async with overtaken(redis_server, prefix, by=rival, before="HMGET") as slower:
        assert [config.type for config in await slower.configs.list_page(DEFAULT_TENANT, limit=1)] == ["b"]


async def test_a_calendar_that_a_schedule_comes_to_name_is_not_deleted(
    store: Store, redis_server: RedisServer, prefix: str
) -> None:
    await store.calendars.put(OFFICE)
    async with overtaken(redis_server, prefix, by=lambda: store.configs.put(OUT_OF_OFFICE)) as slower:
        with pytest.raises(CalendarInUseError, match="report"):
            await slower.calendars.delete(DEFAULT_TENANT, "office")
    assert await store.calendars.find(DEFAULT_TENANT, "office") is not None


async def test_a_schedule_cannot_name_a_calendar_that_is_deleted_meanwhile(
    store: Store, redis_server: RedisServer, prefix: str
) -> None:
    await store.calendars.put(OFFICE)
    async with overtaken(redis_server, prefix, by=lambda: store.calendars.delete(DEFAULT_TENANT, "office")) as slower:
        with pytest.raises(InvalidError, match="there is no calendar 'office'"):
            await slower.configs.put(OUT_OF_OFFICE)
    assert await store.configs.find(DEFAULT_TENANT, "report") is None


async def test_a_firing_that_another_leader_overtakes_takes_no_effect(
    store: Store, redis_server: RedisServer, prefix: str
) -> None:
    put = await store.configs.put(a_config("report", schedule=Schedule(every=HOUR), next_fire_at=NOON))
    ours, theirs = a_firing(put), replace(a_firing(put), tasks=(), occurrences=())
    async with overtaken(redis_server, prefix, by=lambda: store.schedules.fire([theirs])) as slower:
        assert await slower.schedules.fire([ours]) == [[]]
    assert await store.tasks.load([ours.tasks[0].id]) == {}


async def test_of_two_definitions_at_once_both_are_revisions(
    store: Store, redis_server: RedisServer, prefix: str
) -> None:
    async with overtaken(redis_server, prefix, by=lambda: store.configs.put(a_config("report"))) as slower:
        put = await slower.configs.put(a_config("report", description="the later one"))
    assert put.revision == 2
    assert [one.revision for one in await store.configs.list_revisions(DEFAULT_TENANT, "report")] == [2, 1]


async def test_a_config_that_is_deleted_leaves_its_revisions_alone(
    store: Store, client: RedisClient, prefix: str
) -> None:
    await store.calendars.put(OFFICE)
    await store.configs.put(OUT_OF_OFFICE)
    await store.configs.delete(DEFAULT_TENANT, "report")
    await store.calendars.delete(DEFAULT_TENANT, "office")
    assert await list_keys(client, prefix) == {"configs:revisions:default:report"}


async def test_a_full_redis_refuses_whole_changes_and_can_still_be_purged() -> None:
    require_server("redis")
    with RedisServer() as server:
        client = RedisClient(server.url(), PATIENT_REDIS, unavailable=StoreUnavailableError)
        try:
            store = redis_store(RedisSpace(client))
            await end(store, await grant(store, await add(store, make_tasks(3))))
            put = await store.configs.put(a_config("report", schedule=Schedule(every=HOUR), next_fire_at=NOON))
            await client.command("CONFIG", "SET", "maxmemory", "1mb")
            for refused in (
                lambda: store.schedules.fire([a_firing(put)]),
                lambda: store.configs.delete(DEFAULT_TENANT, "report", audit=[an_entry()]),
                lambda: add(store, make_tasks(1, at=NOON + HOUR)),
            ):
                with pytest.raises(StoreUnavailableError, match="maxmemory"):
                    await refused()
            assert await store.schedules.list_due(10) == [put], "it is where it was"
            assert await store.tasks.purge(completed_before=NOON + HOUR, limit=10) == 3
            assert await store.tasks.count_by_status(None) == {}
        finally:
            await client.close()


async def test_everything_is_in_one_slot_of_a_cluster(prefix: str) -> None:
    require_server("redis")
    async with a_cluster_of_one() as server:
        client = RedisClient(server.url(), PATIENT_REDIS, unavailable=StoreUnavailableError)
        try:
            store = redis_store(RedisSpace(client, prefix))
            tasks = make_tasks(3, payload=LONG)
            await store.tasks.add([NewTask(task, key=f"k{task.id}", digest="d") for task in tasks])
            await end(store, await grant(store, tasks))
            put = await store.configs.put(a_config("report", schedule=Schedule(every=HOUR), next_fire_at=NOON))
            await store.schedules.fire([a_firing(put)])
            assert await store.tasks.purge(completed_before=NOON + HOUR, limit=10) == 3
            assert await store.schedules.purge(fired_before=NOON + HOUR, limit=10) == 1
        finally:
            await client.close()


@asynccontextmanager
async def a_cluster_of_one() -> AsyncIterator[RedisServer]:
    with RedisServer(options=("--cluster-enabled", "yes", "--cluster-port", str(free_port()))) as server:
        client = RedisClient(server.url(), PATIENT_REDIS)
        for start in range(0, 16384, 4096):
            await client.command("CLUSTER", "ADDSLOTS", *range(start, start + 4096))
        while b"cluster_state:ok" not in await client.command("CLUSTER", "INFO"):
            continue
        await client.close()
        yield server


@pytest.mark.parametrize("name", ["", "{x}", "a}"])
def test_a_prefix_that_is_none_is_refused(client: RedisClient, name: str) -> None:
    with pytest.raises(ConfigError, match="prefix"):
        RedisSpace(client, name)


async def examine_redis(url: str) -> dict[str, Finding]:
    return {one.subject: one for one in (await examine(load(Sources(flags={"store.url": url})))).findings}


async def test_the_doctor_looks_at_what_would_lose_tasks() -> None:
    require_server("redis")
    with RedisServer() as server:
        found = await examine_redis(server.url())
        assert found["redis persistence"].text == "none: a restart of Redis loses every task"
        assert found["redis persistence"].fix == "redis-cli CONFIG SET appendonly yes"
        assert {"clock", "schedules", "coordinator"} <= {one for one, finding in found.items() if finding.is_sound}
        client = RedisClient(server.url(), PATIENT_REDIS)
        try:
            for key, value in [("appendonly", "yes"), ("appendfsync", "no"), ("maxmemory-policy", "allkeys-lru")]:
                await client.command("CONFIG", "SET", key, value)
            await client.command("CONFIG", "SET", "maxmemory", "1mb")
            found = await examine_redis(server.url())
            assert found["redis persistence"].fix == "redis-cli CONFIG SET appendfsync everysec"
            assert found["redis eviction"].fix == "redis-cli CONFIG SET maxmemory-policy noeviction"
            assert found["redis memory"].fix == "a shorter task.retention, or a larger maxmemory"
            await client.command("CONFIG", "SET", "maxmemory", "0")
            await client.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
            await client.command("CONFIG", "SET", "appendfsync", "everysec")
            found = await examine_redis(server.url())
            assert found["redis persistence"] == Finding("redis persistence", "aof, appendfsync everysec")
            assert all(one.is_sound for one in found.values()), found
        finally:
            await client.close()


def on_redis(url: str, prefix: str) -> Blueprint:
    """A process that has nothing but this Redis."""
    settings = load(Sources(flags={"store.url": url, "coordinator.prefix": prefix})).settings
    return Blueprint(settings=settings, system=System(SystemClock(), SystemRandom()))


async def test_a_redis_without_persistence_is_warned_of_at_every_start(redis_server: RedisServer, prefix: str) -> None:
    with capture_logs() as logs:
        async with open_node(on_redis(redis_server.url(), prefix)) as node:
            assert await node.store.tasks.count_by_status(None) == {}
    [warning] = [one for one in logs if one["event"] == "redis.store_at_risk"]
    assert (warning["log_level"], warning["fix"]) == ("warning", "redis-cli CONFIG SET appendonly yes")


async def test_the_doctor_does_not_log_what_it_is_about_to_say(redis_server: RedisServer) -> None:
    with capture_logs() as logs:
        assert not (await examine_redis(redis_server.url()))["redis persistence"].is_sound
    assert logs == []


async def test_a_redis_that_is_away_is_told_by_the_first_call() -> None:
    url = f"redis://127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailableError):
        async with open_node(on_redis(url, "rota")):
            pass
    found = await examine_redis(url)
    assert not found["store"].is_sound
