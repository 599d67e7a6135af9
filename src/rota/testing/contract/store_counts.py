"""The contract of counting tasks and of purging old ones."""

import pytest

from rota.application.ports.store import Added, Written
from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.log import LogEntry, place
from rota.domain.paging import MAX_PURGE
from rota.domain.submission import NewTask
from rota.domain.task import CANCELLED, FAILED, PENDING, PROCESSING, RETRYING, SUCCESS, LogKind
from rota.testing.contract.store_backend import (
    HOUR,
    HUGE,
    MICROSECOND,
    MINUTE,
    NOON,
    OTHER_TENANT,
    StoreBackend,
    add,
    add_one,
    cancel_step,
    end,
    find,
    grant,
    grant_one,
    ids_of,
    make_error,
    make_tasks,
    retry_step,
    success_step,
    write,
)


@pytest.mark.asyncio
class TestCounts:
    async def test_an_empty_tenant_counts_nothing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await add_one(store, tenant_id=OTHER_TENANT)
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {}

    async def test_counts_follow_every_step(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(10))
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 10}
        running = await grant(store, tasks[:7])
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 3, PROCESSING: 7}
        await write(store, running[:2], steps=[retry_step(task) for task in running[:2]])
        await end(store, running[2:5])
        await write(store, [running[5]], steps=[running[5].state.failed(make_error(), at=NOON)])
        await write(store, [tasks[9]], steps=[cancel_step(tasks[9])])
        counts = await store.tasks.count_by_status(DEFAULT_TENANT)
        assert counts == {PENDING: 2, PROCESSING: 1, RETRYING: 2, SUCCESS: 3, FAILED: 1, CANCELLED: 1}

    async def test_those_that_have_ended_are_counted_for_ever(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert await store.tasks.count_ended(DEFAULT_TENANT) == {}
        tasks = await add(store, make_tasks(5))
        foreign = await add(store, make_tasks(1, at=NOON + HOUR, tenant_id=OTHER_TENANT))
        await end(store, await grant(store, [*tasks[:2], *foreign]))
        await write(store, [tasks[2]], steps=[cancel_step(tasks[2])])
        assert await store.tasks.count_ended(DEFAULT_TENANT) == {SUCCESS: 2, CANCELLED: 1}
        assert await store.tasks.purge(completed_before=NOON + HOUR * 2, limit=10) == 4
        assert await store.tasks.count_ended(DEFAULT_TENANT) == {SUCCESS: 2, CANCELLED: 1}
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 2}

    async def test_tenants_are_counted_apart(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        own = await add(store, make_tasks(3))
        foreign = await add(store, make_tasks(4, at=NOON + HOUR, tenant_id=OTHER_TENANT))
        await end(store, await grant(store, [*own[:1], *foreign[:2]]))
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 2, SUCCESS: 1}
        assert await store.tasks.count_by_status(OTHER_TENANT) == {PENDING: 2, SUCCESS: 2}
        assert await store.tasks.count_by_status(None) == {PENDING: 4, SUCCESS: 3}

    async def test_a_repeated_end_is_counted_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        running = await grant_one(store)
        for _ in range(3):
            await store.tasks.advance([success_step(running)])
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {SUCCESS: 1}


@pytest.mark.asyncio
class TestPurge:
    async def test_an_ended_task_goes_with_its_result_and_logs(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        running = await grant_one(store)
        line = LogEntry(task_id=running.id, seq=place(2, 1), kind=LogKind.INFO, at=NOON, message="working")
        await store.logs.append([line])
        [ended] = await write(store, [running], steps=[success_step(running, data='"done"')])
        assert await store.tasks.purge(completed_before=NOON + HOUR, limit=10) == 1
        assert await find(store, ended) is None
        assert await store.tasks.load([ended.id]) == {}
        assert await store.logs.read(ended.id) == []
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {}

    async def test_a_live_task_stays_however_old(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        waiting, running, retrying = await add(store, make_tasks(3))
        [running, retrying] = await grant(store, [running, retrying])
        [retrying] = await write(store, [retrying], steps=[retry_step(retrying)])
        assert await store.tasks.purge(completed_before=NOON + 1000 * HOUR, limit=10) == 0
        expected = {task.id: task for task in (waiting, running, retrying)}
        assert await store.tasks.load(list(expected)) == expected
        assert len(await store.logs.read(retrying.id)) == 3

    async def test_only_tasks_that_ended_before_the_moment_go(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        running = await grant(store, await add(store, make_tasks(3)))
        limit = NOON + HOUR
        moments = [limit - MICROSECOND, limit, limit + MICROSECOND]
        await write(
            store, running, steps=[success_step(task, at=at) for task, at in zip(running, moments, strict=True)]
        )
        assert await store.tasks.purge(completed_before=limit, limit=10) == 1
        assert (await store.tasks.load(ids_of(running))).keys() == set(ids_of(running[1:]))
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {SUCCESS: 2}

    async def test_the_oldest_ids_go_first_up_to_the_limit(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        running = await grant(store, await add(store, make_tasks(10)))
        await end(store, running[5:])
        await end(store, running[:5], at=NOON + 2 * MINUTE)
        assert await store.tasks.purge(completed_before=NOON + HOUR, limit=4) == 4
        assert (await store.tasks.load(ids_of(running))).keys() == set(ids_of(running[4:]))
        assert await store.tasks.purge(completed_before=NOON + HOUR, limit=100) == 6
        assert await store.tasks.purge(completed_before=NOON + HOUR, limit=100) == 0

    async def test_every_tenant_and_every_end_is_purged_and_uncounted(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = [*make_tasks(3), *make_tasks(2, at=NOON + MINUTE, tenant_id=OTHER_TENANT)]
        running = await grant(store, await add(store, tasks))
        steps = [cancel_step(running[0]), *(success_step(task) for task in running[1:4])]
        await write(store, running[:4], steps=steps)
        assert await store.tasks.purge(completed_before=NOON + HOUR, limit=100) == 4
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {}
        assert await store.tasks.count_by_status(OTHER_TENANT) == {PROCESSING: 1}

    async def test_a_key_may_be_used_again_after_its_task_is_gone(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second, kept = make_tasks(3)
        await store.tasks.add([NewTask(first, "key", "one"), NewTask(kept, "kept", "one")])
        await end(store, await grant(store, [first]))
        await store.tasks.purge(completed_before=NOON + HOUR, limit=10)
        answers = await store.tasks.add([NewTask(second, "key", "two"), NewTask(second, "kept", "one")])
        assert answers == [Added(second.id), Added(kept.id, is_repeat=True)]

    async def test_a_step_of_a_purged_task_is_stale(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        running = await grant_one(store)
        await end(store, [running])
        await store.tasks.purge(completed_before=NOON + HOUR, limit=10)
        late = cancel_step(running)
        assert await store.tasks.advance([late]) == Written(stale=frozenset({running.id}))
        assert await store.logs.read(running.id) == []

    async def test_an_empty_store_has_nothing_to_purge(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert await store.tasks.purge(completed_before=NOON + HOUR, limit=10) == 0

    async def test_a_purge_without_bounds_goes_in_pieces_and_leaves_nothing_behind(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(MAX_PURGE + 1))
        await end(store, await grant(store, tasks))
        answers = [await store.tasks.purge(completed_before=NOON + HOUR, limit=HUGE) for _ in range(3)]
        assert answers == [MAX_PURGE, 1, 0]
        assert await store.tasks.load(ids_of(tasks)) == {}

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_purge_of_less_than_one_is_refused(self, backend: StoreBackend, limit: int) -> None:
        store = await backend.connect()
        with pytest.raises(InvalidError, match="limit"):
            await store.tasks.purge(completed_before=NOON, limit=limit)
        with pytest.raises(InvalidError, match="limit"):
            await store.workers.purge(retired_before=NOON, limit=limit)
        with pytest.raises(InvalidError, match="limit"):
            await store.schedules.purge(fired_before=NOON, limit=limit)
