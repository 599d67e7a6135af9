"""The contract of `ScheduleStore`: every target time ends once, as fired or as skipped."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from rota.application.ports.store import Store
from rota.domain.errors import IdTakenError
from rota.domain.ids import DEFAULT_TENANT, TenantId
from rota.domain.log import first_entry
from rota.domain.schedule import Occurrence, Schedule
from rota.domain.task import PENDING, Task
from rota.domain.task_config import TaskConfig
from rota.testing.contract.store_backend import (
    HOUR,
    HUGE,
    MICROSECOND,
    MINUTE,
    NOON,
    OTHER_TENANT,
    REPORT,
    StoreBackend,
    add_one,
    find,
    list_all_ids,
    make_task,
    make_tasks,
)

LATER = NOON + HOUR


@pytest.mark.asyncio
class TestListDueSchedules:
    async def test_enabled_configs_are_due_longest_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        now = await store.tasks.now()
        for task_type, ago in [("b", MINUTE), ("a", MICROSECOND), ("c", HOUR)]:
            await _put(store, now - ago, type=task_type)
        await _put(store, now - 2 * HOUR, type="a", tenant_id=OTHER_TENANT)
        due = await store.schedules.list_due(10)
        expected = [(OTHER_TENANT, "a"), (DEFAULT_TENANT, "c"), (DEFAULT_TENANT, "b"), (DEFAULT_TENANT, "a")]
        assert [(config.tenant_id, config.type) for config in due] == expected
        assert await store.schedules.list_due(2) == due[:2]

    async def test_a_due_config_is_whole(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        stored = await _put(store, NOON)
        assert await store.schedules.list_due(10) == [stored]

    async def test_a_config_is_not_due_before_its_time(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, await store.tasks.now() + HOUR)
        assert await store.schedules.list_due(10) == []

    async def test_a_config_becomes_due_by_the_stores_clock(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        stored = await _put(store, await store.tasks.now() + backend.tick)
        await backend.wait(backend.tick * 2)
        assert await store.schedules.list_due(10) == [stored]

    async def test_a_disabled_a_deleted_and_an_unscheduled_config_are_not_due(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON, type="disabled", is_enabled=False)
        await _put(store, None, type="unscheduled")
        await _put(store, NOON, type="deleted")
        await store.configs.delete(DEFAULT_TENANT, "deleted")
        assert await store.schedules.list_due(10) == []


@pytest.mark.asyncio
class TestFire:
    async def test_firing_notes_the_occurrence_adds_the_task_and_moves_on(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        stored = await _put(store, NOON)
        [task] = make_tasks(1)
        assert await store.schedules.fire(_fired(task), task=task, next_fire_at=LATER)
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == [_fired(task)]
        assert await find(store, task) == task
        assert await store.logs.read(task.id) == [first_entry(task)]
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 1}
        config = await store.configs.find(DEFAULT_TENANT, REPORT)
        assert config is not None
        assert (config.next_fire_at, config.revision) == (LATER, stored.revision)

    async def test_a_skipped_target_has_its_reason_and_no_task(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        skipped = Occurrence(task_type=REPORT, fire_at=NOON, reason="overlap 重叠")
        assert await store.schedules.fire(skipped, task=None, next_fire_at=LATER)
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == [skipped]
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {}
        assert await _next_fire_at(store) == LATER

    async def test_a_target_time_is_fired_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        first, second = make_tasks(2)
        assert await store.schedules.fire(_fired(first), task=first, next_fire_at=LATER)
        assert not await store.schedules.fire(_fired(second), task=second, next_fire_at=LATER + HOUR)
        assert await find(store, second) is None
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == [_fired(first)]
        assert await _next_fire_at(store) == LATER

    async def test_a_fired_target_cannot_be_skipped_nor_a_skipped_one_fired(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        [task] = make_tasks(1)
        noon = Occurrence(task_type=REPORT, fire_at=NOON, reason="too late")
        later = Occurrence(task_type=REPORT, fire_at=LATER, reason="too late")
        assert await store.schedules.fire(_fired(task), task=task, next_fire_at=LATER)
        assert not await store.schedules.fire(noon, task=None, next_fire_at=LATER)
        assert await store.schedules.fire(later, task=None, next_fire_at=LATER + HOUR)
        [other] = make_tasks(1, at=LATER)
        assert not await store.schedules.fire(_fired(other, LATER), task=other, next_fire_at=LATER + HOUR)
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == [later, _fired(task)]

    async def test_the_same_call_may_be_repeated(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        [task] = make_tasks(1)
        for _ in range(2):
            assert await store.schedules.fire(_fired(task), task=task, next_fire_at=LATER)
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 1}
        assert await _next_fire_at(store) == LATER

    async def test_a_change_of_what_was_read_before_does_not_undo_the_firing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        read = await _put(store, NOON)
        first, second = make_tasks(2)
        assert await store.schedules.fire(_fired(first), task=first, next_fire_at=LATER)
        changed = await store.configs.put(replace(read, name="changed"), expected_revision=read.revision)
        assert (changed.revision, changed.next_fire_at) == (read.revision + 1, LATER)
        assert await store.schedules.fire(_fired(second, LATER), task=second, next_fire_at=LATER + HOUR)
        assert await _next_fire_at(store) == LATER + HOUR

    async def test_putting_back_what_was_read_before_does_not_undo_the_firing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        read = await _put(store, NOON)
        first, second = make_tasks(2)
        assert await store.schedules.fire(_fired(first), task=first, next_fire_at=LATER)
        assert await store.configs.put(read, expected_revision=read.revision) == replace(read, next_fire_at=LATER)
        assert await store.schedules.fire(_fired(second, LATER), task=second, next_fire_at=LATER + HOUR)

    async def test_a_schedule_whose_target_is_noted_already_moves_on(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second = make_tasks(2)
        assert await store.schedules.fire(_fired(first), task=first, next_fire_at=LATER)
        await _put(store, NOON)  # made after its target had fired, as after a deletion
        assert not await store.schedules.fire(_fired(second), task=second, next_fire_at=LATER)
        assert await _next_fire_at(store) == LATER
        assert await find(store, second) is None
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == [_fired(first)]

    async def test_a_schedule_moves_on_when_its_target_is_skipped_or_fired_again(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [task] = make_tasks(1)
        await store.schedules.fire(_fired(task), task=task, next_fire_at=LATER)
        await _put(store, NOON)
        assert not await store.schedules.fire(_skipped(NOON), task=None, next_fire_at=LATER)
        assert await _next_fire_at(store) == LATER
        await store.configs.delete(DEFAULT_TENANT, REPORT)
        await _put(store, NOON)
        assert await store.schedules.fire(_fired(task), task=task, next_fire_at=None)
        assert await _next_fire_at(store) is None

    async def test_of_two_nodes_that_fire_one_wins(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        await _put(a, NOON)
        targets = [NOON + number * MINUTE for number in range(20)]
        of_a, of_b = make_tasks(20), make_tasks(20, at=LATER)
        calls = [
            node.schedules.fire(_fired(task, at), task=task, next_fire_at=at + MINUTE)
            for node, tasks in ((a, of_a), (b, of_b[::-1]))
            for task, at in zip(tasks, targets, strict=True)
        ]
        answers = await asyncio.gather(*calls)
        assert [first + second for first, second in zip(answers[:20], answers[20:], strict=True)] == [1] * 20
        winners = {task.id for task, won in zip([*of_a, *of_b[::-1]], answers, strict=True) if won}
        assert await list_all_ids(a) == winners
        occurrences = await a.schedules.list_occurrences(DEFAULT_TENANT, REPORT)
        assert {occurrence.task_id for occurrence in occurrences} == winners
        assert await _next_fire_at(a) == targets[-1] + MINUTE

    async def test_a_late_target_does_not_move_the_next_fire_time_back(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, LATER)
        [task] = make_tasks(1)
        assert await store.schedules.fire(_fired(task), task=task, next_fire_at=NOON + MINUTE)
        assert await _next_fire_at(store) == LATER

    async def test_a_next_fire_time_in_the_past_does_not_move_it_back(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        [task] = make_tasks(1)
        assert await store.schedules.fire(_fired(task), task=task, next_fire_at=NOON - MINUTE)
        assert await _next_fire_at(store) == NOON

    async def test_a_schedule_ends_without_a_next_fire_time(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        [task] = make_tasks(1)
        await store.schedules.fire(_fired(task), task=task, next_fire_at=None)
        assert await _next_fire_at(store) is None
        assert await store.schedules.list_due(10) == []

    async def test_a_schedule_that_is_over_does_not_begin_again(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, None)
        [task] = make_tasks(1)
        await store.schedules.fire(_fired(task), task=task, next_fire_at=LATER)
        assert await _next_fire_at(store) is None

    async def test_another_tenants_schedule_is_not_touched(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        await _put(store, NOON, tenant_id=OTHER_TENANT)
        [own] = make_tasks(1)
        [foreign] = make_tasks(1, at=LATER, tenant_id=OTHER_TENANT)
        assert await store.schedules.fire(_fired(own), task=own, next_fire_at=LATER)
        assert await _next_fire_at(store, OTHER_TENANT) == NOON
        assert await store.schedules.fire(_fired(foreign), task=foreign, next_fire_at=LATER)
        assert await store.schedules.list_occurrences(OTHER_TENANT, REPORT) == [_fired(foreign)]

    async def test_a_config_that_was_deleted_meanwhile_fires_what_was_due(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [task] = make_tasks(1)
        assert await store.schedules.fire(_fired(task), task=task, next_fire_at=LATER)
        assert await find(store, task) == task

    async def test_a_task_whose_id_is_taken_is_refused_and_nothing_is_noted(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        taken = await add_one(store)
        task = make_task(taken.id, payload="1")
        with pytest.raises(IdTakenError):
            await store.schedules.fire(_fired(task), task=task, next_fire_at=LATER)
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == []
        assert await _next_fire_at(store) == NOON

    async def test_occurrences_are_listed_newest_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        targets = [NOON + pause for pause in (timedelta(0), MICROSECOND, MINUTE, HOUR)]
        for at in (targets[2], targets[0], targets[3], targets[1]):
            await store.schedules.fire(_skipped(at), task=None, next_fire_at=None)
        occurrences = await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT)
        assert [occurrence.fire_at for occurrence in occurrences] == targets[::-1]
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT, limit=2) == occurrences[:2]
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, "other") == []

    async def test_occurrences_before_a_moment_are_purged(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [task] = make_tasks(1, tenant_id=OTHER_TENANT)
        for at in (NOON - MICROSECOND, NOON - HOUR, NOON, LATER):
            await store.schedules.fire(_skipped(at), task=None, next_fire_at=None)
        await store.schedules.fire(_fired(task, NOON - MINUTE), task=task, next_fire_at=None)
        assert await store.schedules.purge(fired_before=NOON, limit=HUGE) == 3
        kept = await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT)
        assert kept == [_skipped(LATER), _skipped(NOON)]
        assert await store.schedules.list_occurrences(OTHER_TENANT, REPORT) == []
        assert await find(store, task) == task
        assert await store.schedules.purge(fired_before=NOON, limit=10) == 0

    async def test_occurrences_are_purged_up_to_a_limit(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for task_type in ("a", "b"):
            for number in range(3):
                skipped = replace(_skipped(NOON + number * MINUTE), task_type=task_type)
                await store.schedules.fire(skipped, task=None, next_fire_at=None)
        answers = [await store.schedules.purge(fired_before=LATER, limit=4) for _ in range(3)]
        assert answers == [4, 2, 0]

    async def test_of_a_schedule_the_oldest_occurrences_are_purged_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for at in (LATER, NOON, NOON + MINUTE):
            await store.schedules.fire(_skipped(at), task=None, next_fire_at=None)
        assert await store.schedules.purge(fired_before=LATER + HOUR, limit=2) == 2
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == [_skipped(LATER)]


async def _put(store: Store, next_fire_at: datetime | None, **changes: Any) -> TaskConfig:
    facts: dict[str, Any] = {"type": REPORT, "schedule": Schedule(cron="* * * * *")} | changes
    return await store.configs.put(TaskConfig(next_fire_at=next_fire_at, **facts))


async def _next_fire_at(store: Store, tenant_id: TenantId = DEFAULT_TENANT) -> datetime | None:
    config = await store.configs.find(tenant_id, REPORT)
    assert config is not None
    return config.next_fire_at


def _fired(task: Task, at: datetime = NOON) -> Occurrence:
    return Occurrence(task_type=REPORT, tenant_id=task.spec.tenant_id, fire_at=at, task_id=task.id)


def _skipped(at: datetime) -> Occurrence:
    return Occurrence(task_type=REPORT, fire_at=at, reason="disabled")
