"""One action on all tasks that match."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from rota.application import bulk, metrics
from rota.application.audit import Actor
from rota.application.bulk import MOST_PER_CALL, BulkTasks, Selection
from rota.application.steer import SteerTasks
from rota.application.submit import SubmitTasks
from rota.domain.attempt import TaskResult
from rota.domain.errors import InvalidError, UnavailableError
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.paging import Page, TaskFilter
from rota.domain.priority import LEVELS
from rota.domain.submission import NewTask
from rota.domain.task import BLOCKED, CANCELLED, FAILED, PENDING, SUCCESS, LiveTask, Task, TaskState, Transition
from rota.testing.contract.coordinator_backend import hear
from rota.testing.faults import Fault
from rota.testing.values import replace
from tests.support.builders import EMAIL, MINUTE, a_config, a_state, a_submission, a_task
from tests.support.virtual import Bench, a_bench, pass_time, virtually

ADA = Actor(tenant_id=DEFAULT_TENANT, name="ada")
OTHERS = TenantId("others")
ALL = Selection(TaskFilter(types=frozenset({EMAIL})))


@dataclass(slots=True)
class Scene:
    bench: Bench
    desk: SubmitTasks
    bulk: BulkTasks

    async def submit(self, number: int = 1, **changes: Any) -> list[TaskId]:
        added = await self.desk.submit_many([a_submission(**changes)] * number)
        return [answer.task_id for answer in added]

    async def end(self, *task_ids: TaskId) -> None:
        """Somebody runs them to a good end."""
        for task_id in task_ids:
            await self.move(task_id, lambda state, at: state.granted(WorkerId(1), term=1, at=at, timeout=MINUTE))
            await self.move(task_id, lambda state, at: state.succeeded(TaskResult(), at=at))

    async def move(self, task_id: TaskId, change: Any) -> None:
        tasks = self.bench.node.store.tasks
        state: TaskState = (await tasks.load([task_id]))[task_id].state
        now: datetime = self.bench.clock.now()
        step: Transition = change(state, now)
        assert (await tasks.advance([step])).applied

    async def count(self) -> dict[str, int]:
        return {
            str(key): number
            for key, number in (await self.bench.node.store.tasks.count_by_status(DEFAULT_TENANT)).items()
        }


async def a_scene() -> Scene:
    bench = await a_bench()
    for tenant_id in (DEFAULT_TENANT, OTHERS):
        await bench.node.store.configs.put(a_config(EMAIL, tenant_id=tenant_id))
    desk = SubmitTasks(bench.node)
    return Scene(bench, desk, BulkTasks(bench.node, desk, SteerTasks(bench.node)))


@virtually
async def test_all_that_have_not_ended_are_cancelled_and_recorded() -> None:
    scene = await a_scene()
    ids = await scene.submit(5)
    await scene.end(ids[0])
    outcome = await scene.bulk.cancel(ALL, reason="enough", actor=ADA)
    assert (outcome.matched, outcome.changed, outcome.skipped, outcome.next_before) == (4, 4, 0, None)
    assert await scene.count() == {SUCCESS: 1, CANCELLED: 4}
    assert scene.bench.figures.count(metrics.TASKS_ENDED, EMAIL, CANCELLED) == 4
    entries = await scene.bench.node.store.audit.list_page(DEFAULT_TENANT)
    assert {entry.object for entry in entries if entry.action == "task.cancel"} == {str(task_id) for task_id in ids[1:]}


@virtually
async def test_a_running_task_is_asked_to_stop_and_a_delayed_one_is_forgotten() -> None:
    scene = await a_scene()
    (running,) = await scene.submit()
    (delayed,) = await scene.submit(delay=MINUTE)
    await scene.move(running, lambda state, at: state.granted(WorkerId(1), term=1, at=at, timeout=MINUTE))
    assert (await scene.bulk.cancel(ALL)).changed == 2
    coordinator = scene.bench.node.coordinator
    assert await coordinator.signals.find_cancelled([running, delayed]) == {running}
    assert (await coordinator.queue.depths()).delayed == 0


@virtually
async def test_it_is_cancelled_although_nobody_can_be_told() -> None:
    scene = await a_scene()
    await scene.submit(2)
    scene.bench.faults.inject("queue.discard", Fault.TIMEOUT)
    assert (await scene.bulk.cancel(ALL)).changed == 2


@virtually
async def test_states_that_have_ended_already_match_nothing() -> None:
    scene = await a_scene()
    await scene.submit(2)
    ended = Selection(TaskFilter(statuses=frozenset({SUCCESS, FAILED})))
    assert (await scene.bulk.cancel(ended)).matched == 0
    waiting = Selection(TaskFilter(statuses=frozenset({PENDING, SUCCESS})))
    assert (await scene.bulk.retry(waiting)).matched == 0
    assert (await scene.bulk.cancel(waiting)).matched == 2


@virtually
async def test_work_is_done_again_once_for_each_that_has_ended() -> None:
    scene = await a_scene()
    ids = await scene.submit(3)
    await scene.end(*ids[:2])
    assert (await scene.bulk.retry(ALL)).matched == 0, "what succeeded is not run again unasked"
    again = await scene.bulk.retry(Selection(TaskFilter(statuses=frozenset({SUCCESS}))), actor=ADA)
    assert (again.matched, again.changed) == (2, 2)
    assert await scene.count() == {SUCCESS: 2, PENDING: 3}
    assert len((await scene.bench.node.coordinator.queue.take(100, order=LEVELS)).task_ids) == 5


@virtually
async def test_ids_stand_for_themselves_and_for_one_tenant() -> None:
    scene = await a_scene()
    ids = await scene.submit(3)
    foreign = await scene.submit(1, tenant_id=OTHERS)
    await scene.end(ids[0])
    chosen = Selection(TaskFilter(), (*ids, *ids, *foreign, TaskId(7)))
    outcome = await scene.bulk.cancel(chosen)
    assert (outcome.matched, outcome.changed, outcome.skipped) == (3, 2, 1)
    ended = await scene.bulk.cancel(Selection(TaskFilter(), tuple(ids)))
    assert (ended.matched, ended.changed) == (3, 0)
    assert (await scene.bulk.retry(Selection(TaskFilter(), (*foreign,)))).matched == 0
    waiting = await scene.bulk.retry(Selection(TaskFilter(tenant_id=OTHERS), (*foreign,)))
    assert (waiting.matched, waiting.changed) == (1, 0)


def test_ids_have_their_bound() -> None:
    with pytest.raises(InvalidError, match="at most 10000"):
        Selection(TaskFilter(), tuple(TaskId(number) for number in range(1, MOST_PER_CALL + 2)))


@virtually
async def test_a_call_stops_at_its_bound_and_the_next_goes_on() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "PAGE", 2)
        patch.setattr(bulk, "MOST_PER_CALL", 4)
        scene = await a_scene()
        await scene.end(*await scene.submit(7))
        wanted = TaskFilter(statuses=frozenset({SUCCESS}))
        first = await scene.bulk.retry(Selection(wanted))
        assert (first.matched, first.changed) == (4, 4)
        assert first.next_before is not None
        rest = await scene.bulk.retry(Selection(TaskFilter(statuses=wanted.statuses, before=first.next_before)))
        assert (rest.matched, rest.next_before) == (3, None)
        assert await scene.count() == {SUCCESS: 7, PENDING: 7}


def look_at_one_at_a_time(scene: Scene, *, seconds: float) -> None:
    """Each look of the store goes no further than to the next task, and takes so long."""
    tasks = scene.bench.node.store.tasks
    list_page = tasks.list_page

    async def look(wanted: TaskFilter) -> Page[Task]:
        await pass_time(seconds)
        seen = await list_page(TaskFilter(before=wanted.before, limit=1))
        found = tuple(task for task in seen.items if task.spec.type in wanted.types)
        return Page(found, seen.next_before, is_short=not found)

    tasks.list_page = look  # type: ignore[method-assign]


@virtually
async def test_a_call_that_finds_little_among_many_stops_in_time_and_the_next_goes_on() -> None:
    scene = await a_scene()
    await scene.bench.node.store.configs.put(a_config("other"))
    (wanted,) = await scene.submit()
    others = await scene.submit(4, type="other")
    look_at_one_at_a_time(scene, seconds=2)
    first = await scene.bulk.cancel(ALL)
    assert (first.matched, first.next_before) == (0, others[1]), "after six seconds, where it stands"
    rest = await scene.bulk.cancel(Selection(replace(ALL.wanted, before=first.next_before)))
    assert (rest.matched, rest.changed, rest.next_before) == (1, 1, None)
    assert (await scene.bench.node.store.tasks.load([wanted]))[wanted].state.status is CANCELLED


@virtually
async def test_a_call_goes_through_all_its_ids_however_long_that_takes() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "PAGE", 1)
        scene = await a_scene()
        ids = await scene.submit(3)
        tasks = scene.bench.node.store.tasks
        find_live = tasks.find_live

        async def find_slowly(asked: Sequence[TaskId]) -> list[LiveTask]:
            await pass_time(6)
            return await find_live(asked)

        patch.setattr(tasks, "find_live", find_slowly)
        outcome = await scene.bulk.cancel(Selection(TaskFilter(), tuple(ids)))
        assert (outcome.changed, outcome.next_before) == (3, None)


@virtually
async def test_a_store_that_goes_away_half_way_leaves_word_where_to_go_on() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "PAGE", 2)
        scene = await a_scene()
        await scene.end(*await scene.submit(5))
        wanted = TaskFilter(statuses=frozenset({SUCCESS}))
        scene.bench.faults.inject("tasks.add", Fault.TIMEOUT)
        with pytest.raises(UnavailableError):  # nothing is done yet: the whole call may be repeated
            await scene.bulk.retry(Selection(wanted))
        add, calls = scene.bench.node.store.tasks.add, []

        async def add_once(new: Any) -> Any:
            calls.append(new)
            if len(calls) == 2:
                scene.bench.faults.inject("tasks.add", Fault.TIMEOUT)
            return await add(new)

        patch.setattr(scene.bench.node.store.tasks, "add", add_once)
        first = await scene.bulk.retry(Selection(wanted))
        assert (first.matched, first.changed) == (2, 2)
        assert first.next_before is not None
        rest = await scene.bulk.retry(Selection(replace(wanted, before=first.next_before)))
        assert (rest.matched, rest.next_before) == (3, None)
        assert await scene.count() == {SUCCESS: 5, PENDING: 5}


@virtually
async def test_a_call_that_is_repeated_with_its_key_runs_nothing_twice() -> None:
    scene = await a_scene()
    await scene.end(*await scene.submit(3))
    chosen = Selection(TaskFilter(statuses=frozenset({SUCCESS})))
    for _ in range(2):
        await scene.bulk.retry(chosen, key="monday")
    assert await scene.count() == {SUCCESS: 3, PENDING: 3}


def move_after_the_look(scene: Scene, ids: Sequence[TaskId]) -> None:
    """Of what is looked at, the first ends and the second changes its level before anything is written."""
    tasks = scene.bench.node.store.tasks
    find_live = tasks.find_live

    async def find_then_move(wanted: Sequence[TaskId]) -> object:
        found = await find_live(wanted)
        await scene.end(ids[0])
        await scene.move(ids[1], lambda state, at: state.amended(priority=5, at=at))
        return found

    tasks.find_live = find_then_move  # type: ignore[method-assign, assignment]


@virtually
async def test_what_moves_between_the_look_and_the_write_is_looked_at_again() -> None:
    scene = await a_scene()
    ids = await scene.submit(3)
    move_after_the_look(scene, ids)
    assert (await scene.bulk.cancel(Selection(TaskFilter(), tuple(ids)))).changed == 2
    assert await scene.count() == {SUCCESS: 1, CANCELLED: 2}


async def levels(scene: Scene, ids: Sequence[TaskId]) -> list[int]:
    found = await scene.bench.node.store.tasks.load(ids)
    return [found[task_id].state.priority for task_id in ids]


@virtually
async def test_all_that_wait_are_made_as_urgent_as_asked_and_come_first() -> None:
    scene = await a_scene()
    (before,) = await scene.submit(priority=5)
    ids = await scene.submit(3)
    (delayed,) = await scene.submit(delay=MINUTE)
    await scene.end(ids[0])
    normal = Selection(TaskFilter(priorities=frozenset({0})))
    outcome = await scene.bulk.reprioritise(normal, 9, actor=ADA)
    assert (outcome.matched, outcome.changed, outcome.skipped) == (3, 3, 0)
    assert await levels(scene, [before, *ids, delayed]) == [5, 0, 9, 9, 9]
    queue = scene.bench.node.coordinator.queue
    assert list((await queue.take(3, order=LEVELS[::-1])).task_ids) == [*ids[1:], before]
    assert (await queue.depths()).delayed == 1
    entries = await scene.bench.node.store.audit.list_page(DEFAULT_TENANT)
    noted = {(entry.object, entry.detail) for entry in entries if entry.action == "task.patch"}
    assert noted == {(str(task_id), "priority 9") for task_id in (*ids[1:], delayed)}


@virtually
async def test_what_runs_has_ended_or_is_as_urgent_already_is_left_as_it_is() -> None:
    scene = await a_scene()
    running, ended, same = await scene.submit(3)
    await scene.move(running, lambda state, at: state.granted(WorkerId(1), term=1, at=at, timeout=MINUTE))
    await scene.end(ended)
    chosen = Selection(TaskFilter(), (running, ended, same))
    assert (await scene.bulk.reprioritise(chosen, 0)).changed == 0
    outcome = await scene.bulk.reprioritise(chosen, 5)
    assert (outcome.matched, outcome.changed, outcome.skipped) == (3, 1, 2)
    assert await levels(scene, [running, ended, same]) == [0, 0, 5]
    assert (await scene.bulk.reprioritise(Selection(TaskFilter(statuses=frozenset({SUCCESS}))), 5)).matched == 0


@virtually
async def test_a_blocked_task_is_made_urgent_and_not_queued() -> None:
    scene = await a_scene()
    await scene.bench.node.store.tasks.add([NewTask(a_task(99, state=a_state(99, status=BLOCKED)))])
    assert (await scene.bulk.reprioritise(Selection(TaskFilter(), (TaskId(99),)), 9)).changed == 1
    assert await levels(scene, [TaskId(99)]) == [9]
    assert not (await scene.bench.node.coordinator.queue.take(10, order=LEVELS)).task_ids


@virtually
async def test_what_moves_before_it_is_made_urgent_is_looked_at_again() -> None:
    scene = await a_scene()
    ids = await scene.submit(3)
    move_after_the_look(scene, ids)
    assert (await scene.bulk.reprioritise(Selection(TaskFilter(), tuple(ids)), 9)).changed == 2
    assert await levels(scene, ids) == [0, 9, 9]


@virtually
async def test_tasks_that_go_by_their_ids_are_cancelled_without_a_look_at_their_payloads() -> None:
    scene = await a_scene()
    ids = await scene.submit(3)
    scene.bench.faults.inject("tasks.load", Fault.TIMEOUT)
    async with scene.bench.node.coordinator.signals.subscribe() as events:
        assert (await scene.bulk.cancel(Selection(TaskFilter(), tuple(ids)))).changed == 3
        assert (await hear(events)).task_type == EMAIL
    assert scene.bench.faults.pending == {"tasks.load": 1}


@virtually
async def test_no_more_than_a_hundred_payloads_are_held_at_once() -> None:
    with pytest.MonkeyPatch.context() as patch:
        scene = await a_scene()
        ids = await scene.submit(201)
        tasks, sizes = scene.bench.node.store.tasks, list[int]()
        list_page, load = tasks.list_page, tasks.load

        async def count_listed(wanted: TaskFilter) -> Page[Task]:
            page = await list_page(wanted)
            sizes.append(len(page.items))
            return page

        async def count_loaded(wanted: Sequence[TaskId]) -> dict[TaskId, Task]:
            sizes.append(len(wanted))
            return await load(wanted)

        patch.setattr(tasks, "list_page", count_listed)
        patch.setattr(tasks, "load", count_loaded)
        assert (await scene.bulk.cancel(ALL)).changed == 201
        cancelled = replace(ALL.wanted, statuses=frozenset({CANCELLED}))
        for chosen in (Selection(cancelled), Selection(TaskFilter(), tuple(ids))):
            assert (await scene.bulk.retry(chosen)).changed == 201
        assert set(sizes) == {100, 1}
