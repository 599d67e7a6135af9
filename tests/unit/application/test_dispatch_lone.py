"""The short way of a task that comes alone: it brings along what its grant needs, and the workers are known already."""

from datetime import timedelta

from rota.domain.ids import TaskId, WorkerId
from rota.domain.priority import NORMAL, URGENT
from rota.domain.queue import QueueEntry
from rota.domain.task import LiveTask
from tests.support.builders import EMAIL, a_new_task, a_state
from tests.support.stage import Stage, staged

IDLE_S = 1.5  # the leader has looked around in vain
REPORT = "report"


async def add(stage: Stage, task_id: int, *, type: str = EMAIL) -> LiveTask:
    """Add a task without queueing it."""
    state = a_state(task_id, due_at=stage.clock.now())
    await stage.truth.tasks.add([a_new_task(state.id, type=type, state=state)])
    [live] = await stage.truth.tasks.find_live([state.id])
    return live


async def push(stage: Stage, live: LiveTask) -> None:
    await stage.calm.queue.push([QueueEntry(live.id, NORMAL, added=live)])


@staged
async def test_a_lone_task_is_granted_without_reading_it_or_asking_for_workers(stage: Stage) -> None:
    await stage.hire(1)
    async with stage.reigning():
        for task_id in (1, 2):
            await stage.pass_time(IDLE_S)
            stage.calls.clear()
            await push(stage, await add(stage, task_id))
            await stage.settle()
            assert await stage.granted() == dict.fromkeys(range(1, task_id + 1), 1)
            assert {"tasks.find_live", "pool.list_alive", "queue.wait_for_work"}.isdisjoint(stage.calls)


@staged
async def test_a_lone_task_that_has_changed_since_is_read(stage: Stage) -> None:
    await stage.hire(1)
    async with stage.reigning():
        live = await add(stage, 1)
        await stage.truth.tasks.advance([live.state.amended(priority=URGENT, at=stage.clock.now())])
        await push(stage, live)
        await stage.settle()
        assert await stage.granted() == {1: 1}
        [now] = await stage.truth.tasks.find_live([TaskId(1)])
        assert (now.state.priority, now.state.attempt) == (URGENT, 1)


@staged
async def test_a_lone_task_that_was_cancelled_meanwhile_is_let_go(stage: Stage) -> None:
    await stage.hire(1)
    async with stage.reigning():
        live = await add(stage, 1)
        await stage.cancel(1)
        await push(stage, live)
        await stage.settle()
        assert await stage.granted() == {}
        assert not stage.dispatcher.is_parked(TaskId(1))


@staged
async def test_workers_that_were_known_are_asked_for_again_when_one_has_left(stage: Stage) -> None:
    await stage.hire(1)
    async with stage.reigning():
        await stage.pass_time(IDLE_S)
        await stage.calm.pool.remove([WorkerId(1)])
        await stage.hire(2)
        await push(stage, await add(stage, 1))
        await stage.settle()
        assert await stage.granted() == {1: 2}


@staged
async def test_workers_that_were_known_are_asked_for_again_when_they_seem_to_be_busy(stage: Stage) -> None:
    await stage.hire(1, capacity=1, types=frozenset({EMAIL}))
    await stage.hire(2, types=frozenset({REPORT}))
    async with stage.reigning():
        await push(stage, await add(stage, 1))
        await stage.pass_time(IDLE_S)
        await stage.finish(1)
        await push(stage, await add(stage, 2))  # of both the leader is told at once
        await stage.settle()
        assert await stage.granted() == {2: 1}


@staged
async def test_of_many_wakes_in_a_moment_the_first_asks_what_is_due_and_who_is_there(stage: Stage) -> None:
    await stage.hire(1)
    async with stage.reigning():
        await stage.pass_time(IDLE_S)
        for task_id in range(1, 6):
            await push(stage, await add(stage, task_id))
        await stage.settle()
        stage.calls.clear()
        for task_id in range(1, 6):  # each that ends wakes the leader
            await stage.finish(task_id)
            await stage.settle()
        assert stage.calls["queue.take"] >= 5
        assert stage.calls["queue.move_due"] <= 1
        assert stage.calls["pool.list_alive"] <= 1


@staged
async def test_after_many_wakes_what_is_due_is_asked_in_a_moment(stage: Stage) -> None:
    await stage.hire(1)
    async with stage.reigning():
        await stage.pass_time(IDLE_S)
        await stage.calm.queue.wake()
        await stage.settle()
        live = await add(stage, 1)
        due_at = stage.clock.now() + timedelta(milliseconds=1)
        await stage.calm.queue.push([QueueEntry(live.id, NORMAL, due_at)])
        await stage.pass_time(0.05)
        assert await stage.granted() == {1: 1}
