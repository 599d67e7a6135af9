"""The contract of `TaskStore` when two nodes act at once: no lock is trusted, every task has one winner."""

import asyncio
from collections.abc import Sequence

import pytest

from rota.application.ports.store import Store, Written
from rota.domain.ids import DEFAULT_TENANT, TaskId, WorkerId
from rota.domain.task import CANCELLED, PROCESSING, SUCCESS, Task, Transition
from rota.testing.contract.store_backend import (
    HOUR,
    NOON,
    WORKER_1,
    WORKER_2,
    StoreBackend,
    add,
    cancel_step,
    end,
    grant,
    grant_step,
    ids_of,
    make_tasks,
    success_step,
)

BATCH = 500


@pytest.mark.asyncio
class TestTwoNodes:
    async def test_each_of_many_tasks_is_granted_exactly_once(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        tasks = make_tasks(5_000)
        for batch in _cut(tasks):
            await add(a, batch)
        shifted = [*tasks[BATCH // 2 :], *tasks[: BATCH // 2]]  # so that most batches meet two of the other node
        by_a, by_b = await asyncio.gather(
            _advance_all(a, _grants(tasks, WORKER_1, term=1)), _advance_all(b, _grants(shifted, WORKER_2, term=2))
        )
        assert (by_a.repeated, by_b.repeated) == (frozenset(), frozenset())
        assert sorted([*by_a.applied, *by_b.applied]) == ids_of(tasks)
        await _check_granted(a, by_a.applied, worker_id=WORKER_1, term=1)
        await _check_granted(a, by_b.applied, worker_id=WORKER_2, term=2)

    async def test_each_task_is_either_finished_or_cancelled(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        running = await grant(a, await add(a, make_tasks(600)))
        finish = [success_step(task) for task in running]
        cancel = [cancel_step(task) for task in running]
        batches = [(a, finish[:300]), (b, cancel[:300][::-1]), (b, cancel[300:]), (a, finish[300:][::-1])]
        answers = await asyncio.gather(*(node.tasks.advance(steps) for node, steps in batches))
        finished = answers[0].applied | answers[3].applied
        cancelled = answers[1].applied | answers[2].applied
        assert sorted([*finished, *cancelled]) == ids_of(running)
        assert answers[0].stale | answers[3].stale == cancelled
        found = await a.tasks.load(ids_of(running))
        assert {task.id for task in found.values() if task.state.status is SUCCESS} == finished
        counts = await a.tasks.count_by_status(DEFAULT_TENANT)
        assert (counts.get(SUCCESS, 0), counts.get(CANCELLED, 0)) == (len(finished), len(cancelled))

    async def test_a_step_that_both_send_is_applied_for_one_and_repeated_for_the_other(
        self, backend: StoreBackend
    ) -> None:
        a, b = await backend.connect(), await backend.connect()
        tasks = await add(a, make_tasks(200))
        steps = [grant_step(task) for task in tasks]
        first, second = await asyncio.gather(a.tasks.advance(steps), b.tasks.advance(steps))
        assert sorted([*first.applied, *second.applied]) == ids_of(tasks)
        assert (first.repeated, second.repeated) == (second.applied, first.applied)

    async def test_steps_of_single_tasks_do_not_disturb_each_other(self, backend: StoreBackend) -> None:
        nodes = [await backend.connect(), await backend.connect()]
        running = await grant(nodes[0], await add(nodes[0], make_tasks(60)))
        calls = [nodes[number % 2].tasks.advance([success_step(task)]) for number, task in enumerate(running)]
        answers = await asyncio.gather(*calls)
        assert [sorted(answer.applied) for answer in answers] == [[task.id] for task in running]
        assert await nodes[0].tasks.count_by_status(DEFAULT_TENANT) == {SUCCESS: 60}

    async def test_two_that_purge_at_once_delete_each_task_once(self, backend: StoreBackend) -> None:
        a, b = await backend.connect(), await backend.connect()
        await end(a, await grant(a, await add(a, make_tasks(300))))
        purges = [node.tasks.purge(completed_before=NOON + HOUR, limit=100) for node in (a, b) for _ in range(2)]
        first = sum(await asyncio.gather(*purges))
        rest = await a.tasks.purge(completed_before=NOON + HOUR, limit=1_000)
        assert first > 0
        assert first + rest == 300
        assert await a.tasks.count_by_status(DEFAULT_TENANT) == {}


def _cut(tasks: Sequence[Task]) -> list[Sequence[Task]]:
    return [tasks[start : start + BATCH] for start in range(0, len(tasks), BATCH)]


def _grants(tasks: Sequence[Task], worker_id: WorkerId, *, term: int) -> list[list[Transition]]:
    return [[grant_step(task, worker_id=worker_id, term=term) for task in batch] for batch in _cut(tasks)]


async def _advance_all(node: Store, batches: Sequence[Sequence[Transition]]) -> Written:
    answers = [await node.tasks.advance(batch) for batch in batches]
    return Written(
        applied=frozenset().union(*(answer.applied for answer in answers)),
        repeated=frozenset().union(*(answer.repeated for answer in answers)),
        stale=frozenset().union(*(answer.stale for answer in answers)),
    )


async def _check_granted(store: Store, ids: frozenset[TaskId], *, worker_id: WorkerId, term: int) -> None:
    held = await store.tasks.list_held(worker_id)
    assert {live.id for live in held} == ids
    assert {(live.state.status, live.state.attempt, live.state.term) for live in held} <= {(PROCESSING, 1, term)}
    for task_id in sorted(ids)[:20]:
        granted = (await store.logs.read(task_id))[1:]
        assert [(entry.attempt, entry.worker_id) for entry in granted] == [(1, worker_id)]
