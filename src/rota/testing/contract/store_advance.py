"""The contract of `TaskStore.advance`: every lawful step is written whole, and no other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from rota.application.ports.store import Store, Written
from rota.domain.attempt import TaskResult
from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.log import LogEntry, entry_for, first_entry
from rota.domain.task import BLOCKED, CANCELLED, FAILED, PENDING, PROCESSING, RETRYING, SUCCESS, Task, Transition
from rota.testing.contract.store_backend import (
    AWKWARD_TEXTS,
    HOUR,
    MANY,
    MICROSECOND,
    MINUTE,
    NOON,
    OTHER_TENANT,
    SECOND,
    WORKER_2,
    StoreBackend,
    add,
    add_one,
    cancel_step,
    end,
    find,
    grant,
    grant_one,
    grant_step,
    ids_of,
    make_error,
    make_task,
    make_tasks,
    retry_step,
    success_step,
    write,
)

Step = Callable[[Task], Transition]

SIXTY_KIB = "汉" * (20 * 1024)


def fail_step(task: Task) -> Transition:
    return task.state.failed(make_error("final", retryable=False), at=NOON + MINUTE)


def timeout_step(task: Task) -> Transition:
    return task.state.timed_out(make_error("timeout"), at=NOON + MINUTE)


def release_step(task: Task) -> Transition:
    return task.state.released("drained", at=NOON + MINUTE, due_at=NOON + HOUR)


def lost_step(task: Task) -> Transition:
    return task.state.lost(at=NOON + task.state.attempt * MINUTE)


def urgent_step(task: Task) -> Transition:
    return task.state.amended(priority=9, at=NOON + MINUTE)


def later_step(task: Task) -> Transition:
    return task.state.amended(due_at=NOON + HOUR, at=NOON + MINUTE)


def urgent_later_step(task: Task) -> Transition:
    return task.state.amended(priority=9, due_at=NOON + HOUR, at=NOON + MINUTE)


def unblock_step(task: Task) -> Transition:
    return task.state.unblocked(at=NOON + MINUTE)


def defer_step(task: Task) -> Transition:
    return task.state.deferred(at=NOON + SECOND)


def hear_step(task: Task) -> Transition:
    return task.state.prolonged(NOON + HOUR + MICROSECOND, at=NOON + MINUTE)


LIVES: Mapping[str, Sequence[Step]] = {
    "granted": [grant_step],
    "succeeded": [grant_step, success_step],
    "failed": [grant_step, fail_step],
    "timed out": [grant_step, timeout_step],
    "retrying": [grant_step, retry_step],
    "granted again": [grant_step, retry_step, grant_step],
    "succeeded at last": [grant_step, retry_step, grant_step, success_step],
    "failed at last": [grant_step, retry_step, grant_step, fail_step],
    "released": [grant_step, release_step],
    "released after a retry": [grant_step, retry_step, grant_step, release_step],
    "lost": [grant_step, lost_step],
    "lost twice": [grant_step, lost_step, grant_step, lost_step],
    "poison": [grant_step, lost_step, grant_step, lost_step, grant_step, lost_step],
    "succeeded after a loss": [grant_step, lost_step, grant_step, success_step],
    "cancelled waiting": [cancel_step],
    "cancelled running": [grant_step, cancel_step],
    "cancelled retrying": [grant_step, retry_step, cancel_step],
    "cancelled blocked": [cancel_step],
    "reprioritised": [urgent_step],
    "reprioritised blocked": [urgent_step],
    "reprioritised and ended": [urgent_step, grant_step, success_step],
    "rescheduled": [later_step],
    "reprioritised and rescheduled in one": [urgent_later_step],
    "rescheduled retrying": [grant_step, retry_step, later_step],
    "deferred": [grant_step, defer_step],
    "deferred and heard of": [grant_step, defer_step, hear_step],
    "deferred after a retry": [grant_step, retry_step, grant_step, defer_step],
    "deferred and succeeded": [grant_step, defer_step, success_step],
    "deferred and retrying": [grant_step, defer_step, hear_step, retry_step],
    "deferred and timed out": [grant_step, defer_step, timeout_step],
    "deferred and cancelled": [grant_step, defer_step, cancel_step],
    "unblocked": [unblock_step],
    "unblocked and granted": [unblock_step, grant_step],
}


@dataclass(frozen=True, slots=True)
class Lived:
    """A task before and after the last step of its life, and what its record must be."""

    before: Task
    last: Transition
    after: Task
    entries: list[LogEntry]


@pytest.mark.asyncio
class TestAdvance:
    async def test_every_step_leaves_the_task_as_the_domain_says(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        lives = await _live_each(store)
        expected = {life: lived.after for life, lived in lives.items()}
        assert {life: await find(store, task) for life, task in expected.items()} == expected
        live = [task.state for task in expected.values() if not task.state.status.is_final]
        found = await store.tasks.find_live(ids_of(expected.values()))
        assert [task.state for task in found] == live

    async def test_every_step_is_in_the_record(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        lives = await _live_each(store)
        records = {life: await store.logs.read(lived.after.id) for life, lived in lives.items()}
        assert records == {life: lived.entries for life, lived in lives.items()}
        for life, record in records.items():
            assert len(record) + LIVES[life].count(hear_step) == lives[life].after.state.version, "all but heartbeats"
            assert [entry.seq for entry in record] == sorted({entry.seq for entry in record})

    async def test_two_steps_of_one_task_in_a_batch_are_refused_before_any_write(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        lives = await _live_each(store)
        steps = [lived.last for lived in lives.values()]
        with pytest.raises(InvalidError, match="steps"):
            await store.tasks.advance([*steps, steps[0]])
        await _check_unchanged(store, lives)

    async def test_a_step_that_is_written_again_changes_nothing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        lives = await _live_each(store)
        answers = {life: await store.tasks.advance([lived.last]) for life, lived in lives.items()}
        assert answers == {life: Written(repeated=frozenset({lived.after.id})) for life, lived in lives.items()}
        await _check_unchanged(store, lives)

    async def test_another_step_from_the_same_version_is_stale(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        lives = await _live_each(store)
        rivals = {life: cancel_step(lived.before, "too late", at=NOON + HOUR) for life, lived in lives.items()}
        answers = {life: await store.tasks.advance([rival]) for life, rival in rivals.items()}
        assert answers == {life: Written(stale=frozenset({lived.after.id})) for life, lived in lives.items()}
        await _check_unchanged(store, lives)

    async def test_no_steps_change_nothing(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        assert await store.tasks.advance([]) == Written()

    async def test_steps_of_every_kind_may_share_a_batch(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        waiting = await add(store, make_tasks(4))
        running = await grant(store, await add(store, make_tasks(6, at=NOON + HOUR)))
        kinds: list[Step] = [grant_step, cancel_step, urgent_step, later_step]
        ends: list[Step] = [success_step, fail_step, timeout_step, retry_step, release_step, cancel_step]
        tasks = [*waiting, *running]
        steps = [kind(task) for kind, task in zip([*kinds, *ends], tasks, strict=True)]
        after = await write(store, tasks, steps=steps)
        assert await store.tasks.load(ids_of(tasks)) == {task.id: task for task in after}

    async def test_a_batch_may_mix_tenants(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = [*make_tasks(1), *make_tasks(1, at=NOON + HOUR, tenant_id=OTHER_TENANT)]
        await end(store, await grant(store, await add(store, tasks)))
        for tenant_id in (DEFAULT_TENANT, OTHER_TENANT):
            assert await store.tasks.count_by_status(tenant_id) == {SUCCESS: 1}

    async def test_a_large_batch_of_unlike_steps_is_written(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(MANY))
        moments = [NOON + number * MICROSECOND for number in range(MANY)]
        grants = [grant_step(task, at=at) for task, at in zip(tasks, moments, strict=True)]
        running = await write(store, tasks, steps=grants)
        ends = [_unlike_end(task, number) for number, task in enumerate(running)]
        ended = await write(store, running, steps=ends)
        assert await store.tasks.load(ids_of(tasks)) == {task.id: task for task in ended}


def _unlike_end(task: Task, number: int) -> Transition:
    at = NOON + MINUTE + number * MICROSECOND
    kinds: list[Callable[[], Transition]] = [
        lambda: success_step(task, at=at),
        lambda: success_step(task, data=f"{number}", at=at),
        lambda: retry_step(task, at=at),
        lambda: task.state.failed(make_error(f"error-{number}"), at=at),
        lambda: task.state.lost(at=at),
    ]
    return kinds[number % len(kinds)]()


async def _live_each(store: Store) -> dict[str, Lived]:
    """Let one task live each life, step by step."""
    return {life: await _live(store, life) for life in LIVES}


async def _live(store: Store, life: str) -> Lived:
    at = NOON + list(LIVES).index(life) * SECOND
    [task] = await add(store, make_tasks(1, at=at, state={"status": BLOCKED} if "blocked" in life else {}))
    entries = [first_entry(task)]
    for kind in LIVES[life][:-1]:
        step = kind(task)
        [task] = await write(store, [task], steps=[step])
        entries += [entry_for(step)] if step.is_recorded else []
    last = LIVES[life][-1](task)
    [after] = await write(store, [task], steps=[last])
    return Lived(task, last, after, [*entries, *([entry_for(last)] if last.is_recorded else [])])


async def _check_unchanged(store: Store, lives: Mapping[str, Lived]) -> None:
    assert await store.tasks.load([lived.after.id for lived in lives.values()]) == {
        lived.after.id: lived.after for lived in lives.values()
    }
    records = {life: await store.logs.read(lived.after.id) for life, lived in lives.items()}
    assert records == {life: lived.entries for life, lived in lives.items()}


@pytest.mark.asyncio
class TestOutcome:
    async def test_a_result_comes_back_as_it_was(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        results = [TaskResult(code=7, message=text[:500], data=text) for text in (*AWKWARD_TEXTS, SIXTY_KIB)]
        running = await grant(store, await add(store, make_tasks(len(results))))
        steps = [task.state.succeeded(result, at=NOON) for task, result in zip(running, results, strict=True)]
        await write(store, running, steps=steps)
        found = await store.tasks.load(ids_of(running))
        assert [found[task.id].result for task in running] == results

    async def test_an_error_comes_back_as_it_was(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        errors = [make_error("oops", message=text[:500], detail=text) for text in (*AWKWARD_TEXTS, SIXTY_KIB)]
        running = await grant(store, await add(store, make_tasks(len(errors))))
        steps = [task.state.failed(error, at=NOON) for task, error in zip(running, errors, strict=True)]
        await write(store, running, steps=steps)
        found = await store.tasks.load(ids_of(running))
        assert [found[task.id].error for task in running] == errors
        records = [await store.logs.read(task.id) for task in running]
        assert [record[-1].detail for record in records] == [error.detail for error in errors]

    async def test_a_success_with_nothing_to_tell_has_a_result(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [task] = await end(store, [await grant_one(store)])
        found = await find(store, task)
        assert found is not None
        assert found.result == TaskResult()

    async def test_the_last_error_stays_visible_until_the_task_succeeds(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await grant_one(store)
        seen = []
        for kind in (retry_step, grant_step, success_step):
            [task] = await write(store, [task], steps=[kind(task)])
            found = await find(store, task)
            assert found is not None
            seen.append((found.state.status, found.error))
        assert seen == [(RETRYING, make_error()), (PROCESSING, make_error()), (SUCCESS, None)]

    async def test_a_later_error_replaces_an_earlier_one(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await grant_one(store)
        for kind in (retry_step, grant_step, fail_step):
            [task] = await write(store, [task], steps=[kind(task)])
        found = await find(store, task)
        assert found is not None
        assert found.error == make_error("final", retryable=False)


@pytest.mark.asyncio
class TestStaleStep:
    async def test_a_task_is_granted_once_from_each_version(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store)
        [running] = await grant(store, [task])
        second = grant_step(task, worker_id=WORKER_2)
        assert await store.tasks.advance([second]) == Written(stale=frozenset({task.id}))
        assert await find(store, task) == running

    async def test_the_same_grant_under_another_term_is_stale_not_repeated(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store)
        await grant(store, [task], term=1)
        assert await store.tasks.advance([grant_step(task, term=2)]) == Written(stale=frozenset({task.id}))

    async def test_a_result_of_an_older_attempt_is_refused(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first_attempt = await grant_one(store)
        [lost] = await write(store, [first_attempt], steps=[lost_step(first_attempt)])
        [second_attempt] = await grant(store, [lost], worker_id=WORKER_2)
        late = success_step(first_attempt, data='"from the first"')
        assert await store.tasks.advance([late]) == Written(stale=frozenset({late.task_id}))
        assert await find(store, second_attempt) == second_attempt

    async def test_a_final_state_is_final(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        lives = {life: lived for life, lived in (await _live_each(store)).items() if lived.after.state.status.is_final}
        counts = await store.tasks.count_by_status(DEFAULT_TENANT)
        for lived in lives.values():
            ended = lived.after
            running = make_task(ended.id, state={"status": PROCESSING, "version": ended.state.version})
            for late in (success_step(running), retry_step(running), cancel_step(running), release_step(running)):
                assert await store.tasks.advance([late]) == Written(stale=frozenset({ended.id}))
        await _check_unchanged(store, lives)
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == counts

    async def test_a_failure_does_not_overwrite_a_success_of_the_same_moment(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        running = await grant_one(store)
        [ended] = await write(store, [running], steps=[success_step(running, data="1")])
        assert await store.tasks.advance([fail_step(running)]) == Written(stale=frozenset({ended.id}))
        assert await find(store, ended) == ended

    async def test_a_step_from_a_version_yet_to_come_is_stale(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        task = await add_one(store)
        early = success_step(task.after(grant_step(task)))
        assert await store.tasks.advance([early]) == Written(stale=frozenset({task.id}))
        assert await find(store, task) == task

    async def test_a_step_of_an_unknown_task_is_stale(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        [task] = make_tasks(1)
        steps = [grant_step(task)]
        assert await store.tasks.advance(steps) == Written(stale=frozenset({task.id}))
        assert await find(store, task) is None
        assert await store.logs.read(task.id) == []

    async def test_a_partly_stale_batch_is_written_as_far_as_it_fits(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        tasks = await add(store, make_tasks(100))
        steps = [grant_step(task) for task in tasks]
        taken = tasks[10:20]
        await grant(store, taken, worker_id=WORKER_2, term=2)
        await store.tasks.advance(steps[30:40])
        written = await store.tasks.advance(steps[::-1])
        fitting = {task.id for task in tasks} - set(ids_of(taken)) - set(ids_of(tasks[30:40]))
        assert written == Written(
            applied=frozenset(fitting), repeated=frozenset(ids_of(tasks[30:40])), stale=frozenset(ids_of(taken))
        )
        held = await store.tasks.list_held(WORKER_2)
        assert [live.id for live in held] == ids_of(taken)
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {PROCESSING: 100}

    async def test_a_partly_stale_batch_of_ends_counts_only_what_was_written(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        running = await grant(store, await add(store, make_tasks(20)))
        await write(store, running[:5], steps=[cancel_step(task) for task in running[:5]])
        written = await store.tasks.advance([success_step(task) for task in running])
        assert written == Written(applied=frozenset(ids_of(running[5:])), stale=frozenset(ids_of(running[:5])))
        assert await store.tasks.count_by_status(DEFAULT_TENANT) == {CANCELLED: 5, SUCCESS: 15}

    async def test_a_refused_failure_leaves_no_error_behind(self, backend: StoreBackend) -> None:
        store = await backend.connect()
        first_attempt = await grant_one(store)
        [waiting] = await write(store, [first_attempt], steps=[release_step(first_attempt)])
        written = await store.tasks.advance([fail_step(first_attempt)])
        assert written.stale == {waiting.id}
        found = await find(store, waiting)
        assert found is not None
        assert (found.state.status, found.error) == (PENDING, None)
        assert FAILED not in await store.tasks.count_by_status(DEFAULT_TENANT)
