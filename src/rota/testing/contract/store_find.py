"""The contract of finding tasks: by id, by what is live, due, overdue, held or running."""

from datetime import UTC, timedelta

import pytest

from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.task import BLOCKED, LiveTask, Task
from rota.testing.contract.store_backend import (
    HOUR,
    MANY,
    MICROSECOND,
    MINUTE,
    NOON,
    OTHER_TENANT,
    SECOND,
    WORKER_1,
    WORKER_2,
    StoreBackend,
    add,
    add_one,
    end,
    find,
    grant,
    grant_one,
    grant_step,
    ids_of,
    make_ids,
    make_task,
    make_tasks,
    retry_step,
    write,
)


@pytest.mark.asyncio
class TestFind:
    async def test_an_unknown_task_is_not_found(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert await store.tasks.find(TaskId(42), DEFAULT_TENANT) is None

    async def test_a_task_of_another_tenant_is_not_found(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store, tenant_id=OTHER_TENANT)
        assert await store.tasks.find(task.id, DEFAULT_TENANT) is None
        assert await find(store, task) == task

    async def test_what_one_node_wrote_the_other_finds(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        task = await grant_one(a)
        assert await find(b, task) == task

    async def test_load_gives_the_tasks_that_exist_in_any_tenant(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        waiting, running, foreign, absent = make_ids(4)
        await add(store, [make_task(waiting), make_task(running), make_task(foreign, tenant_id=OTHER_TENANT)])
        await end(store, await grant(store, [make_task(running)]))
        found = await store.tasks.load([absent, foreign, running, waiting])
        assert found.keys() == {waiting, running, foreign}
        assert found[foreign] == make_task(foreign, tenant_id=OTHER_TENANT)

    async def test_a_task_that_is_tried_again_comes_with_its_last_error(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        running = await grant_one(store)
        [waiting] = await write(store, [running], steps=[retry_step(running)])
        assert waiting.error is not None
        assert await store.tasks.load([waiting.id]) == {waiting.id: waiting}
        [again] = await grant(store, [waiting])
        assert again.error == waiting.error
        assert await store.tasks.load([again.id]) == {again.id: again}

    async def test_loading_nothing_gives_nothing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert await store.tasks.load([]) == {}

    async def test_many_tasks_are_loaded_at_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(MANY))
        assert await store.tasks.load(ids_of(tasks)) == {task.id: task for task in tasks}

    async def test_find_live_gives_what_has_not_ended_in_the_order_asked(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        waiting, running, ended = await add(store, make_tasks(3))
        [running, *_] = await grant(store, [running])
        await end(store, await grant(store, [ended]))
        found = await store.tasks.find_live([running.id, TaskId(42), ended.id, waiting.id])
        assert found == [_live(running), _live(waiting)]

    async def test_finding_nothing_live_gives_nothing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert await store.tasks.find_live([]) == []

    async def test_a_live_task_has_its_type_timeout_and_tenant(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        timeout = timedelta(seconds=7, microseconds=1)
        task = await add_one(store, type="email", timeout=timeout, tenant_id=OTHER_TENANT)
        [live] = await store.tasks.find_live([task.id])
        assert (live.type, live.timeout, live.state) == ("email", timeout, task.state)


@pytest.mark.asyncio
class TestListLive:
    async def test_every_live_state_is_listed_oldest_id_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = make_tasks(5)
        blocked = make_task(tasks[0].id, state={"status": BLOCKED})
        foreign = make_task(tasks[4].id, tenant_id=OTHER_TENANT)
        await add(store, [foreign, *tasks[1:4], blocked])
        [running, retrying] = await grant(store, tasks[2:4])
        [retrying] = await write(store, [retrying], steps=[retry_step(retrying)])
        expected = [blocked, tasks[1], running, retrying, foreign]
        assert await store.tasks.list_live(after=None, limit=10) == [_live(task) for task in expected]

    async def test_an_ended_task_is_not_listed(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await end(store, [await grant_one(store)])
        assert await store.tasks.list_live(after=None, limit=10) == []

    async def test_pages_cover_all_without_gap_or_repeat(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(MANY))
        listed: list[TaskId] = []
        while page := await store.tasks.list_live(after=listed[-1] if listed else None, limit=700):
            listed += [live.id for live in page]
            await add(store, make_tasks(1, at=NOON - HOUR - len(listed) * SECOND))  # older: not on a later page
        assert listed == ids_of(tasks)


@pytest.mark.asyncio
class TestClock:
    async def test_the_clock_is_in_utc_and_runs(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first = await store.tasks.now()
        await backend.wait(backend.tick)
        second = await store.tasks.now()
        assert (first.tzinfo, second.tzinfo) == (UTC, UTC)
        assert second > first

    async def test_two_nodes_see_the_same_clock(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        moments = [await node.tasks.now() for node in (a, b, a)]
        assert moments == sorted(moments)


@pytest.mark.asyncio
class TestListDue:
    async def test_waiting_tasks_are_listed_longest_due_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        now = await store.tasks.now()
        pauses = [3 * MINUTE, MICROSECOND, HOUR, 2 * MINUTE]
        tasks = [
            make_task(task_id, state={"due_at": now - ago}) for task_id, ago in zip(make_ids(4), pauses, strict=True)
        ]
        await add(store, tasks)
        assert await store.tasks.list_due(10) == [_live(tasks[place]) for place in (2, 0, 3, 1)]
        assert await store.tasks.list_due(2) == [_live(tasks[place]) for place in (2, 0)]

    async def test_a_task_is_listed_once_its_time_has_come(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store, state={"due_at": await store.tasks.now() + backend.tick})
        await backend.wait(backend.tick * 2)
        assert await store.tasks.list_due(10) == [_live(task)]

    async def test_a_task_is_not_listed_before_its_time(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await add_one(store, state={"due_at": await store.tasks.now() + HOUR})
        assert await store.tasks.list_due(10) == []

    async def test_a_retry_is_listed_when_its_pause_is_over(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        running = await grant(store, await add(store, make_tasks(2)))
        now = await store.tasks.now()
        steps = [retry_step(running[0], at=now - HOUR), retry_step(running[1], at=now)]
        over, _ = await write(store, running, steps=steps)
        assert await store.tasks.list_due(10) == [_live(over)]

    async def test_neither_blocked_nor_running_nor_ended_tasks_are_due(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        blocked, running, ended = make_tasks(3)
        await add(store, [make_task(blocked.id, state={"status": BLOCKED}), running, ended])
        [_, ended] = await grant(store, [running, ended])
        await end(store, [ended])
        assert await store.tasks.list_due(10) == []


@pytest.mark.asyncio
class TestListOverdue:
    async def test_running_attempts_past_their_deadline_are_listed_longest_overdue_first(
        self, backend: StoreBackend
    ) -> None:
        store = await backend.connect()
        now = await store.tasks.now()
        tasks = await add(store, make_tasks(3, timeout=MINUTE))
        starts = [now - 2 * MINUTE, now - HOUR, now - 30 * SECOND]
        running = await write(
            store, tasks, steps=[grant_step(task, at=at) for task, at in zip(tasks, starts, strict=True)]
        )
        assert await store.tasks.list_overdue(10) == [_live(running[1]), _live(running[0])]
        assert await store.tasks.list_overdue(1) == [_live(running[1])]

    async def test_a_waiting_task_is_not_overdue(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await add_one(store)
        assert await store.tasks.list_overdue(10) == []

    async def test_an_ended_task_is_not_overdue(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await end(store, [await grant_one(store)])
        assert await store.tasks.list_overdue(10) == []


@pytest.mark.asyncio
class TestListHeld:
    async def test_a_worker_holds_what_it_was_granted_oldest_id_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(6))
        mine = await grant(store, tasks[:4][::-1], worker_id=WORKER_1)
        await grant(store, tasks[4:], worker_id=WORKER_2)
        assert await store.tasks.list_held(WORKER_1) == [_live(task) for task in mine[::-1]]

    async def test_a_worker_no_longer_holds_what_ended_or_was_taken_back(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        ended, retrying, released, kept = await grant(store, await add(store, make_tasks(4)))
        release = released.state.released("drained", at=NOON + MINUTE, due_at=NOON + HOUR)
        await end(store, [ended])
        await write(store, [retrying, released], steps=[retry_step(retrying), release])
        assert await store.tasks.list_held(WORKER_1) == [_live(kept)]

    async def test_nobody_holds_a_deferred_attempt_but_it_runs_and_has_its_deadline(
        self, backend: StoreBackend
    ) -> None:
        store = await backend.connect()
        long_ago = await store.tasks.now() - HOUR
        task, kept = await add(store, make_tasks(2, timeout=MINUTE))
        steps = [grant_step(task, at=long_ago), grant_step(kept)]
        running, kept = await write(store, [task, kept], steps=steps)
        [deferred] = await write(store, [running], steps=[running.state.deferred(at=long_ago)])
        assert await store.tasks.list_held(WORKER_1) == [_live(kept)]
        assert _live(deferred) in await store.tasks.list_running(after=None, limit=10)
        assert _live(deferred) in await store.tasks.list_overdue(10)
        assert await store.tasks.list_due(10) == []


@pytest.mark.asyncio
class TestListRunning:
    async def test_the_attempts_of_every_worker_and_tenant_are_listed_oldest_id_first(
        self, backend: StoreBackend
    ) -> None:
        store = await backend.connect()
        tasks = make_tasks(4)
        foreign = make_task(tasks[3].id, tenant_id=OTHER_TENANT)
        await add(store, [*tasks[:3], foreign])
        theirs = await grant(store, [foreign, tasks[2]], worker_id=WORKER_2)
        mine = await grant(store, [tasks[0]], worker_id=WORKER_1)
        expected = [*mine, *theirs[::-1]]
        assert await store.tasks.list_running(after=None, limit=10) == [_live(task) for task in expected]

    async def test_what_ended_or_waits_is_not_listed(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        _, ended, retrying, kept = await add(store, make_tasks(4))
        ended, retrying, kept = await grant(store, [ended, retrying, kept])
        await end(store, [ended])
        await write(store, [retrying], steps=[retry_step(retrying)])
        assert await store.tasks.list_running(after=None, limit=10) == [_live(kept)]

    async def test_pages_cover_all_without_gap_or_repeat(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(7))
        running = await grant(store, [task for place, task in enumerate(tasks) if place != 3])
        listed: list[TaskId] = []
        while page := await store.tasks.list_running(after=listed[-1] if listed else None, limit=2):
            listed += [live.id for live in page]
        assert listed == ids_of(running)


def _live(task: Task) -> LiveTask:
    return LiveTask(state=task.state, type=task.spec.type, timeout=task.spec.timeout)
