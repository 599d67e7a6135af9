"""The contract of `TaskStore.list_page`: filters, and pages without gaps or repeats."""

from collections.abc import Mapping
from typing import Any

import pytest

from rota.application.ports.store import Store
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.paging import Page, TaskFilter
from rota.domain.task import (
    BLOCKED,
    CANCELLED,
    FAILED,
    PENDING,
    PROCESSING,
    RETRYING,
    SUCCESS,
    TIMEOUT,
    Task,
    TaskStatus,
)
from rota.testing.contract.store_backend import (
    AWKWARD_TEXTS,
    HOUR,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    NOON,
    OTHER_TENANT,
    WORKER_1,
    WORKER_2,
    StoreBackend,
    add,
    add_each,
    add_one,
    cancel_step,
    end,
    grant,
    ids_of,
    make_error,
    make_ids,
    make_task,
    make_tasks,
    retry_step,
    success_step,
    write,
)

SEVERAL_STATES = [
    {PENDING, RETRYING},
    {FAILED, TIMEOUT, CANCELLED},
    {SUCCESS, FAILED},
    {PROCESSING, SUCCESS},
    {BLOCKED, CANCELLED},
    set(TaskStatus),
]


@pytest.mark.asyncio
class TestListPage:
    async def test_whole_tasks_are_listed_newest_id_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = list((await _one_in_each_state(store)).values())
        assert await store.tasks.list_page(TaskFilter()) == Page(tuple(tasks[::-1]), next_before=None)

    async def test_an_empty_store_has_an_empty_page(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert await store.tasks.list_page(TaskFilter()) == Page((), next_before=None)

    async def test_only_the_tenants_own_tasks_are_listed(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        own = await add_one(store)
        [foreign] = await add(store, make_tasks(1, at=NOON + HOUR, tenant_id=OTHER_TENANT))
        assert await _list_ids(store) == [own.id]
        assert await _list_ids(store, tenant_id=OTHER_TENANT) == [foreign.id]

    async def test_by_state(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await _one_in_each_state(store)
        pages = {status: await store.tasks.list_page(TaskFilter(statuses=frozenset({status}))) for status in TaskStatus}
        assert {status: page.items for status, page in pages.items()} == {
            status: (task,) for status, task in tasks.items()
        }

    async def test_by_several_states(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await _one_in_each_state(store)
        for statuses in SEVERAL_STATES:
            page = await store.tasks.list_page(TaskFilter(statuses=frozenset(statuses)))
            wanted = [task for status, task in tasks.items() if status in statuses]
            assert list(page.items) == wanted[::-1], statuses

    async def test_by_type(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        ids = await _add_each(store, {"type": "email"}, {"type": "email.bulk"}, {"type": "Email"}, {"type": "sms"})
        assert await _list_ids(store, types=frozenset({"email"})) == [ids[0]]
        assert await _list_ids(store, types=frozenset({"sms", "email.bulk"})) == [ids[3], ids[1]]

    async def test_by_priority_as_it_is_now(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = [
            make_task(task_id, state={"priority": level}) for task_id, level in zip(make_ids(3), (0, 5, 9), strict=True)
        ]
        await add(store, tasks)
        await write(store, [tasks[0]], steps=[tasks[0].state.amended(priority=9, at=NOON)])
        assert await _list_ids(store, priorities=frozenset({9})) == [tasks[2].id, tasks[0].id]
        assert await _list_ids(store, priorities=frozenset({0, 5})) == [tasks[1].id]

    async def test_by_worker_running_or_ended(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(5))
        [running, ended, released] = await grant(store, tasks[:3], worker_id=WORKER_1)
        await grant(store, tasks[3:4], worker_id=WORKER_2)
        await end(store, [ended])
        await write(store, [released], steps=[retry_step(released)])
        assert await _list_ids(store, worker_id=WORKER_1) == [ended.id, running.id]

    async def test_by_time_of_creation_to_the_millisecond_of_the_id(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        noon = NOON.replace(microsecond=0)
        moments = [noon - MILLISECOND, noon, noon + MILLISECOND, noon + HOUR]
        tasks = [make_task(*make_ids(1, at=at)) for at in moments]
        await add(store, tasks)
        ids = ids_of(tasks)
        assert await _list_ids(store, created_after=noon) == ids[:0:-1]
        assert await _list_ids(store, created_before=noon) == [ids[0]]
        assert await _list_ids(store, created_after=noon, created_before=noon + HOUR) == [ids[2], ids[1]]
        assert await _list_ids(store, created_after=noon + HOUR - MICROSECOND) == [ids[3]]

    async def test_times_before_the_first_id_and_after_the_last_are_sound(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store)
        ancient, distant = NOON.replace(year=1999), NOON.replace(year=2300)
        assert await _list_ids(store, created_after=ancient, created_before=distant) == [task.id]
        assert await _list_ids(store, created_after=distant) == []
        assert await _list_ids(store, created_before=ancient) == []

    async def test_by_text_in_name_or_type_with_its_case(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        ids = await _add_each(
            store, {"name": "Monthly report"}, {"name": "reporting"}, {"name": "REPORT"}, {"type": "send.report"}
        )
        assert await _list_ids(store, text="report", types=frozenset({"plain", "send.report"})) == [
            ids[3],
            ids[1],
            ids[0],
        ]
        assert await _list_ids(store, text="REPORT") == [ids[2]]
        assert await _list_ids(store, text="ly rep") == [ids[0]]
        assert await _list_ids(store, text="nowhere") == []

    async def test_awkward_text_is_found_literally(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        ids = await _add_each(store, *({"name": f"before{text}after"} for text in AWKWARD_TEXTS))
        assert [await _list_ids(store, text=text) for text in AWKWARD_TEXTS] == [[found] for found in ids]

    async def test_a_wildcard_finds_only_itself(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        wildcards = ["%", "_", "\\", "/", "*", "?", "[a]", "'", '"']
        ids = await _add_each(store, {"name": "xay"}, *({"name": f"x{sign}y"} for sign in wildcards))
        assert [await _list_ids(store, text=f"x{sign}") for sign in wildcards] == [[found] for found in ids[1:]]

    async def test_by_pairs_of_metadata_exactly(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        metadata: list[dict[str, str]] = [
            {"env": "prod", "team": "pay"},
            {"env": "Prod", "team": "pay"},
            {"env": "production", "xenv": "prod"},
            {"note": '"env":"prod"'},
            {},
        ]
        ids = await _add_each(store, *({"metadata": pairs} for pairs in metadata))
        assert await _list_ids(store, metadata={"env": "prod"}) == [ids[0]]
        assert await _list_ids(store, metadata={"team": "pay"}) == [ids[1], ids[0]]
        assert await _list_ids(store, metadata={"team": "pay", "env": "Prod"}) == [ids[1]]
        assert await _list_ids(store, metadata={"team": "pay", "env": "none"}) == []

    async def test_awkward_metadata_is_found_literally(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        texts = [*AWKWARD_TEXTS, "", "%", "\\", '"']
        ids = await _add_each(store, *({"metadata": {"a": text}} for text in texts))
        assert [await _list_ids(store, metadata={"a": text}) for text in texts] == [[found] for found in ids]

    async def test_filters_are_combined(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        wanted = {"type": "email", "name": "hello", "metadata": {"a": "b"}}
        others = [wanted | {"type": "sms"}, wanted | {"name": "bye"}, wanted | {"metadata": {}}]
        ids = await _add_each(store, wanted, *others)
        listed = await _list_ids(
            store,
            statuses=frozenset({PENDING}),
            types=frozenset({"email"}),
            text="hell",
            metadata={"a": "b"},
            priorities=frozenset({0}),
            created_after=NOON - HOUR,
            created_before=NOON + HOUR,
        )
        assert listed == [ids[0]]


@pytest.mark.asyncio
class TestPaging:
    async def test_pages_have_no_gap_and_no_repeat_while_tasks_arrive(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(250))
        page = await store.tasks.list_page(TaskFilter(limit=60))
        listed = ids_of(page.items)
        while page.next_before is not None:
            await add(store, make_tasks(10, at=NOON + len(listed) * HOUR))
            page = await store.tasks.list_page(TaskFilter(before=page.next_before, limit=60))
            listed += ids_of(page.items)
        assert listed == ids_of(tasks)[::-1]

    async def test_a_page_that_holds_all_has_no_next(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(5))
        assert (await store.tasks.list_page(TaskFilter(limit=5))).next_before is None
        page = await store.tasks.list_page(TaskFilter(limit=4))
        assert page.next_before == tasks[1].id

    @pytest.mark.parametrize("status", [PENDING, SUCCESS, FAILED])
    async def test_a_filter_is_paged_too(self, backend: StoreBackend, status: TaskStatus) -> None:
        store = await backend.connect()
        waiting = await add(store, make_tasks(30))
        running = await grant(store, await add(store, make_tasks(60, at=NOON + HOUR)))
        ended = await end(store, running[::2])
        failed = await write(
            store, running[1::2], steps=[task.state.failed(make_error(), at=NOON) for task in running[1::2]]
        )
        expected = {PENDING: waiting, SUCCESS: ended, FAILED: failed}[status]
        listed: list[Task] = []
        cursor: TaskId | None = None
        while True:
            wanted = TaskFilter(statuses=frozenset({status}), before=cursor, limit=7)
            page = await store.tasks.list_page(wanted)
            listed += page.items
            cursor = page.next_before
            if cursor is None:
                break
        assert listed == expected[::-1]


async def _one_in_each_state(store: Store) -> Mapping[TaskStatus, Task]:
    """One task in every state, in the order of their ids."""
    blocked, *tasks = make_tasks(8)
    blocked = make_task(blocked.id, state={"status": BLOCKED})
    await add(store, [blocked, *tasks])
    pending, *running = tasks
    running = await grant(store, running)
    at = NOON + MINUTE
    states = [task.state for task in running]
    steps = [
        states[1].retried(make_error(), at=at, due_at=at),
        success_step(running[2], data="1"),
        states[3].failed(make_error(), at=at),
        states[4].timed_out(make_error(), at=at),
        cancel_step(running[5]),
    ]
    after = await write(store, running[1:], steps=steps)
    return {task.state.status: task for task in (blocked, pending, running[0], *after)}


async def _add_each(store: Store, *specs: dict[str, Any]) -> list[TaskId]:
    return ids_of(await add_each(store, [{"type": "plain"} | spec for spec in specs]))


async def _list_ids(store: Store, **wanted: Any) -> list[TaskId]:
    page = await store.tasks.list_page(TaskFilter(**({"tenant_id": DEFAULT_TENANT} | wanted)))
    return ids_of(page.items)
