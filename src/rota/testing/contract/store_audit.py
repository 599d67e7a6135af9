"""The contract of a store: the record of who changed what is there together with the change, or not at all."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from rota.application.ports.store import Store
from rota.domain.access import AccessToken, Role, digest_of
from rota.domain.audit import AuditEntry, AuditFilter
from rota.domain.errors import ConflictError, IdempotencyMismatchError, InvalidError, RevisionConflictError
from rota.domain.ids import CLUSTER, DEFAULT_TENANT, TenantId
from rota.domain.submission import NewTask
from rota.domain.task import Task
from rota.domain.task_config import TaskConfig
from rota.testing.contract.store_backend import (
    AWKWARD_TEXTS,
    HOUR,
    HUGE,
    MICROSECOND,
    NOON,
    OTHER_TENANT,
    REPORT,
    StoreBackend,
    add,
    add_one,
    cancel_step,
    grant,
    make_ids,
    make_tasks,
    success_step,
)
from rota.testing.values import replace

DAY = timedelta(days=1)


@pytest.mark.asyncio
class TestAudit:
    async def test_an_entry_comes_back_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        texts: dict[str, Any] = {"address": "2001:db8::1", "detail": "three of them", "token_id": "17"}
        entry = _entry(tenant_id=OTHER_TENANT, at=NOON + MICROSECOND, **texts)
        await _keep(store, [entry])
        assert await _read(store, OTHER_TENANT) == [entry]

    async def test_awkward_text_comes_back_as_it_was(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        entries = [
            _entry(number, actor=text, action="a.b", object=text, address=text, detail=text)
            for number, text in enumerate(AWKWARD_TEXTS)
        ]
        await _keep(store, entries)
        assert await _read(store) == entries[::-1]

    async def test_the_longest_texts_are_kept_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        longest = {"actor": 200, "action": 63, "object": 200, "address": 255, "detail": 2000, "token_id": 63}
        texts: dict[str, Any] = {name: "\U0010ffff" * length for name, length in longest.items()}
        entry = _entry(**texts)
        await _keep(store, [entry])
        assert await _read(store) == [entry]

    async def test_a_list_pages_by_id_newest_first_within_a_tenant(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        entries = [_entry(number) for number in range(7)]
        await _keep(store, [entries[3], *entries[:3], *entries[4:]])
        await _keep(store, [_entry(8, tenant_id=OTHER_TENANT)])
        assert await store.audit.list_page(DEFAULT_TENANT, limit=3) == entries[:3:-1]
        assert await store.audit.list_page(DEFAULT_TENANT, before=entries[4].id, limit=3) == entries[3:0:-1]
        assert await store.audit.list_page(DEFAULT_TENANT, before=entries[0].id) == []
        assert await _read(store, OTHER_TENANT) == [_entry(8, tenant_id=OTHER_TENANT)]

    async def test_what_tells_of_no_change_is_kept_by_itself(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for _ in range(2):
            await store.audit.add([_entry(1), _entry(2)])
        await store.audit.add([_entry(2, detail="again"), _entry(3)])
        await store.audit.add([])
        assert await _read(store) == [_entry(3), _entry(2), _entry(1)]

    async def test_what_the_cluster_did_is_apart_and_goes_when_it_is_old(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        theirs = [_entry(number, tenant_id=CLUSTER, at=NOON + number * DAY) for number in range(3)]
        ours = _entry(5, at=NOON + DAY)
        await store.audit.add([*theirs, ours])
        assert await _read(store) == [ours]
        assert await _read(store, CLUSTER) == theirs[::-1]
        assert await store.audit.purge(before=NOON + 2 * DAY, limit=HUGE) == 3
        assert (await _read(store), await _read(store, CLUSTER)) == ([], theirs[2:])

    async def test_entries_are_found_by_what_they_say(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        ada, bob = _entry(1, object="7"), _entry(2, actor="bob", object="70")
        gone, other = _entry(3, actor="bob", action="thing.delete", object="7"), _entry(4, tenant_id=OTHER_TENANT)
        await store.audit.add([ada, bob, gone, other])
        for wanted, fitting in (
            (AuditFilter(), [gone, bob, ada]),
            (AuditFilter(actor="bob"), [gone, bob]),
            (AuditFilter(action="thing.change"), [bob, ada]),
            (AuditFilter(object="7"), [gone, ada]),
            (AuditFilter(actor="bob", action="thing.change", object="70"), [bob]),
            (AuditFilter(actor="Bob"), []),
            (AuditFilter(tenant_id=OTHER_TENANT, actor="ada"), [other]),
        ):
            assert await _search(store, wanted) == fitting, wanted

    async def test_awkward_text_is_found_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        entries = [_entry(number, actor=text, object=text) for number, text in enumerate(AWKWARD_TEXTS)]
        await store.audit.add(entries)
        for entry in entries:
            assert await _search(store, AuditFilter(actor=entry.actor, object=entry.object)) == [entry]

    async def test_text_is_found_with_the_spaces_around_it_and_no_others(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        texts = ("ci", "ci ", "ci  ", " ci", "ci\u00a0", "CI")
        entries = [_entry(number, actor=text, object=text) for number, text in enumerate(texts)]
        await store.audit.add(entries)
        for entry in entries:
            assert await _search(store, AuditFilter(actor=entry.actor)) == [entry]
            assert await _search(store, AuditFilter(object=entry.object)) == [entry]

    async def test_entries_are_found_by_when_they_were_made(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        entries = [_entry(number, at=NOON + number * HOUR) for number in range(5)]
        await store.audit.add(entries)
        assert await _search(store, AuditFilter(after=NOON + 3 * HOUR)) == [entries[4], entries[3]]
        assert await _search(store, AuditFilter(before=NOON + HOUR)) == entries[:1]
        middle = AuditFilter(after=NOON + HOUR, before=NOON + 3 * HOUR)
        assert await _search(store, middle) == [entries[2], entries[1]]
        assert await _search(store, replace(middle, actor="nobody")) == []
        assert await _search(store, AuditFilter(after=NOON + HOUR, before=NOON)) == []

    async def test_what_is_found_pages_by_id(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        entries = [_entry(number, actor=("ada", "bob")[number % 2]) for number in range(10)]
        await store.audit.add(entries)
        first = await store.audit.search(AuditFilter(actor="bob", limit=2))
        assert list(first.items) == [entries[9], entries[7]]
        second = await store.audit.search(AuditFilter(actor="bob", limit=2, below=first.next_below))
        assert list(second.items) == [entries[5], entries[3]]
        assert await _search(store, AuditFilter(actor="bob", limit=2)) == entries[::-2]
        assert await _search(store, AuditFilter(limit=3)) == entries[::-1]

    async def test_an_entry_is_kept_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _keep(store, [_entry()])
        await _keep(store, [_entry(), _entry(detail="again")], beside="another")
        assert await _read(store) == [_entry()]

    async def test_what_is_older_is_purged_oldest_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        entries = [_entry(number, at=NOON + number * DAY) for number in range(6)]
        await _keep(store, entries)
        assert await store.audit.purge(before=NOON + 3 * DAY, limit=2) == 2
        assert await _read(store) == entries[:1:-1]
        assert await store.audit.purge(before=NOON + 3 * DAY, limit=HUGE) == 1
        assert await store.audit.purge(before=NOON + 3 * DAY, limit=1) == 0
        assert await _read(store) == entries[:2:-1]

    async def test_a_purge_with_a_limit_below_1_is_refused(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        with pytest.raises(InvalidError):
            await store.audit.purge(before=NOON, limit=0)


@pytest.mark.asyncio
class TestAuditOfTasks:
    async def test_added_tasks_and_their_entries_are_there_together(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = make_tasks(3)
        await store.tasks.add([NewTask(task, audit=(_about(task),)) for task in tasks])
        assert await _read(store) == [_about(task) for task in tasks[::-1]]

    async def test_tasks_without_an_actor_leave_no_entry(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await grant(store, await add(store, make_tasks(2)))
        assert await _read(store) == []

    async def test_an_entry_that_tasks_share_is_kept_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.tasks.add([NewTask(task, audit=(_entry(),)) for task in make_tasks(3)])
        assert await _read(store) == [_entry()]

    async def test_an_add_that_is_repeated_keeps_its_entries_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [task] = make_tasks(1)
        for number in range(2):
            await store.tasks.add([NewTask(task, audit=(_about(task, number),))])
        assert await _read(store) == [_about(task)]

    async def test_a_repeated_key_leaves_no_entry(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second, third = make_tasks(3)
        await store.tasks.add([NewTask(first, "key", "digest", (_about(first),))])
        repeat = NewTask(second, "key", "digest", (_about(second),))
        answers = await store.tasks.add([repeat, NewTask(third, audit=(_about(third),))])
        assert [answer.is_repeat for answer in answers] == [True, False]
        assert await _read(store) == [_about(third), _about(first)]

    async def test_a_shared_entry_is_kept_when_any_of_its_tasks_is_new(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second, third = make_tasks(3)
        await store.tasks.add([NewTask(first, "key")])
        await store.tasks.add([NewTask(second, "key", audit=(_entry(),)), NewTask(third, audit=(_entry(),))])
        assert await _read(store) == [_entry()]

    async def test_a_refused_batch_leaves_no_entry(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second, third = make_tasks(3)
        await store.tasks.add([NewTask(first, "key", "one")])
        with pytest.raises(IdempotencyMismatchError):
            await store.tasks.add(
                [NewTask(second, audit=(_about(second),)), NewTask(third, "key", "two", (_about(third),))]
            )
        assert await _read(store) == []

    async def test_a_step_and_its_entry_are_there_together(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store)
        written = await store.tasks.advance([cancel_step(task)], audit=[_about(task)])
        assert written.applied == {task.id}
        assert await _read(store) == [_about(task)]

    async def test_of_a_batch_of_cancellations_those_that_applied_are_recorded(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(4))
        steps = [cancel_step(task) for task in tasks]
        [running] = await grant(store, tasks[1:2])
        await store.tasks.advance([success_step(running)])
        written = await store.tasks.advance(steps, audit=[_about(task) for task in tasks])
        assert written.stale == {tasks[1].id}
        assert await _read(store) == [_about(task) for task in (tasks[3], tasks[2], tasks[0])]

    async def test_a_repeated_step_is_recorded_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store)
        for number in range(2):
            await store.tasks.advance([cancel_step(task)], audit=[_about(task, number)])
        assert await _read(store) == [_about(task)]

    async def test_of_two_nodes_that_cancel_the_one_that_did_is_recorded(self, backend: StoreBackend) -> None:
        nodes = [await backend.connect(), await backend.connect()]
        tasks = await add(nodes[0], make_tasks(20))
        calls = [
            node.tasks.advance(
                [cancel_step(task, at=NOON + number * HOUR) for task in tasks],
                audit=[_about(task, number, actor=f"node {number}") for task in tasks],
            )
            for number, node in enumerate(nodes)
        ]
        answers = await asyncio.gather(*calls)
        recorded = {(entry.actor, entry.object) for entry in await _read(nodes[0])}
        assert recorded == {(f"node {n}", str(one)) for n, answer in enumerate(answers) for one in answer.applied}

    async def test_an_entry_about_no_task_of_the_batch_is_refused(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        one, other = await add(store, make_tasks(2))
        for steps in ([cancel_step(one)], []):
            with pytest.raises(InvalidError, match="about no task of this batch"):
                await store.tasks.advance(steps, audit=[_about(other)])
        assert await store.tasks.find(one.id, DEFAULT_TENANT) == one
        assert await _read(store) == []


@pytest.mark.asyncio
class TestAuditOfConfigs:
    async def test_a_change_and_its_entry_are_there_together(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.configs.put(TaskConfig(type=REPORT), audit=[_entry(1)])
        await store.configs.put(TaskConfig(type=REPORT, name="changed"), expected_revision=1, audit=[_entry(2)])
        assert await _read(store) == [_entry(2), _entry(1)]

    async def test_putting_the_same_again_leaves_no_entry(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for number in range(2):
            await store.configs.put(TaskConfig(type=REPORT), audit=[_entry(number)])
        assert await _read(store) == [_entry(0)]

    async def test_a_lost_race_leaves_no_entry(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.configs.put(TaskConfig(type=REPORT))
        with pytest.raises(RevisionConflictError):
            await store.configs.put(TaskConfig(type=REPORT, name="late"), expected_revision=0, audit=[_entry()])
        assert await _read(store) == []

    async def test_of_two_nodes_that_create_the_winner_is_recorded(self, backend: StoreBackend) -> None:
        nodes = [await backend.connect(), await backend.connect()]
        calls = [
            node.configs.put(
                TaskConfig(type=REPORT, name=f"of {number}"),
                expected_revision=0,
                audit=[_entry(number, actor=f"of {number}")],
            )
            for number, node in enumerate(nodes)
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        [winner] = [answer for answer in answers if isinstance(answer, TaskConfig)]
        assert [entry.actor for entry in await _read(nodes[0])] == [winner.name]

    async def test_a_deletion_is_recorded_and_that_of_nothing_is_not(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.configs.put(TaskConfig(type=REPORT))
        for number in range(2):
            await store.configs.delete(DEFAULT_TENANT, REPORT, audit=[_entry(number)])
        assert await _read(store) == [_entry(0)]


@pytest.mark.asyncio
class TestAuditOfTokens:
    async def test_a_token_and_its_entry_are_there_together(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for number in range(2):
            await store.tokens.add(_token(), audit=[_entry(number)])
        assert await _read(store) == [_entry(0)]

    async def test_a_refused_token_leaves_no_entry(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.tokens.add(_token())
        with pytest.raises(ConflictError):
            await store.tokens.add(replace(_token(), digest=digest_of("another")), audit=[_entry()])
        assert await _read(store) == []

    async def test_a_revocation_is_recorded_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.tokens.add(_token())
        for number in range(3):
            at = NOON + number // 2 * HOUR
            await store.tokens.revoke(DEFAULT_TENANT, "1", at=at, audit=[_entry(number)])
        assert await _read(store) == [_entry(0)]

    async def test_a_revocation_that_found_nothing_leaves_no_entry(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await store.tokens.add(_token())
        await store.tokens.revoke(OTHER_TENANT, "1", at=NOON, audit=[_entry()])
        assert await _read(store, OTHER_TENANT) == await _read(store) == []


def _entry(number: int = 0, **changes: Any) -> AuditEntry:
    """An entry; those of later numbers, and of later moments, have greater ids."""
    at = changes.get("at", NOON)
    entry = AuditEntry(
        id=make_ids(number + 1, at=at, slot=9)[-1],
        tenant_id=DEFAULT_TENANT,
        at=at,
        actor="ada",
        action="thing.change",
        object="1",
    )
    return replace(entry, **changes)


def _about(task: Task, number: int = 0, **changes: Any) -> AuditEntry:
    """An entry whose id follows the task's, one for each number."""
    entry = _entry(action="task.cancel", object=str(task.id), **changes)
    return replace(entry, id=task.id + (number << 40))


def _token(key: str = "1") -> AccessToken:
    return AccessToken(
        id=key,
        tenant_id=DEFAULT_TENANT,
        name="deploy",
        role=Role.VIEWER,
        digest=digest_of(key),
        created_at=NOON,
    )


async def _keep(store: Store, entries: Sequence[AuditEntry], *, beside: str = "token") -> None:
    """Keep entries the only way there is: beside a change."""
    await store.tokens.add(_token(f"{beside}-{entries[0].id}-{entries[0].tenant_id}"), audit=entries)


async def _search(store: Store, wanted: AuditFilter) -> list[AuditEntry]:
    """All entries that fit, page by page."""
    found: list[AuditEntry] = []
    while True:
        page = await store.audit.search(wanted)
        found += page.items
        if page.next_below is None:
            return found
        wanted = replace(wanted, below=page.next_below)


async def _read(store: Store, tenant_id: TenantId = DEFAULT_TENANT) -> list[AuditEntry]:
    return await store.audit.list_page(tenant_id)
