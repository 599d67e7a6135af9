"""What the store and the coordinator on etcd do beyond their contracts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from rota.application.ports.store import Store
from rota.config.doctor import examine
from rota.config.load import Sources, load
from rota.domain.audit import AuditEntry, AuditFilter
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
from rota.domain.ids import DEFAULT_TENANT, NodeId, first_id_at
from rota.domain.priority import LEVELS
from rota.domain.schedule import Occurrence, Schedule
from rota.domain.submission import NewTask
from rota.domain.task import PENDING
from rota.domain.task_config import TaskConfig, UnreadableConfig
from rota.infrastructure.coordination.etcd.coordinator import etcd_coordinator
from rota.infrastructure.etcd.client import Done, EtcdClient
from rota.infrastructure.etcd.ops import Condition, Op, count, get, put, scan, under
from rota.infrastructure.store.etcd.space import KV, EtcdSpace
from rota.infrastructure.store.etcd.store import etcd_store
from rota.infrastructure.system import SystemClock
from rota.testing.contract.coordinator_backend import make_entries, make_worker
from rota.testing.contract.coordinator_backend import make_ids as make_task_ids
from rota.testing.contract.store_backend import HOUR, NOON, add, end, grant, make_tasks
from tests.support import etcd_fixtures
from tests.support.builders import a_config
from tests.support.counting_etcd import CountingClient
from tests.support.patience import PATIENT_ETCD
from tests.support.require import require_server
from tests.support.servers.binaries import find_binary
from tests.support.servers.etcd import QUICK, EtcdCluster, EtcdServer
from tests.support.servers.process import free_port, run_tool

prefix, client = etcd_fixtures.prefix, etcd_fixtures.client
store, counting = etcd_fixtures.store, etcd_fixtures.counting
OFFICE = StoredCalendar(calendar=Calendar(name="office"))
OUT_OF_OFFICE = TaskConfig(type="report", schedule=Schedule(cron="0 9 * * *", exclude=("office",)), next_fire_at=NOON)


async def test_a_batch_is_added_read_and_moved_in_one_transaction_each(counting: CountingClient, prefix: str) -> None:
    store = etcd_store(EtcdSpace(counting, SystemClock(), prefix=prefix))
    tasks = make_tasks(500)
    ids = [task.id for task in tasks]
    await store.tasks.add([NewTask(task) for task in tasks])
    assert counting.take() == (1, 3 * 500)
    assert [live.id for live in await store.tasks.find_live(ids)] == ids
    assert counting.take() == (1, 2), "ids that follow each other are one range"
    assert list(await store.tasks.load(ids)) == ids
    assert counting.take() == (1, 2), "one that lives and was not tried has no result, and no error"
    await grant(store, tasks)
    assert counting.take() == (1, 500)


async def test_a_batch_whose_ids_are_scattered_is_found_whole_and_in_order(store: Store) -> None:
    tasks = make_tasks(40)
    scattered = [*tasks[:5], *tasks[6:9], tasks[20], *tasks[30:][::-1]]
    await store.tasks.add([NewTask(task) for task in scattered])
    ids = [task.id for task in scattered]
    assert [live.id for live in await store.tasks.find_live(ids)] == ids
    assert list(await store.tasks.load(ids)) == ids
    assert await store.tasks.find_live([tasks[5].id, tasks[29].id]) == []


async def test_a_batch_of_which_one_is_known_is_added_whole_and_once(store: Store) -> None:
    tasks = make_tasks(100)
    await store.tasks.add([NewTask(tasks[50])])
    added = await store.tasks.add([NewTask(task) for task in tasks])
    assert [one.task_id for one in added] == [task.id for task in tasks]
    assert len(await store.tasks.find_live([task.id for task in tasks])) == 100


async def test_more_than_one_transaction_takes_is_refused_and_nothing_is_added(store: Store) -> None:
    with pytest.raises(InvalidError, match="send fewer at a time"):
        await store.tasks.add([NewTask(task) for task in make_tasks(9_000)])
    assert await store.tasks.list_live(after=None, limit=1) == []


async def test_as_many_tasks_as_the_guide_says_are_added_together_and_again(store: Store) -> None:
    tasks = make_tasks(5_000)
    for _ in range(2):
        await add(store, tasks)
    some = [tasks[0], tasks[-1]]
    assert await store.tasks.load([task.id for task in some]) == {task.id: task for task in some}
    assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 5_000}


async def test_what_etcd_never_takes_is_no_outage(store: Store) -> None:
    payload, slashes = f'{{"text":"{"x" * 250_000}"}}', "\\\\" * 120_000
    schedule = Schedule(every=HOUR, payload=payload)
    config = a_config("long", schedule=schedule, payload=payload, executor_config=f'{{"text":"{slashes}"}}')
    with pytest.raises(InvalidError, match="etcd takes 1572864 at once"):
        await store.configs.put(config)
    assert await store.configs.find(DEFAULT_TENANT, "long") is None


async def test_many_long_payloads_are_added_together(store: Store) -> None:
    long = make_tasks(20, payload='{"text": "' + "x" * 200_000 + '"}')
    await add(store, long)
    assert await store.tasks.load([task.id for task in long]) == {task.id: task for task in long}


async def test_a_submission_that_is_repeated_leaves_no_payload_behind(
    store: Store, client: EtcdClient, prefix: str
) -> None:
    first, again = make_tasks(2, payload='{"text": "' + "x" * 5_000 + '"}')
    for task in (first, again):
        assert [one.task_id for one in await store.tasks.add([NewTask(task, key="k", digest="d")])] == [first.id]
    kept = (await client.read([scan(under(f"/{prefix}/payloads/"))])).answers[0].range.kvs
    assert len(kept) == 1


async def test_a_purge_leaves_no_key_of_a_task_behind(store: Store, client: EtcdClient, prefix: str) -> None:
    tasks = make_tasks(3, payload='{"text": "' + "x" * 5_000 + '"}')
    await store.tasks.add([NewTask(task, key=f"k{task.id}", digest="d") for task in tasks])
    await end(store, await grant(store, tasks))
    assert await store.tasks.purge(completed_before=NOON + HOUR, limit=100) == 3
    left = (await client.read([count(under(f"/{prefix}/"))])).answers[0].range.count
    assert left == 1, "how many were purged"


async def test_what_a_newer_release_wrote_is_skipped_and_kept_as_it_is(
    store: Store, client: EtcdClient, prefix: str
) -> None:
    folder = f"/{prefix}/configs/default"
    schedule, due_at = Schedule(every=timedelta(seconds=1)), NOON
    for task_type in ("newer", "newest", "old"):
        await store.configs.put(a_config(task_type, schedule=schedule, next_fire_at=due_at))
    await rewrite(client, f"{folder}/newer", before=b'"jitter":', after=b'"moon_phase":1,"jitter":')
    await rewrite(client, f"{folder}/newest", before=b'"skip"', after=b'"mirror"')
    newer, newest, old = await store.schedules.list_due(10)
    assert isinstance(newer, UnreadableConfig)
    assert isinstance(newest, UnreadableConfig)
    assert (newer.type, newer.problem) == ("newer", "schedule.moon_phase: is not known")
    assert newest.type == "newest"
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
    for one, firing in zip((newer, newest), skipped, strict=True):
        assert firing.next_fire_at is not None
        assert await store.schedules.aim(replace(one, next_fire_at=firing.next_fire_at), NOON + HOUR)
    assert await store.schedules.find_next() == NOON, "that of the old one"
    unread = await store.schedules.list_unreadable(10)
    assert [(one.type, one.next_fire_at) for one in unread] == [("newer", NOON + HOUR), ("newest", NOON + HOUR)]
    await rewrite(client, f"{folder}/newest", before=b'"mirror"', after=b'"skip"')
    found = await store.configs.find(DEFAULT_TENANT, "newest")
    assert found is not None
    assert (found.schedule, found.next_fire_at, found.runs) == (schedule, NOON + HOUR, 0)


def keep_what_is_read(client: EtcdClient, monkeypatch: pytest.MonkeyPatch) -> list[KV]:
    read, read_before = list[KV](), client.read

    async def read_and_keep(ops: Sequence[Op]) -> Done:
        done = await read_before(ops)
        read.extend(kv for answer in done.answers for kv in answer.range.kvs)
        return done

    monkeypatch.setattr(client, "read", read_and_keep)
    return read


async def test_a_page_of_the_audit_log_reads_about_as_many_entries_as_it_has(
    store: Store, client: EtcdClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = [NOON + number * timedelta(minutes=1) for number in range(3_000)]
    entries = [
        AuditEntry(
            id=first_id_at(at),
            tenant_id=DEFAULT_TENANT,
            at=at,
            actor="ada",
            action="task.cancel",
            object=f"{at:%H:%M}",
        )
        for at in moments
    ]
    await store.audit.add(entries)
    read = keep_what_is_read(client, monkeypatch)
    assert list((await store.audit.search(AuditFilter(limit=5))).items) == entries[:-6:-1]
    assert len(read) < 30
    found = await store.audit.search(AuditFilter(object=entries[0].object, limit=2))
    assert [entry.id for entry in found.items] == [entries[2880].id, entries[1440].id], (
        "of what fits, all are looked at"
    )


async def test_of_what_became_of_very_many_targets_only_what_is_asked_for_is_read(
    store: Store, client: EtcdClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.configs.put(a_config("report", schedule=Schedule(every=timedelta(minutes=1)), next_fire_at=NOON))
    times = [NOON + number * timedelta(minutes=1) for number in range(3_000)]
    noted = tuple(Occurrence(task_type="report", fire_at=at, reason="paused") for at in times)
    firing = FullFiring(
        tenant_id=DEFAULT_TENANT, task_type="report", revision=1, seen_at=NOON, next_fire_at=None, occurrences=noted
    )
    await store.schedules.fire([firing])
    read = keep_what_is_read(client, monkeypatch)
    assert await store.schedules.list_occurrences(DEFAULT_TENANT, "report", limit=5) == list(noted[:-6:-1])
    key = (DEFAULT_TENANT, "report")
    assert await store.schedules.list_runs({key: times[-50]}, limit=5) == {key: []}
    assert await store.schedules.purge(fired_before=NOON, limit=100) == 0
    assert await store.schedules.purge(fired_before=times[2], limit=100) == 2
    assert len(read) < 200, "a few more than asked for: they are looked for by the time"


async def test_a_schedule_that_an_older_release_paused_is_found_once_more_and_then_no_more(
    store: Store, client: EtcdClient, prefix: str
) -> None:
    await store.configs.put(a_config("report", schedule=Schedule(every=HOUR), next_fire_at=NOON))
    await rewrite(client, f"/{prefix}/configs/default/report", before=b'"is_paused":false', after=b'"is_paused":true')
    [paused] = await store.schedules.list_due(10)
    assert isinstance(paused, TaskConfig)
    decision = decide(paused, NOON + HOUR, last=NEVER_RAN)
    [[noted]] = await store.schedules.fire([firing_of(paused, decision, task_ids=(), now=NOON)])
    assert noted.reason == "paused"
    assert (await store.schedules.list_due(10), await store.schedules.find_next()) == ([], None)


async def rewrite(client: EtcdClient, key: str, *, before: bytes, after: bytes) -> None:
    document = (await client.read([get(key)])).answers[0].range.kvs[0].value
    assert before in document
    await client.write([put(key, document.replace(before, after))])


@pytest.mark.parametrize("written", [b"no json", b'{"calendar": {"moons": 1}, "created_us": 0, "updated_us": 0}'])
async def test_a_calendar_that_cannot_be_read_is_no_calendar(
    store: Store, client: EtcdClient, prefix: str, written: bytes
) -> None:
    sound = await store.calendars.put(StoredCalendar(calendar=Calendar(name="sound")))
    await client.write([put(f"/{prefix}/calendars/default/office", written)])
    with pytest.raises(InvalidError, match="what is stored as 'office' cannot be read"):
        await store.calendars.find(DEFAULT_TENANT, "office")
    keys = [(DEFAULT_TENANT, "office"), (DEFAULT_TENANT, "sound")]
    assert await store.calendars.load(keys) == {(DEFAULT_TENANT, "sound"): sound.calendar}
    assert await store.calendars.list_page(DEFAULT_TENANT) == [sound]
    with pytest.raises(RevisionConflictError):
        await store.calendars.put(OFFICE, expected_revision=0)
    assert (await store.calendars.put(OFFICE, expected_revision=1)).revision == 2
    assert (await store.calendars.load(keys)).keys() == set(keys)


class OvertakenClient(EtcdClient):
    """Before its first write, somebody else is faster."""

    def __init__(self, server: EtcdServer, rival: Callable[[], Awaitable[object]]) -> None:
        super().__init__(server.url(), PATIENT_ETCD, unavailable=StoreUnavailableError)
        self._rivals = [rival]

    async def write(
        self,
        ops: Sequence[Op],
        *,
        when: Iterable[Condition] = (),
        otherwise: Sequence[Op] = (),
        may_repeat: bool = False,
    ) -> Done:
        while self._rivals:
            await self._rivals.pop()()
        return await super().write(ops, when=when, otherwise=otherwise, may_repeat=may_repeat)


class InterruptedClient(EtcdClient):
    """After its first read, something happens."""

    def __init__(self, server: EtcdServer, event: Callable[[], Awaitable[object]]) -> None:
        super().__init__(server.url(), PATIENT_ETCD, unavailable=StoreUnavailableError)
        self._events = [event]

    async def read(self, ops: Sequence[Op]) -> Done:
        done = await super().read(ops)
        while self._events:
            await self._events.pop()()
        return done


async def test_what_ends_between_two_looks_does_not_end_the_list_of_what_runs(
    store: Store, etcd_server: EtcdServer, prefix: str
) -> None:
    *ended, longer = await grant(store, await add(store, make_tasks(3)))
    client = InterruptedClient(etcd_server, lambda: end(store, ended))
    slower = etcd_store(EtcdSpace(client, SystemClock(), prefix=prefix))
    assert [live.id for live in await slower.tasks.list_running(after=None, limit=2)] == [longer.id]
    await client.close()


async def test_what_is_granted_between_two_looks_is_not_listed_as_due(
    store: Store, etcd_server: EtcdServer, prefix: str
) -> None:
    granted, waiting = await add(store, make_tasks(2))
    client = InterruptedClient(etcd_server, lambda: grant(store, [granted]))
    slower = etcd_store(EtcdSpace(client, SystemClock(), prefix=prefix))
    assert [live.id for live in await slower.tasks.list_due(10)] == [waiting.id]
    await client.close()


@asynccontextmanager
async def overtaken(server: EtcdServer, prefix: str, *, by: Callable[[], Awaitable[object]]) -> AsyncIterator[Store]:
    client = OvertakenClient(server, by)
    yield etcd_store(EtcdSpace(client, SystemClock(), prefix=prefix))
    await client.close()


async def test_a_calendar_that_a_schedule_comes_to_name_is_not_deleted(
    store: Store, etcd_server: EtcdServer, prefix: str
) -> None:
    await store.calendars.put(OFFICE)
    async with overtaken(etcd_server, prefix, by=lambda: store.configs.put(OUT_OF_OFFICE)) as slower:
        with pytest.raises(CalendarInUseError, match="report"):
            await slower.calendars.delete(DEFAULT_TENANT, "office")
    assert await store.calendars.find(DEFAULT_TENANT, "office") is not None


async def test_a_schedule_cannot_name_a_calendar_that_is_deleted_meanwhile(
    store: Store, etcd_server: EtcdServer, prefix: str
) -> None:
    await store.calendars.put(OFFICE)
    async with overtaken(etcd_server, prefix, by=lambda: store.calendars.delete(DEFAULT_TENANT, "office")) as slower:
        with pytest.raises(InvalidError, match="there is no calendar 'office'"):
            await slower.configs.put(OUT_OF_OFFICE)
    assert await store.configs.find(DEFAULT_TENANT, "report") is None


async def test_a_config_that_is_deleted_leaves_its_revision_alone(
    store: Store, client: EtcdClient, prefix: str
) -> None:
    await store.calendars.put(OFFICE)
    await store.configs.put(OUT_OF_OFFICE)
    await store.configs.delete(DEFAULT_TENANT, "report")
    await store.calendars.delete(DEFAULT_TENANT, "office")
    left = await client.read([scan(under(f"/{prefix}/"), keys_only=True)])
    kinds = [kv.key.decode().split("/")[2] for kv in left.answers[0].range.kvs]
    assert kinds == ["revision", "revisions"]


async def test_what_strangers_leave_among_the_keys_is_left_out(client: EtcdClient, prefix: str) -> None:
    node = etcd_coordinator(client, SystemClock(), prefix=prefix)
    (task_id,) = make_task_ids(1)
    await client.write(
        [
            put(f"/{prefix}/queues/ready/priority_0_0_x"),
            put(f"/{prefix}/nodes/worker/nobody", b"{}"),
            put(f"/{prefix}/nodes/worker/7", b"no json"),
            put(f"/{prefix}/nodes/worker/8", b'{"name": "x", "ttl": 1, "capacity": 0}'),
            put(f"/{prefix}/nodes/load/7", b"no json"),
            put(f"/{prefix}/nodes/load/8", b'{"load": -1}'),
            put(f"/{prefix}/nodes/held/8", b"[]"),
            put(f"/{prefix}/queues/worker_7/x", b"a1"),
            put(f"/{prefix}/locks/scheduler", b"no json"),
            put(f"/{prefix}/events/1_1", b"no json"),
        ]
    )
    await node.pool.register(make_worker(), timedelta(seconds=20))
    await node.queue.push(make_entries([task_id]))
    assert (await node.queue.take(10, order=LEVELS)).task_ids == (task_id,)
    assert await node.pool.list_alive() == [make_worker()]
    assert await node.pool.list_beats() == {}
    assert (await node.queue.depths()).assigned == {}
    assert await node.election.find_leader() is None


@pytest.mark.parametrize("name", ["", "/", "rota/"])
def test_a_prefix_that_is_none_is_refused(client: EtcdClient, name: str) -> None:
    with pytest.raises(ConfigError, match="prefix"):
        EtcdSpace(client, SystemClock(), prefix=name)
    with pytest.raises(ConfigError, match="prefix"):
        etcd_coordinator(client, SystemClock(), prefix=name)


async def test_the_doctor_looks_at_an_etcd(etcd_server: EtcdServer, prefix: str) -> None:
    url = etcd_server.url(prefix)
    found = (await examine(load(Sources(flags={"store.url": url, "coordinator.url": url})))).findings
    said = {finding.subject: finding for finding in found}
    assert all(finding.is_sound for finding in found), found
    assert {"nodes", "coordinator", "schedules", "etcd space", "etcd members", "etcd version"} <= set(said)


async def test_the_doctor_tells_of_one_etcd_once_whatever_the_prefixes(etcd_server: EtcdServer, prefix: str) -> None:
    flags = {"store.url": etcd_server.url(prefix), "coordinator.url": etcd_server.url("").rstrip("/")}
    found = (await examine(load(Sources(flags=flags)))).findings
    assert [finding.subject for finding in found].count("etcd version") == 1


@pytest.mark.slow  # the deadline of a call to members that are away has to pass
async def test_the_doctor_says_how_many_members_of_an_etcd_answer() -> None:
    require_server("etcd")
    with EtcdCluster() as etcd:
        loaded = load(Sources(flags={"store.url": etcd.url()}))
        said = {finding.subject: finding for finding in (await examine(loaded)).findings}
        assert (said["etcd members"].text, said["etcd members"].is_sound) == ("3 of 3 answer", True)
        etcd.servers[0].kill()
        said = {finding.subject: finding for finding in (await examine(loaded)).findings}
        assert said["etcd members"].text == "2 of 3 answer; one more and Rota stops"
        assert "nodes" in said, "what is stored can be read"
        assert said["etcd members"].fix == f"start etcd at 127.0.0.1:{etcd.servers[0].port}"
        etcd.servers[1].kill()
        wrong = [finding for finding in (await examine(loaded)).findings if not finding.is_sound]
        assert [finding.subject for finding in wrong] == ["etcd members", "coordinator"]
        assert wrong[0].text == "1 of 3 answer; without 1 more Rota stands still"
        assert wrong[1].fix.startswith("start etcd, or correct coordinator.url: etcdctl endpoint health")
        assert wrong[1].fix.endswith("; of these 3 it needs 2")


@pytest.mark.skipif(find_binary("etcdctl") is None, reason="etcdctl not found")
async def test_the_doctor_does_not_praise_an_etcd_that_wants_a_login() -> None:
    require_server("etcd")
    with EtcdServer() as server:
        tool = [str(find_binary("etcdctl")), f"--endpoints=127.0.0.1:{server.port}"]
        for words in (["user", "add", "root:secret"], ["auth", "enable"]):
            await asyncio.to_thread(run_tool, [*tool, *words], server.directory)
        found = (await examine(load(Sources(flags={"store.url": server.url()})))).findings
        wrong = {finding.subject: finding.text for finding in found if not finding.is_sound}
        assert "user name is empty" in wrong["schedules"]
        known = server.url().replace("//", "//root:secret@")
        found = (await examine(load(Sources(flags={"store.url": known})))).findings
        assert all(finding.is_sound for finding in found), found


@pytest.mark.skipif(find_binary("etcdctl") is None, reason="etcdctl not found")
async def test_a_full_etcd_is_a_finding_and_goes_on_after_what_the_guide_says() -> None:
    require_server("etcd")
    with EtcdServer(options=(*QUICK, f"--quota-backend-bytes={16 * 2**20}")) as server:
        client = EtcdClient(server.url(), PATIENT_ETCD, unavailable=StoreUnavailableError)
        store = etcd_store(EtcdSpace(client, SystemClock()))
        term, last = await store.terms.begin(NodeId("a")), 0
        with pytest.raises(StoreUnavailableError, match="space exceeded"):
            for number in range(400):
                done = await client.write([put(f"/rota/filling/{number % 10}", b"x" * 100_000)])
                last = done.revision
        with pytest.raises(StoreUnavailableError, match="space exceeded"):
            await store.terms.confirm(term)
        for batch in (1, 200, 2_000):  # the last one is gathered more tightly
            with pytest.raises(StoreUnavailableError, match="space exceeded"):
                await store.tasks.add([NewTask(task) for task in make_tasks(batch)])
        wrong = [one for one in (await examine(load(Sources(flags={"store.url": server.url()})))).findings if one.fix]
        assert "etcd space" in {one.subject for one in wrong}
        assert any(one.text.endswith("alarm:NOSPACE") and "--quota-backend-bytes" in one.fix for one in wrong)
        await client.compact(last)  # as some process of Rota does all the time
        tool = [str(find_binary("etcdctl")), f"--endpoints=127.0.0.1:{server.port}"]
        for words in (["defrag"], ["alarm", "disarm"]):
            await asyncio.to_thread(run_tool, [*tool, *words], server.directory)
        assert await store.terms.confirm(term)
        await client.close()


@pytest.mark.slow  # the deadline of a call has to pass
async def test_an_etcd_that_is_away_is_a_finding() -> None:
    url = f"etcd://127.0.0.1:{free_port()}"
    found = (await examine(load(Sources(flags={"store.url": url, "coordinator.url": "memory://"})))).findings
    wrong = {finding.subject: finding for finding in found if not finding.is_sound}
    assert list(wrong) == ["store etcd", "coordinator"]
    assert wrong["store etcd"].fix.startswith("start etcd, or correct store.url: etcdctl endpoint health")
    assert wrong["coordinator"].fix == f"coordinator.url: {url}"  # memory is for one process
