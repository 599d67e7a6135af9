"""Changing a task's course from outside."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from rota.application import metrics
from rota.application.audit import Actor
from rota.application.steer import MOST_TRIES, SteerTasks
from rota.application.submit import SubmitTasks
from rota.domain.errors import ConflictError, IllegalTransitionError, InvalidError, NotFoundError
from rota.domain.events import EventKind
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.priority import LEVELS, URGENT
from rota.domain.retry import RetryPolicy
from rota.domain.submission import NewTask, Submission
from rota.domain.task import BLOCKED, CANCELLED
from rota.testing.contract.coordinator_backend import hear
from rota.testing.faults import Fault
from tests.support.builders import EMAIL, HOUR, MINUTE, NOW, a_config, a_state, a_submission, a_task
from tests.support.virtual import Bench, a_bench, virtually

ADA = Actor(tenant_id=DEFAULT_TENANT, name="ada")
URGENT_FIRST = tuple(reversed(LEVELS))


async def a_wheel(wish: Submission | None = None) -> tuple[Bench, SteerTasks, TaskId]:
    """A node with one waiting task, and the means to steer it."""
    bench = await a_bench()
    await bench.node.store.configs.put(a_config(EMAIL))
    added = await SubmitTasks(bench.node).submit(wish or a_submission())
    return bench, SteerTasks(bench.node), added.task_id


async def grant(bench: Bench, task_id: TaskId) -> None:
    task = (await bench.node.store.tasks.load([task_id]))[task_id]
    step = task.state.granted(WorkerId(5), term=1, at=bench.clock.now(), timeout=MINUTE)
    assert (await bench.node.store.tasks.advance([step])).applied == {task_id}


@virtually
async def test_a_waiting_task_is_cancelled() -> None:
    bench, steer, task_id = await a_wheel()
    async with bench.node.coordinator.signals.subscribe() as events:
        task = await steer.cancel(task_id, DEFAULT_TENANT, reason="no longer wanted")
        event = await hear(events)
    assert task.state.status is CANCELLED
    assert task.error is not None
    assert task.error.message == "no longer wanted"
    assert (event.kind, event.task_id, event.task_type) == (EventKind.TASK_CANCELLED, task_id, EMAIL)


@virtually
async def test_a_cancelled_delayed_task_leaves_the_queue() -> None:
    bench, steer, task_id = await a_wheel(a_submission(delay=HOUR))
    await steer.cancel(task_id, DEFAULT_TENANT)
    assert (await bench.node.coordinator.queue.depths()).delayed == 0


@virtually
async def test_a_running_task_is_cancelled_and_its_worker_asked_to_stop() -> None:
    bench, steer, task_id = await a_wheel()
    await grant(bench, task_id)
    task = await steer.cancel(task_id, DEFAULT_TENANT)
    assert task.state.status is CANCELLED
    assert await bench.node.coordinator.signals.find_cancelled([task_id]) == {task_id}


@virtually
async def test_a_task_that_is_cancelled_is_counted_once() -> None:
    bench, steer, task_id = await a_wheel()
    await steer.cancel(task_id, DEFAULT_TENANT)
    with pytest.raises(IllegalTransitionError):
        await steer.cancel(task_id, DEFAULT_TENANT)
    assert bench.figures.count(metrics.TASKS_ENDED, EMAIL, CANCELLED) == 1


@virtually
async def test_dispatch_is_woken_when_a_deferred_attempt_is_cancelled() -> None:
    bench, steer, task_id = await a_wheel()
    await grant(bench, task_id)
    state = (await bench.node.store.tasks.load([task_id]))[task_id].state
    await bench.node.store.tasks.advance([state.deferred(at=bench.clock.now())])
    queue = bench.node.coordinator.queue
    await queue.wait_for_work(timedelta(0))
    assert not await queue.wait_for_work(timedelta(0))
    await steer.cancel(task_id, DEFAULT_TENANT)
    assert await queue.wait_for_work(timedelta(0))


@virtually
async def test_an_ended_task_cannot_be_cancelled() -> None:
    _, steer, task_id = await a_wheel()
    await steer.cancel(task_id, DEFAULT_TENANT)
    with pytest.raises(IllegalTransitionError, match="is CANCELLED"):
        await steer.cancel(task_id, DEFAULT_TENANT)


@virtually
async def test_another_tenants_task_does_not_exist() -> None:
    _, steer, task_id = await a_wheel()
    with pytest.raises(NotFoundError):
        await steer.cancel(task_id, TenantId("stranger"))


@virtually
async def test_a_task_is_cancelled_though_the_coordinator_is_away() -> None:
    bench, steer, task_id = await a_wheel()
    bench.faults.inject("queue.discard", Fault.TIMEOUT)
    assert (await steer.cancel(task_id, DEFAULT_TENANT)).state.status is CANCELLED


@virtually
async def test_a_blocked_task_has_nothing_to_stop_in_the_coordinator() -> None:
    bench, steer, _ = await a_wheel()
    await bench.node.store.tasks.add([NewTask(a_task(99, state=a_state(99, status=BLOCKED)))])
    bench.faults.inject("queue.discard", Fault.TIMEOUT)
    await steer.amend(TaskId(99), DEFAULT_TENANT, priority=3)
    assert (await steer.cancel(TaskId(99), DEFAULT_TENANT)).state.status is CANCELLED
    assert bench.faults.pending == {"queue.discard": 1}


@virtually
async def test_a_task_that_moves_in_between_is_read_again() -> None:
    bench, steer, task_id = await a_wheel()
    tasks = bench.node.store.tasks
    found = tasks.find

    async def find_then_move(wanted: TaskId, tenant: TenantId) -> object:
        task = await found(wanted, tenant)
        if task is not None and task.state.version < 3:
            await tasks.advance([task.state.amended(priority=task.state.version, at=bench.clock.now())])
        return task

    tasks.find = find_then_move  # type: ignore[method-assign, assignment]
    assert (await steer.cancel(task_id, DEFAULT_TENANT)).state.status is CANCELLED


@virtually
async def test_a_task_that_never_stands_still_is_given_up() -> None:
    bench, steer, task_id = await a_wheel()
    tasks = bench.node.store.tasks
    found = tasks.find

    async def find_then_move(wanted: TaskId, tenant: TenantId) -> object:
        task = await found(wanted, tenant)
        assert task is not None
        await tasks.advance([task.state.amended(priority=task.state.version % 9, at=bench.clock.now())])
        return task

    tasks.find = find_then_move  # type: ignore[method-assign, assignment]
    with pytest.raises(ConflictError, match=f"changed {MOST_TRIES} times"):
        await steer.cancel(task_id, DEFAULT_TENANT)


@virtually
async def test_a_more_urgent_task_comes_first() -> None:
    bench, steer, first = await a_wheel()
    second = (await SubmitTasks(bench.node).submit(a_submission())).task_id
    await steer.amend(second, DEFAULT_TENANT, priority=URGENT)
    taken = await bench.node.coordinator.queue.take(1, order=URGENT_FIRST)
    assert taken.task_ids == (second,)
    assert first != second


@virtually
async def test_a_rescheduled_task_waits_for_its_new_time() -> None:
    bench, steer, task_id = await a_wheel(a_submission(delay=HOUR))
    task = await steer.amend(task_id, DEFAULT_TENANT, due_at=bench.clock.now() + 2 * HOUR)
    assert task.state.due_at == bench.clock.now() + 2 * HOUR
    assert (await bench.node.coordinator.queue.move_due(bench.clock.now() + HOUR, 10)).moved == 0
    await steer.amend(task_id, DEFAULT_TENANT, due_at=bench.clock.now() - timedelta(seconds=1))
    assert (await bench.node.coordinator.queue.take(1, order=URGENT_FIRST)).task_ids == (task_id,)


@virtually
async def test_two_changes_are_one_write_and_one_entry_of_the_record() -> None:
    bench, steer, task_id = await a_wheel()
    due_at = bench.clock.now() + HOUR
    task = await steer.amend(task_id, DEFAULT_TENANT, priority=URGENT, due_at=due_at, actor=ADA)
    assert (task.state.priority, task.state.due_at, task.state.version) == (URGENT, due_at, 2)
    [entry] = await bench.node.store.audit.list_page(DEFAULT_TENANT)
    assert (entry.action, entry.detail) == ("task.patch", f"priority {URGENT}, due {due_at.isoformat()}")
    queue = bench.node.coordinator.queue
    assert (await queue.move_due(due_at, 10)).moved == 1
    assert (await queue.depths()).ready[URGENT] == 1


@virtually
@pytest.mark.parametrize(
    "wish",
    [{}, {"priority": URGENT, "due_at": datetime(2026, 1, 1)}, {"priority": 10, "due_at": NOW}],  # noqa: DTZ001
)
async def test_of_two_changes_none_is_made_when_one_is_impossible(wish: dict[str, Any]) -> None:
    bench, steer, task_id = await a_wheel()
    with pytest.raises(InvalidError):
        await steer.amend(task_id, DEFAULT_TENANT, actor=ADA, **wish)
    task = await bench.node.store.tasks.find(task_id, DEFAULT_TENANT)
    assert task is not None
    assert (task.state.version, task.state.priority) == (1, 0)
    assert await bench.node.store.audit.list_page(DEFAULT_TENANT) == []


@virtually
async def test_a_task_is_amended_though_the_coordinator_is_away() -> None:
    bench, steer, task_id = await a_wheel()
    bench.faults.inject("queue.push", Fault.TIMEOUT)
    assert (await steer.amend(task_id, DEFAULT_TENANT, priority=URGENT)).state.priority == URGENT


@virtually
async def test_who_changed_a_task_is_recorded() -> None:
    bench, steer, task_id = await a_wheel(a_submission(delay=HOUR))
    due_at = bench.clock.now() + 2 * HOUR
    await steer.amend(task_id, DEFAULT_TENANT, priority=URGENT, actor=ADA)
    await steer.amend(task_id, DEFAULT_TENANT, due_at=due_at, actor=ADA)
    await steer.cancel(task_id, DEFAULT_TENANT, reason="not said in public", actor=ADA)
    entries = await bench.node.store.audit.list_page(DEFAULT_TENANT)
    assert [(entry.action, entry.detail) for entry in entries[::-1]] == [
        ("task.patch", f"priority {URGENT}"),
        ("task.patch", f"due {due_at.isoformat()}"),
        ("task.cancel", ""),
    ]
    assert {(entry.actor, entry.object) for entry in entries} == {("ada", str(task_id))}


@virtually
async def test_what_did_not_happen_is_not_recorded() -> None:
    bench, steer, task_id = await a_wheel()
    with pytest.raises(NotFoundError):
        await steer.cancel(TaskId(99), DEFAULT_TENANT, actor=ADA)
    await steer.cancel(task_id, DEFAULT_TENANT)
    with pytest.raises(IllegalTransitionError):
        await steer.cancel(task_id, DEFAULT_TENANT, actor=ADA)
    assert await bench.node.store.audit.list_page(DEFAULT_TENANT) == []


@virtually
async def test_a_task_is_not_moved_to_where_its_total_timeout_has_ended() -> None:
    wish = a_submission(retry=RetryPolicy(total_timeout=HOUR))
    bench, steer, task_id = await a_wheel(wish)
    now = bench.clock.now()
    with pytest.raises(InvalidError, match="total timeout"):
        await steer.amend(task_id, DEFAULT_TENANT, due_at=now + HOUR)
    moved = await steer.amend(task_id, DEFAULT_TENANT, due_at=now + MINUTE)
    assert moved.state.due_at == now + MINUTE
