"""The contract of `ConfigStore`: every change is a revision, and nobody overwrites what they have not seen."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from rota.application.ports.store import Store
from rota.domain import checks
from rota.domain.calendar import Calendar, StoredCalendar
from rota.domain.checks import to_json
from rota.domain.cron.dialect import Dialect
from rota.domain.errors import RevisionConflictError
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.retry import RetryPolicy, RetryStrategy
from rota.domain.schedule import Overlap, Schedule
from rota.domain.task_config import KEPT_REVISIONS, TaskConfig
from rota.testing.contract.store_backend import (
    AWKWARD_TEXTS,
    HOUR,
    MICROSECOND,
    NOON,
    OTHER_TENANT,
    REPORT,
    StoreBackend,
    add_one,
    find,
)

STRANGE, STRANGE_ZONE = "strange", "Antarctica/Troll"


@pytest.mark.asyncio
class TestConfigs:
    async def test_a_config_comes_back_whole(self, backend: StoreBackend) -> None:
        store = await _connect_with_calendar(backend)
        config = TaskConfig(
            type="billing_invoice.send-v2",
            tenant_id=OTHER_TENANT,
            name="发票",
            description="Sends an invoice 🧾",
            executor_type="http",
            executor_config='{"url":"https://example.org/%s?a=\\"b\\""}',
            timeout=timedelta(milliseconds=101),
            retry=RetryPolicy(
                max_retries=0,
                strategy=RetryStrategy.FIXED,
                delay=timedelta(0),
                jitter=1.0,
                retry_on=("429", "5xx"),
                give_up_on=("bad_request",),
                total_timeout=timedelta(milliseconds=1),
            ),
            priority=9,
            max_concurrent=1_000_000,
            rate_per_second=0.1,
            payload='{"a":[1,null]}',
            schedule=Schedule(
                cron="0 */5 9-17 ? * 2-6",
                dialect=Dialect.QUARTZ,
                zone="Asia/Shanghai",
                start_at=NOON,
                jitter=timedelta(seconds=1.5),
                overlap=Overlap.QUEUE_ONE,
                exclude=("freeze",),
                pause_note="until Monday",
                payload='{"深":[1]}',
            ),
            next_fire_at=NOON + MICROSECOND,
            is_enabled=False,
            updated_by="Ada <script>",
        )
        stored = await store.configs.put(config)
        assert _unstamped(stored) == config
        assert await store.configs.find(OTHER_TENANT, config.type) == stored

    async def test_one_that_cannot_be_read_hides_no_other_and_can_be_replaced(
        self, backend: StoreBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = await _connect_with_calendar(backend)
        await _put_strange(store, monkeypatch)
        keys = [(OTHER_TENANT, task_type) for task_type in ("a", STRANGE, "z")]
        assert {keys[0], keys[2]} <= set(await store.configs.find_many(keys))
        pages = [await store.configs.list_page(OTHER_TENANT, after=after, limit=2) for after in ("", STRANGE)]
        assert {"a", "z"} <= {one.type for page in pages for one in page}
        users = await store.calendars.list_users(OTHER_TENANT, "freeze", limit=3)
        assert [one.type for one in users if one.type != STRANGE] == ["a", "z"]
        with pytest.raises(RevisionConflictError):
            await store.configs.put(TaskConfig(type=STRANGE, tenant_id=OTHER_TENANT), expected_revision=0)
        stored = await store.configs.put(TaskConfig(type=STRANGE, tenant_id=OTHER_TENANT), expected_revision=1)
        assert (stored.revision, await store.configs.find(OTHER_TENANT, STRANGE)) == (2, stored)
        assert (await store.configs.list_revisions(OTHER_TENANT, STRANGE))[0] == stored
        assert {one.type for one in await store.schedules.list_due(10)} == {"a", "z"}

    async def test_one_that_cannot_be_read_can_be_deleted(
        self, backend: StoreBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = await _connect_with_calendar(backend)
        await _put_strange(store, monkeypatch)
        for task_type in ("a", STRANGE, "z"):
            assert await store.configs.delete(OTHER_TENANT, task_type)
        assert await store.configs.find(OTHER_TENANT, STRANGE) is None
        assert await store.schedules.find_next() is None
        assert await store.calendars.delete(OTHER_TENANT, "freeze"), "nothing uses it any more"

    async def test_a_config_with_only_what_is_needed_comes_back_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        stored = await store.configs.put(_config())
        assert _unstamped(stored) == _config()
        assert await store.configs.find(DEFAULT_TENANT, REPORT) == stored

    async def test_awkward_text_comes_back_as_it_was(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        configs = [
            _config(
                f"type-{number}",
                name=text,
                description=text,
                executor_config=to_json("text", text),
                payload=to_json("text", text),
            )
            for number, text in enumerate(AWKWARD_TEXTS)
        ]
        for config in configs:
            await store.configs.put(config)
        found = await store.configs.list_page(DEFAULT_TENANT)
        assert [_unstamped(config) for config in found] == configs

    @pytest.mark.parametrize("rate", [None, 1e-9, 0.1 + 0.2, 3, 1e6])
    async def test_a_rate_comes_back_exactly(self, backend: StoreBackend, rate: float | None) -> None:
        store = await backend.connect()
        stored = await store.configs.put(_config(rate_per_second=rate))
        assert stored.rate_per_second == rate
        assert await store.configs.find(DEFAULT_TENANT, REPORT) == stored
        assert await store.configs.put(_config(rate_per_second=rate)) == stored

    async def test_an_unknown_config_is_not_found(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.configs.put(_config())
        assert await store.configs.find(DEFAULT_TENANT, "other") is None
        assert await store.configs.find(OTHER_TENANT, REPORT) is None

    async def test_many_are_found_in_one_call(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        own, foreign = await store.configs.put(_config()), await store.configs.put(_config(tenant_id=OTHER_TENANT))
        await store.configs.put(_config(type="unasked"))
        missing = [(DEFAULT_TENANT, f"missing-{number}") for number in range(1200)]
        found = await store.configs.find_many([*missing, (DEFAULT_TENANT, REPORT), (OTHER_TENANT, REPORT)])
        assert found == {(DEFAULT_TENANT, REPORT): own, (OTHER_TENANT, REPORT): foreign}
        assert await store.configs.find_many([]) == {}

    async def test_a_new_config_is_revision_1_stamped_by_the_stores_clock(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        before = await store.tasks.now()
        stored = await store.configs.put(_config())
        after = await store.tasks.now()
        assert stored.revision == 1
        assert stored.created_at == stored.updated_at
        assert stored.created_at is not None
        assert before <= stored.created_at <= after

    async def test_a_change_makes_the_next_revision(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first = await store.configs.put(_config())
        await backend.wait(backend.tick)
        second = await store.configs.put(_config(name="changed"))
        assert (second.revision, second.name, second.created_at) == (2, "changed", first.created_at)
        assert second.updated_at is not None
        assert first.updated_at is not None
        assert second.updated_at > first.updated_at
        assert await store.configs.find(DEFAULT_TENANT, REPORT) == second

    async def test_putting_the_same_again_makes_no_new_revision(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first = await store.configs.put(_config())
        assert await store.configs.put(_config()) == first
        assert await store.configs.put(first) == first
        assert await store.configs.put(_config(updated_by="somebody else")) == first
        assert await store.configs.list_revisions(DEFAULT_TENANT, REPORT) == [first]

    async def test_putting_an_older_content_again_makes_a_new_revision(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for name in ("one", "two"):
            await store.configs.put(_config(name=name))
        stored = await store.configs.put(_config(name="one"))
        assert (stored.revision, stored.name) == (3, "one")

    async def test_the_last_hundred_revisions_are_kept(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for number in range(KEPT_REVISIONS + 2):
            await store.configs.put(_config(name=f"name {number}"))
        kept = await store.configs.list_revisions(DEFAULT_TENANT, REPORT, limit=1000)
        assert [one.revision for one in kept] == list(range(KEPT_REVISIONS + 2, 2, -1))
        assert await store.configs.find_revision(DEFAULT_TENANT, REPORT, revision=2) is None
        assert (await store.configs.put(_config(name="next"))).revision == KEPT_REVISIONS + 3

    async def test_the_revisions_are_listed_newest_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        stored = [await store.configs.put(_config(name=f"name {number}")) for number in range(5)]
        assert await store.configs.list_revisions(DEFAULT_TENANT, REPORT) == stored[::-1]
        assert await store.configs.list_revisions(DEFAULT_TENANT, REPORT, limit=2) == stored[:2:-1]
        assert await store.configs.list_revisions(OTHER_TENANT, REPORT) == []
        assert await store.configs.find_revision(DEFAULT_TENANT, REPORT, revision=2) == stored[1]
        assert await store.configs.find_revision(DEFAULT_TENANT, REPORT, revision=99) is None
        assert await store.configs.find_revision(OTHER_TENANT, REPORT, revision=2) is None

    async def test_configs_are_listed_by_type_in_pages_of_a_tenant(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        types = ["B", "Z", "a", "a-b", "a.b", "a1", "a_b", "aB", "ab", "b"]
        for task_type in types[::-1]:
            await store.configs.put(_config(task_type))
        await store.configs.put(_config("ac", tenant_id=OTHER_TENANT))
        in_order = sorted(types)
        assert await _list_types(store.configs.list_page(DEFAULT_TENANT)) == in_order
        assert await _list_types(store.configs.list_page(DEFAULT_TENANT, limit=4)) == in_order[:4]
        assert await _list_types(store.configs.list_page(DEFAULT_TENANT, after=in_order[3], limit=4)) == in_order[4:8]
        assert await _list_types(store.configs.list_page(OTHER_TENANT)) == ["ac"]

    async def test_the_next_fire_time_is_kept_while_the_schedule_is_the_same(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        hourly = Schedule(cron="0 * * * *")
        await store.configs.put(_config(schedule=hourly, next_fire_at=NOON))
        changed = _config(schedule=hourly, next_fire_at=NOON - HOUR, name="changed", is_enabled=False)
        stored = await store.configs.put(changed)
        assert (stored.revision, stored.name, stored.next_fire_at) == (2, "changed", NOON)
        assert await store.configs.find(DEFAULT_TENANT, REPORT) == stored

    @pytest.mark.parametrize("changed", [Schedule(cron="5 * * * *"), Schedule(cron="0 * * * *", zone="Asia/Shanghai")])
    async def test_another_schedule_brings_its_next_fire_time(self, backend: StoreBackend, changed: Schedule) -> None:
        store = await backend.connect()
        await store.configs.put(_config(schedule=Schedule(cron="0 * * * *"), next_fire_at=NOON))
        stored = await store.configs.put(_config(schedule=changed, next_fire_at=NOON - HOUR))
        assert (stored.schedule, stored.next_fire_at) == (changed, NOON - HOUR)
        ended = await store.configs.put(_config())
        assert (ended.schedule, ended.next_fire_at) == (None, None)

    async def test_a_next_fire_time_where_there_was_none_is_taken(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        hourly = Schedule(cron="0 * * * *")
        await store.configs.put(_config(schedule=hourly))
        stored = await store.configs.put(_config(schedule=hourly, next_fire_at=NOON, name="changed"))
        assert stored.next_fire_at == NOON

    async def test_another_next_fire_time_alone_makes_no_new_revision(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        hourly = Schedule(cron="0 * * * *")
        first = await store.configs.put(_config(schedule=hourly, next_fire_at=NOON))
        assert await store.configs.put(_config(schedule=hourly, next_fire_at=NOON + HOUR)) == first


@pytest.mark.asyncio
class TestExpectedRevision:
    async def test_a_change_of_the_expected_revision_is_written(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.configs.put(_config(), expected_revision=0)
        assert (await store.configs.put(_config(name="two"), expected_revision=1)).revision == 2

    @pytest.mark.parametrize("expected", [0, 1, 3])
    async def test_a_change_of_another_revision_is_refused(self, backend: StoreBackend, expected: int) -> None:
        store = await backend.connect()
        await store.configs.put(_config(name="one"))
        current = await store.configs.put(_config(name="two"))
        with pytest.raises(RevisionConflictError) as refused:
            await store.configs.put(_config(name="three"), expected_revision=expected)
        assert (refused.value.expected, refused.value.current) == (expected, 2)
        assert await store.configs.list_revisions(DEFAULT_TENANT, REPORT, limit=1) == [current]

    async def test_a_change_of_what_does_not_exist_is_refused(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        with pytest.raises(RevisionConflictError) as refused:
            await store.configs.put(_config(), expected_revision=1)
        assert refused.value.current == 0
        assert await store.configs.find(DEFAULT_TENANT, REPORT) is None

    async def test_the_same_call_may_be_repeated(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for expected, name in enumerate(["one", "two"]):
            calls = [await store.configs.put(_config(name=name), expected_revision=expected) for _ in range(2)]
            assert calls[0] == calls[1]
        assert len(await store.configs.list_revisions(DEFAULT_TENANT, REPORT)) == 2

    async def test_a_creation_after_a_deletion_may_be_repeated(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.configs.put(_config(name="one"))
        await store.configs.put(_config(name="two"))
        await store.configs.delete(DEFAULT_TENANT, REPORT)
        calls = [await store.configs.put(_config(name="three"), expected_revision=0) for _ in range(2)]
        assert calls[0] == calls[1]

    async def test_of_two_nodes_that_change_the_same_revision_one_wins(self, backend: StoreBackend) -> None:
        nodes = [await backend.connect(), await backend.connect()]
        await nodes[0].configs.put(_config())
        calls = [
            node.configs.put(_config(name=f"of node {number}"), expected_revision=1)
            for number, node in enumerate(nodes)
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, RevisionConflictError)]
        written = [answer for answer in answers if isinstance(answer, TaskConfig)]
        assert (len(written), len(refused)) == (1, 1)
        assert await nodes[0].configs.find(DEFAULT_TENANT, REPORT) == written[0]

    async def test_of_two_nodes_that_create_one_wins(self, backend: StoreBackend) -> None:
        nodes = [await backend.connect(), await backend.connect()]
        calls = [
            node.configs.put(_config(name=f"of node {number}"), expected_revision=0)
            for number, node in enumerate(nodes)
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sorted(type(answer).__name__ for answer in answers) == ["RevisionConflictError", "TaskConfig"]

    async def test_two_nodes_that_do_not_care_make_two_revisions(self, backend: StoreBackend) -> None:
        nodes = [await backend.connect(), await backend.connect()]
        calls = [node.configs.put(_config(name=f"name {number}")) for number in range(5) for node in nodes[::-1]]
        await asyncio.gather(*calls)
        revisions = await nodes[0].configs.list_revisions(DEFAULT_TENANT, REPORT)
        assert [config.revision for config in revisions] == list(range(len(revisions), 0, -1))
        assert revisions[0] == await nodes[0].configs.find(DEFAULT_TENANT, REPORT)
        assert {config.name for config in revisions} == {f"name {number}" for number in range(5)}


@pytest.mark.asyncio
class TestDeleteConfig:
    async def test_a_deleted_config_is_gone_and_its_revisions_stay(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        stored = [await store.configs.put(_config(name=name)) for name in ("one", "two")]
        assert await store.configs.delete(DEFAULT_TENANT, REPORT)
        assert await store.configs.find(DEFAULT_TENANT, REPORT) is None
        assert await store.configs.list_page(DEFAULT_TENANT) == []
        assert await store.configs.list_revisions(DEFAULT_TENANT, REPORT) == stored[::-1]

    async def test_its_tasks_stay(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.configs.put(_config())
        task = await add_one(store)
        await store.configs.delete(DEFAULT_TENANT, REPORT)
        assert await find(store, task) == task

    async def test_deleting_what_is_not_there_says_so(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.configs.put(_config())
        assert not await store.configs.delete(OTHER_TENANT, REPORT)
        assert not await store.configs.delete(DEFAULT_TENANT, "other")
        assert await store.configs.delete(DEFAULT_TENANT, REPORT)
        assert not await store.configs.delete(DEFAULT_TENANT, REPORT)

    async def test_a_config_made_again_continues_the_revisions(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for name in ("one", "two"):
            await store.configs.put(_config(name=name))
        await store.configs.delete(DEFAULT_TENANT, REPORT)
        again = await store.configs.put(_config(name="three"), expected_revision=0)
        assert again.revision == 3
        assert [config.revision for config in await store.configs.list_revisions(DEFAULT_TENANT, REPORT)] == [3, 2, 1]


async def _put_strange(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three configs, one of them in a zone that this machine does not know any more, where the store keeps text."""

    def find_zone(name: str) -> ZoneInfo:
        if name == STRANGE_ZONE:
            raise ZoneInfoNotFoundError(name)
        return ZoneInfo(name)

    for task_type, zone in (("a", "UTC"), (STRANGE, STRANGE_ZONE), ("z", "UTC")):
        schedule = Schedule(cron="0 9 * * *", zone=zone, exclude=("freeze",))
        await store.configs.put(
            TaskConfig(type=task_type, tenant_id=OTHER_TENANT, schedule=schedule, next_fire_at=NOON)
        )
    monkeypatch.setattr(checks, "ZoneInfo", find_zone)


async def _connect_with_calendar(backend: StoreBackend) -> Store:
    store = await backend.connect()
    await store.calendars.put(StoredCalendar(calendar=Calendar(name="freeze"), tenant_id=OTHER_TENANT))
    return store


def _config(task_type: str = REPORT, **changes: Any) -> TaskConfig:
    return replace(TaskConfig(type=task_type), **changes)


def _unstamped(config: TaskConfig) -> TaskConfig:
    """Without what the store adds."""
    return replace(config, revision=0, created_at=None, updated_at=None)


async def _list_types(page: Any) -> list[str]:
    return [config.type for config in await page]
