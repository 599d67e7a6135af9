"""The contract of `ScheduleStore`: every target time ends once, as fired or as skipped."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from rota.application.ports.store import Store
from rota.domain.errors import IdTakenError, InvalidError
from rota.domain.firing import FullFiring
from rota.domain.ids import DEFAULT_TENANT, TenantId
from rota.domain.log import first_entry
from rota.domain.schedule import MAX_MISSED, Occurrence, Schedule
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
from rota.testing.values import replace

LATER = NOON + HOUR
PAUSED = Schedule(cron="* * * * *", is_paused=True)


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
        assert await store.schedules.list_unreadable(10) == []

    async def test_a_config_is_not_due_before_its_time(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, await store.tasks.now() + HOUR)
        assert await store.schedules.list_due(10) == []

    async def test_a_config_becomes_due_by_the_stores_clock(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        stored = await _put(store, await store.tasks.now() + backend.tick)
        await backend.wait(backend.tick * 2)
        assert await store.schedules.list_due(10) == [stored]

    async def test_a_disabled_a_paused_a_deleted_and_an_unscheduled_config_are_not_due(
        self, backend: StoreBackend
    ) -> None:
        store = await backend.connect()
        await _put(store, NOON, type="disabled", is_enabled=False)
        await _put(store, NOON, type="paused", schedule=PAUSED)
        await _put(store, None, type="unscheduled")
        await _put(store, NOON, type="deleted")
        await store.configs.delete(DEFAULT_TENANT, "deleted")
        assert await store.schedules.list_due(10) == []

    async def test_a_paused_schedule_is_found_again_when_it_goes_on(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        paused = await _put(store, NOON, schedule=PAUSED)
        assert (paused.is_enabled, await store.configs.find(DEFAULT_TENANT, REPORT)) == (True, paused)
        [noted] = await store.schedules.fire([_skips(_skipped(NOON))])
        assert (noted, await store.schedules.find_next()) == ((_skipped(NOON),), None), "it stays where nobody looks"
        resumed = await store.configs.put(replace(paused, schedule=replace(PAUSED, is_paused=False)))
        assert await store.schedules.list_due(10) == [resumed]
        await store.configs.put(paused)
        assert await store.schedules.list_due(10) == []


@pytest.mark.asyncio
class TestFindNext:
    async def test_the_earliest_fire_time_of_what_is_enabled_is_found(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert await store.schedules.find_next() is None
        await _put(store, None, type="over")
        await _put(store, NOON - HOUR, type="disabled", is_enabled=False)
        await _put(store, NOON - HOUR, type="paused", schedule=PAUSED)
        assert await store.schedules.find_next() is None
        await _put(store, LATER, type="b")
        await _put(store, NOON, type="a", tenant_id=OTHER_TENANT)
        assert await store.schedules.find_next() == NOON


@pytest.mark.asyncio
class TestFire:
    async def test_firing_notes_the_occurrence_adds_the_task_and_moves_on(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        stored = await _put(store, NOON)
        [task] = make_tasks(1)
        assert await store.schedules.fire([_fires(task)]) == [(_fired(task),)]
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == [_fired(task)]
        assert await find(store, task) == task
        assert await store.logs.read(task.id) == [first_entry(task)]
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 1}
        config = await store.configs.find(DEFAULT_TENANT, REPORT)
        assert config == replace(stored, next_fire_at=LATER, runs=1, last_run=task.id)

    async def test_a_skipped_target_has_its_reason_and_no_task(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        stored = await _put(store, NOON)
        skipped = Occurrence(task_type=REPORT, fire_at=NOON, reason="overlap 重叠", since=NOON - HOUR)
        assert await store.schedules.fire([_skips(skipped)]) == [(skipped,)]
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == [skipped]
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {}
        assert await store.configs.find(DEFAULT_TENANT, REPORT) == replace(stored, next_fire_at=LATER)

    async def test_a_firing_may_note_nothing_and_move_on(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        assert await store.schedules.fire([_skips()]) == [()]
        assert await _next_fire_at(store) == LATER
        assert await store.schedules.fire([]) == []

    async def test_one_that_makes_very_many_tasks_holds_up_no_other(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        payload = '{"text":"' + "x" * 3_000 + '"}'
        for task_type in (REPORT, "other"):
            await _put(store, NOON, type=task_type, payload=payload)
        *many, last = make_tasks(MAX_MISSED + 1, payload=payload)
        firings = [_several(REPORT, many, skipped=1), _several("other", [last])]
        assert await store.schedules.fire(firings) == [one.occurrences for one in firings]
        some = [*many[:2], many[-1], last]
        assert await store.tasks.load([task.id for task in some]) == {task.id: task for task in some}
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: MAX_MISSED + 1}
        assert await store.schedules.list_due(10, by=LATER) == [await store.configs.find(DEFAULT_TENANT, "other")]

    async def test_many_configs_fire_at_once_each_with_its_own_tasks(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        types = [f"type-{number:03}" for number in range(130)]
        for task_type in types:
            await _put(store, NOON, type=task_type)
        await _put(store, NOON, type=types[0], tenant_id=OTHER_TENANT)
        tasks = make_tasks(131)
        firings = [
            _several(task_type, tasks[place : place + 1], skipped=place % 3) for place, task_type in enumerate(types)
        ]
        foreign = replace(tasks[130], spec=replace(tasks[130].spec, tenant_id=OTHER_TENANT))
        foreign = replace(foreign, state=replace(foreign.state, tenant_id=OTHER_TENANT))
        firings.append(replace(_several(types[0], [foreign]), tenant_id=OTHER_TENANT))
        assert await store.schedules.fire(firings) == [firing.occurrences for firing in firings]
        for place, task_type in enumerate(types):
            config = await store.configs.find(DEFAULT_TENANT, task_type)
            assert config is not None
            expected = (LATER + place % 3 * MINUTE, 1, tasks[place].id)
            assert (config.next_fire_at, config.runs, config.last_run) == expected
            assert len(await store.schedules.list_occurrences(DEFAULT_TENANT, task_type)) == 1 + place % 3
        assert await list_all_ids(store) == {task.id for task in tasks[:130]}
        assert await find(store, foreign) == foreign

    async def test_what_did_not_fire_keeps_its_runs_and_its_last_run(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for task_type in ("a", "b", "c"):
            await _put(store, NOON, type=task_type)
        first, second, third = make_tasks(3)
        await store.schedules.fire([_several("a", [first]), _several("b", [second, third])])
        firings = [replace(_several(one, []), seen_at=LATER, next_fire_at=LATER + HOUR) for one in ("a", "b")]
        await store.schedules.fire([*firings, _several("c", [])])
        configs = [await store.configs.find(DEFAULT_TENANT, one) for one in ("a", "b", "c")]
        assert [(one.runs, one.last_run) for one in configs if one] == [(1, first.id), (2, third.id), (0, None)]

    async def test_a_config_fires_once_in_a_batch(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        with pytest.raises(InvalidError):
            await store.schedules.fire([_skips(_skipped(NOON)), _skips(_skipped(LATER))])
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == []

    async def test_a_target_time_is_fired_once(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        first, second = make_tasks(2)
        assert await store.schedules.fire([_fires(first)]) == [(_fired(first),)]
        [noted] = await store.schedules.fire([replace(_fires(second), next_fire_at=LATER + HOUR)])
        assert not noted
        assert await find(store, second) is None
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == [_fired(first)]
        assert await _next_fire_at(store) == LATER

    async def test_a_fired_target_cannot_be_skipped_nor_a_skipped_one_fired(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        task, other = make_tasks(2)
        await store.schedules.fire([_fires(task)])
        [noted] = await store.schedules.fire([_skips(_skipped(NOON))])
        assert not noted
        await store.schedules.fire([replace(_skips(_skipped(LATER)), seen_at=LATER, next_fire_at=None)])
        [noted] = await store.schedules.fire([replace(_fires(other, LATER), seen_at=LATER, next_fire_at=None)])
        assert not noted
        occurrences = await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT)
        assert occurrences == [_skipped(LATER), _fired(task)]

    async def test_the_same_call_may_be_repeated(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        stored = await _put(store, NOON)
        [task] = make_tasks(1)
        for _ in range(2):
            [noted] = await store.schedules.fire([_fires(task)])
            assert list(noted) == [_fired(task)]
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PENDING: 1}
        config = await store.configs.find(DEFAULT_TENANT, REPORT)
        assert config == replace(stored, next_fire_at=LATER, runs=1, last_run=task.id)

    async def test_one_that_comes_late_does_not_hold_up_the_others_of_its_batch(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for task_type in ("a", "b"):
            await _put(store, NOON, type=task_type)
        first, second, third = make_tasks(3)
        await store.schedules.fire([_several("a", [first])])
        answers = await store.schedules.fire([_several("a", [second]), _several("b", [third])])
        assert [len(answer) for answer in answers] == [0, 1]
        assert await list_all_ids(store) == {first.id, third.id}

    async def test_a_change_of_what_was_read_before_does_not_undo_the_firing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        read = await _put(store, NOON)
        first, second = make_tasks(2)
        await store.schedules.fire([_fires(first)])
        changed = await store.configs.put(replace(read, name="changed"), expected_revision=read.revision)
        assert (changed.revision, changed.next_fire_at) == (read.revision + 1, LATER)
        assert (changed.runs, changed.last_run) == (1, first.id)
        next_one = replace(_fires(second, LATER), seen_at=LATER, next_fire_at=None, revision=changed.revision)
        [noted] = await store.schedules.fire([next_one])
        assert noted

    async def test_pausing_and_resuming_keep_the_next_fire_time(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        stored = await _put(store, NOON)
        disabled = await store.configs.put(replace(stored, is_enabled=False, next_fire_at=LATER))
        assert stored.schedule is not None
        paused = replace(stored.schedule, is_paused=True, pause_note="holidays")
        later = await store.configs.put(replace(disabled, is_enabled=True, schedule=paused, next_fire_at=LATER))
        assert (disabled.next_fire_at, later.next_fire_at) == (NOON, NOON)

    async def test_another_schedule_has_its_own_fire_time_and_counts_anew(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        read = await _put(store, NOON)
        [task] = make_tasks(1)
        await store.schedules.fire([_fires(task)])
        other = replace(read, schedule=Schedule(cron="1 * * * *"), next_fire_at=LATER + MINUTE)
        changed = await store.configs.put(other)
        assert (changed.next_fire_at, changed.runs, changed.last_run) == (LATER + MINUTE, 0, task.id)
        assert (await store.configs.put(replace(other, schedule=None, next_fire_at=None))).next_fire_at is None

    async def test_putting_back_what_was_read_before_does_not_undo_the_firing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        read = await _put(store, NOON)
        [task] = make_tasks(1)
        await store.schedules.fire([_fires(task)])
        moved = replace(read, next_fire_at=LATER, runs=1, last_run=task.id)
        assert await store.configs.put(read, expected_revision=read.revision) == moved

    async def test_a_target_that_is_noted_already_is_left_alone_and_passed(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first, second, third = make_tasks(3)
        await _put(store, NOON)
        await store.schedules.fire([_fires(first)])
        await store.configs.delete(DEFAULT_TENANT, REPORT)
        anew = await _put(store, NOON)  # after its target had fired
        both = replace(_several(REPORT, [second, third]), next_fire_at=LATER + HOUR, revision=anew.revision)
        [noted] = await store.schedules.fire([both])
        assert [one.task_id for one in noted] == [third.id]
        assert await _next_fire_at(store) == LATER + HOUR
        assert await list_all_ids(store) == {first.id, third.id}

    async def test_of_two_nodes_that_fire_one_wins(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        types = [f"type-{number}" for number in range(20)]
        for task_type in types:
            await _put(a, NOON, type=task_type)
        of_a, of_b = make_tasks(20), make_tasks(20, at=LATER)
        batches = [[_several(one, [task]) for one, task in zip(types, tasks, strict=True)] for tasks in (of_a, of_b)]
        calls = [
            (node, batch[at : at + 5]) for at in range(0, 20, 5) for node, batch in zip((a, b), batches, strict=True)
        ]
        answers = await asyncio.gather(*(node.schedules.fire(batch) for node, batch in calls))
        winners = {one.task_id for answer in answers for noted in answer for one in noted}
        assert len(winners) == 20
        assert await list_all_ids(a) == winners
        for task_type in types:
            [occurrence] = await a.schedules.list_occurrences(DEFAULT_TENANT, task_type)
            assert occurrence.task_id in winners

    async def test_a_schedule_ends_without_a_next_fire_time(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        [task] = make_tasks(1)
        await store.schedules.fire([replace(_fires(task), next_fire_at=None)])
        assert await _next_fire_at(store) is None
        assert await store.schedules.list_due(10) == []

    async def test_what_is_over_changed_or_deleted_meanwhile_does_not_fire(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, None, type="over")
        await _put(store, LATER, type="changed")
        tasks = make_tasks(3)
        firings = [_several(one, [task]) for one, task in zip(("over", "changed", "deleted"), tasks, strict=True)]
        assert [list(noted) for noted in await store.schedules.fire(firings)] == [[], [], []]
        assert await list_all_ids(store) == set()

    async def test_a_task_whose_id_is_taken_is_refused_and_nothing_is_noted(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _put(store, NOON)
        taken = await add_one(store)
        task = make_task(taken.id, payload="1")
        with pytest.raises(IdTakenError):
            await store.schedules.fire([_fires(task)])
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT) == []
        assert await _next_fire_at(store) == NOON

    async def test_occurrences_are_listed_newest_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        targets = [NOON + pause for pause in (timedelta(0), MICROSECOND, MINUTE, HOUR)]
        await _note(store, *(_skipped(at) for at in (targets[2], targets[0], targets[3], targets[1])))
        occurrences = await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT)
        assert [occurrence.fire_at for occurrence in occurrences] == targets[::-1]
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT, limit=2) == occurrences[:2]
        assert await store.schedules.list_occurrences(DEFAULT_TENANT, "other") == []

    async def test_occurrences_before_a_moment_are_purged(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [task] = make_tasks(1, tenant_id=OTHER_TENANT)
        await _note(store, *(_skipped(at) for at in (NOON - MICROSECOND, NOON - HOUR, NOON, LATER)))
        await _put(store, NOON, tenant_id=OTHER_TENANT)
        foreign = replace(_fires(task, NOON - MINUTE), tenant_id=OTHER_TENANT)
        await store.schedules.fire([foreign])
        assert await store.schedules.purge(fired_before=NOON, limit=HUGE) == 3
        kept = await store.schedules.list_occurrences(DEFAULT_TENANT, REPORT)
        assert kept == [_skipped(LATER), _skipped(NOON)]
        assert await store.schedules.list_occurrences(OTHER_TENANT, REPORT) == []
        assert await find(store, task) == task
        assert await store.schedules.purge(fired_before=NOON, limit=10) == 0

    async def test_occurrences_are_purged_up_to_a_limit(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        for task_type in ("a", "b"):
            await _note(store, *(_skipped(NOON + number * MINUTE, task_type) for number in range(3)))
        answers = [await store.schedules.purge(fired_before=LATER, limit=4) for _ in range(3)]
        assert answers == [4, 2, 0]

    async def test_of_a_schedule_the_oldest_occurrences_are_purged_first(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        await _note(store, *(_skipped(at) for at in (LATER, NOON, NOON + MINUTE)))
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


def _skipped(at: datetime, task_type: str = REPORT) -> Occurrence:
    return Occurrence(task_type=task_type, fire_at=at, reason="disabled")


def _fires(task: Task, at: datetime = NOON) -> FullFiring:
    occurrence = _fired(task, at)
    return FullFiring(
        tenant_id=DEFAULT_TENANT,
        task_type=REPORT,
        revision=1,
        seen_at=NOON,
        next_fire_at=LATER,
        occurrences=(occurrence,),
        tasks=(task,),
    )


def _skips(*skipped: Occurrence) -> FullFiring:
    task_type = skipped[0].task_type if skipped else REPORT
    return FullFiring(
        tenant_id=DEFAULT_TENANT, task_type=task_type, revision=1, seen_at=NOON, next_fire_at=LATER, occurrences=skipped
    )


def _several(task_type: str, tasks: Sequence[Task], *, skipped: int = 0) -> FullFiring:
    """One that fires so many targets, a minute apart, and skips some more."""
    fired = [replace(_fired(task, NOON + number * MINUTE), task_type=task_type) for number, task in enumerate(tasks)]
    others = [_skipped(NOON - (number + 1) * MINUTE, task_type) for number in range(skipped)]
    return FullFiring(
        tenant_id=DEFAULT_TENANT,
        task_type=task_type,
        revision=1,
        seen_at=NOON,
        next_fire_at=LATER + skipped * MINUTE,
        occurrences=(*others, *fired),
        tasks=tuple(tasks),
    )


async def _note(store: Store, *skipped: Occurrence) -> None:
    await _put(store, NOON, type=skipped[0].task_type)
    await store.schedules.fire([_skips(*skipped)])
