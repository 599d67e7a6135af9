"""The contract of `ScheduleStore` about many configs that fire one target each, as nearly all do: a `Run` leaves behind
what the full firing of the same target would."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from rota.application.ports.store import Store, fire_key_of
from rota.domain.errors import IdTakenError
from rota.domain.firing import Run, due_of
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.log import first_entry
from rota.domain.retry import RetryPolicy
from rota.domain.schedule import Schedule
from rota.domain.task import PENDING
from rota.domain.task_config import TaskConfig
from rota.testing.contract.store_backend import (
    HOUR,
    MINUTE,
    NOON,
    OTHER_TENANT,
    REPORT,
    StoreBackend,
    add,
    add_one,
    find,
    list_all_ids,
    make_task,
)
from rota.testing.values import replace

LATER = NOON + HOUR
NOW = NOON + timedelta(milliseconds=250)


@pytest.mark.asyncio
class TestFireRuns:
    async def test_a_run_leaves_behind_all_that_its_task_says(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        retry = RetryPolicy(max_retries=7, give_up_on=("ValueError",))
        schedule = Schedule(cron="* * * * *", payload='{"é\'\\\\%s":1}', priority=6)
        special = await _put(store, "special", schedule=schedule, retry=retry, timeout=MINUTE)
        plain = await _put(store, "plain", payload='{"b":2}', priority=3)
        runs = [_run(special, 10), _run(plain, 11)]
        assert await store.schedules.fire(runs) == [run.occurrences for run in runs]
        for run, config in zip(runs, (special, plain), strict=True):
            [task] = run.tasks
            assert await find(store, task) == task
            assert await store.logs.read(task.id) == [first_entry(task)]
            assert await store.schedules.list_occurrences(DEFAULT_TENANT, config.type) == [*run.occurrences]
            moved = replace(config, next_fire_at=LATER, runs=1, last_run=task.id)
            assert await store.configs.find(DEFAULT_TENANT, config.type) == moved
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 2}
        assert {live.id for live in await store.tasks.find_live([TaskId(10), TaskId(11)])} == {10, 11}

    async def test_many_runs_with_any_ids_are_written_at_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await add(store, [make_task(TaskId(505))])  # in between
        configs = [await _put(store, f"type-{number:03}") for number in range(60)]
        ids = [*range(101, 131), *range(500, 505), *range(506, 526), *range(1000, 1050, 10)]
        runs = [_run(config, task_id) for config, task_id in zip(configs, ids, strict=True)]
        assert await store.schedules.fire(runs[::-1]) == [run.occurrences for run in runs[::-1]]
        assert await list_all_ids(store) == {505, *ids}

    async def test_a_run_repeated_says_the_same_and_changes_nothing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        run = _run(await _put(store, REPORT), 1)
        assert [await store.schedules.fire([run]) for _ in range(2)] == [[run.occurrences], [list(run.occurrences)]]
        assert await store.schedules.fire([replace(run, task_id=TaskId(2))]) == [[]]
        assert await list_all_ids(store) == {1}

    async def test_a_config_that_was_changed_does_not_fire_as_it_was(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        old, other = await _put(store, "a"), await _put(store, "b")
        new = await _put(store, "a", payload='{"new":1}')
        assert new.next_fire_at == old.next_fire_at, "only its payload changed"
        assert await store.schedules.fire([_run(old, 1), _run(other, 2)]) == [[], _run(other, 2).occurrences]
        assert await store.configs.find(DEFAULT_TENANT, "a") == new
        assert await list_all_ids(store) == {2}
        assert await store.schedules.fire([_run(new, 3)]) == [_run(new, 3).occurrences]

    async def test_a_config_that_was_deleted_does_not_come_back(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        gone, there = await _put(store, "a"), await _put(store, "b")
        await store.configs.delete(DEFAULT_TENANT, "a")
        assert await store.schedules.fire([_run(gone, 1), _run(there, 2)]) == [[], _run(there, 2).occurrences]
        assert await store.configs.find(DEFAULT_TENANT, "a") is None
        assert await list_all_ids(store) == {2}

    async def test_a_target_that_is_noted_already_is_left_alone(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first = _run(await _put(store, REPORT), 1)
        await store.schedules.fire([first])
        await store.configs.delete(DEFAULT_TENANT, REPORT)
        again = _run(await _put(store, REPORT), 2)
        assert await store.schedules.fire([again]) == [()]
        config = await store.configs.find(DEFAULT_TENANT, REPORT)
        assert config is not None
        assert (config.next_fire_at, config.runs) == (LATER, 0)
        assert await list_all_ids(store) == {1}

    async def test_a_run_whose_id_is_taken_is_refused(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        taken = await add_one(store)
        run = _run(await _put(store, REPORT), taken.id)
        with pytest.raises(IdTakenError):
            await store.schedules.fire([run])
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == []


@pytest.mark.asyncio
class TestListComingSchedules:
    async def test_what_comes_by_a_moment_is_listed_page_by_page(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        now = await store.tasks.now()
        wanted = set()
        for minutes, task_type in [(5, "c"), (5, "a"), (5, "b"), (2, "z"), (9, "late"), (-3, "due")]:
            config = await _put(store, task_type, next_fire_at=now + minutes * MINUTE)
            wanted.add(fire_key_of(config))
        await _put(store, "a", next_fire_at=now + 5 * MINUTE, tenant_id=OTHER_TENANT)
        await _put(store, "off", next_fire_at=now, is_enabled=False)
        found: list[TaskConfig] = []
        while page := await _page(store, found):
            assert len(page) <= 2
            found += page
        assert len(found) == len({(one.tenant_id, one.type) for one in found}) == 6
        assert {fire_key_of(one) for one in found if one.tenant_id == DEFAULT_TENANT} == {
            key for key in wanted if key[2] != "late"
        }
        assert [due_of(one) for one in found] == sorted(due_of(one) for one in found)
        assert [one.type for one in await store.schedules.list_due(10)] == ["due"], "by the store's own clock"


async def _page(store: Store, found: Sequence[TaskConfig]) -> list[TaskConfig]:
    after = fire_key_of(found[-1]) if found else None
    until = await store.tasks.now() + 6 * MINUTE
    return [one for one in await store.schedules.list_due(2, by=until, after=after) if isinstance(one, TaskConfig)]


async def _put(store: Store, task_type: str, **changes: object) -> TaskConfig:
    facts = {"schedule": Schedule(cron="* * * * *"), "next_fire_at": NOON} | changes
    return await store.configs.put(TaskConfig(type=task_type, **facts))  # type: ignore[arg-type]  # any of its fields


def _run(config: TaskConfig, task_id: int) -> Run:
    return Run(config, due_of(config), LATER, TaskId(task_id), NOW)
