"""Ending attempts that nobody speaks for: silent past their deadline, or deferred and never heard of again."""

from datetime import timedelta

import pytest

from rota.application import metrics
from rota.application.recover import (
    HEARTBEAT_EVERY,
    SILENCE,
    EndSilentAttempts,
    Sight,
)
from rota.application.take_back import running_attempts
from rota.domain.errors import StoreUnavailableError
from rota.domain.events import EventKind
from rota.domain.ids import TaskId, WorkerId
from rota.domain.retry import RetryPolicy, RetryStrategy
from rota.domain.task import PROCESSING, RETRYING, TIMEOUT
from rota.testing.faults import Fault
from rota.testing.values import replace
from tests.support.builders import EMAIL, HOUR
from tests.support.scene import LEASE, Scene, a_scene, heard
from tests.support.virtual import virtually
from tests.unit.application.test_recover import recover

SETTLED_IN = (2 * HEARTBEAT_EVERY).total_seconds()
WORKER = WorkerId(1)
ONCE_MORE = RetryPolicy(max_retries=1, strategy=RetryStrategy.FIXED, delay=timedelta(seconds=10), jitter=0.0)
AT_ONCE = RetryPolicy(max_retries=1, strategy=RetryStrategy.FIXED, delay=timedelta(0))
NEVER = RetryPolicy(max_retries=0)


def an_ending(scene: Scene) -> EndSilentAttempts:
    return EndSilentAttempts(
        store=scene.store,
        coordinator=scene.coordinator,
        time=scene.time,
        random=scene.random,
        take_back=scene.take_back,
    )


@virtually
async def test_a_silent_attempt_past_its_deadline_is_tried_again_and_its_slot_is_free() -> None:
    scene = await a_scene()
    await scene.add(7, retry=ONCE_MORE)
    await scene.run_at(1, 7, within=timedelta(seconds=10))
    sight = Sight(scene.clock)
    await scene.pass_time(10 + SILENCE.total_seconds() + 1)
    await scene.join(1)
    await scene.beat(1)
    await an_ending(scene)(scene.reign, sight)
    state = await scene.state_of(7)
    assert (state.status, state.retry_count) == (RETRYING, 1)
    assert await scene.actual.deliveries.held(WORKER) == []
    assert (await scene.actual.queue.depths()).delayed == 1
    assert scene.figures.count(metrics.TASKS_RETRIED, EMAIL) == 1
    assert await scene.actual.signals.find_cancelled([TaskId(7)]) == {7}


@virtually
async def test_a_silent_attempt_that_its_worker_does_not_get_rid_of_still_fills_its_slot() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(7, retry=AT_ONCE)
    [stuck] = await scene.run_at(1, 7, within=timedelta(seconds=1))
    sight = Sight(scene.clock)
    await scene.pass_time(10)
    await scene.beat(1, stuck)
    await an_ending(scene)(scene.reign, sight)
    assert (await scene.state_of(7)).status is RETRYING
    assert (await scene.actual.queue.depths()).in_flight == {WORKER: 1}


@virtually
async def test_the_request_to_stop_is_over_before_the_next_attempt() -> None:
    scene = await a_scene()
    await scene.add(7, retry=ONCE_MORE)
    await scene.add(8, retry=AT_ONCE)
    await scene.run_at(1, 7, 8, within=timedelta(seconds=10))
    sight = Sight(scene.clock)
    await scene.pass_time(20)
    await an_ending(scene)(scene.reign, sight)
    assert await scene.actual.signals.find_cancelled([TaskId(7), TaskId(8)]) == {7}
    await scene.pass_time(9.5)  # a worker may hear the last of it a moment late
    assert await scene.actual.signals.find_cancelled([TaskId(7)]) == frozenset()
    assert await scene.queued() == [8]


@virtually
async def test_a_silent_attempt_without_a_retry_left_ends_as_timeout() -> None:
    scene = await a_scene()
    await scene.add(7, retry=NEVER)
    await scene.run_at(1, 7, within=timedelta(seconds=10))
    sight = Sight(scene.clock)
    await scene.pass_time(20)
    events = await heard(scene, lambda: an_ending(scene)(scene.reign, sight))
    assert (await scene.state_of(7)).status is TIMEOUT
    assert [event.kind for event in events] == [EventKind.TASK_FAILED]
    assert scene.figures.count(metrics.TASKS_ENDED, EMAIL, TIMEOUT) == 1
    assert await scene.actual.signals.find_cancelled([TaskId(7)]) == {7}


@virtually
async def test_a_worker_has_a_moment_to_report_after_the_deadline() -> None:
    scene = await a_scene()
    await scene.add(7)
    await scene.run_at(1, 7, within=timedelta(seconds=10))
    sight = Sight(scene.clock)
    await scene.pass_time(10 + SILENCE.total_seconds() - 0.5)
    await an_ending(scene)(scene.reign, sight)
    assert (await scene.state_of(7)).status is PROCESSING


@virtually
async def test_after_an_outage_workers_may_first_deliver_what_they_kept() -> None:
    scene = await a_scene()
    await scene.add(7)
    await scene.run_at(1, 7, within=timedelta(seconds=10))
    sight = Sight(scene.clock)
    await scene.pass_time(30)
    scene.faults.inject("tasks.list_overdue", Fault.GONE)
    with pytest.raises(StoreUnavailableError):
        await an_ending(scene)(scene.reign, sight)
    await an_ending(scene)(scene.reign, sight)
    assert (await scene.state_of(7)).status is PROCESSING
    await scene.pass_time(SETTLED_IN)
    await an_ending(scene)(scene.reign, sight)
    assert (await scene.state_of(7)).status is RETRYING


async def defer(scene: Scene, task_id: int) -> None:
    """The worker reports that a callback will end the attempt."""
    [attempt] = running_attempts([await scene.state_of(task_id)])
    await scene.actual_store.tasks.advance([(await scene.state_of(task_id)).deferred(at=scene.clock.now())])
    await scene.actual.deliveries.acknowledge([attempt])


@virtually
async def test_the_death_of_the_worker_that_began_it_leaves_a_deferred_attempt_alone() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(7)
    await scene.run_at(1, 7, within=HOUR)
    await defer(scene, 7)
    await recover(scene, Sight(scene.clock), seconds=LEASE.total_seconds() + 2)
    assert await scene.alive() == []
    state = await scene.state_of(7)
    assert (state.status, state.attempt, state.is_deferred) == (PROCESSING, 1, True)
    assert await scene.queued() == []


@virtually
async def test_a_deferred_attempt_without_a_callback_ends_at_its_deadline_and_not_before() -> None:
    scene = await a_scene()
    await scene.add(7, retry=NEVER, timeout=timedelta(seconds=10))
    await scene.run_at(1, 7, within=timedelta(seconds=10))
    await defer(scene, 7)
    sight = Sight(scene.clock)
    await scene.pass_time(9.9)
    await an_ending(scene)(scene.reign, sight)
    assert (await scene.state_of(7)).status is PROCESSING
    await scene.pass_time(0.2)
    await scene.actual.queue.wait_for_work(timedelta(0))
    assert not await scene.actual.queue.wait_for_work(timedelta(0))
    await an_ending(scene)(scene.reign, sight)
    assert await scene.actual.queue.wait_for_work(timedelta(0)), "something may wait for its room"
    task = (await scene.actual_store.tasks.load([TaskId(7)]))[TaskId(7)]
    assert (task.state.status, task.error and task.error.code) == (TIMEOUT, "timeout")
    assert task.error is not None
    assert task.error.message == "no callback came before the attempt's timeout"


@virtually
async def test_a_deferred_attempt_that_is_not_heard_of_again_ends_with_its_lease() -> None:
    scene = await a_scene()
    await scene.add(7, retry=ONCE_MORE, timeout=HOUR)
    await scene.run_at(1, 7, within=HOUR)
    await defer(scene, 7)
    state = await scene.state_of(7)
    until = scene.clock.now() + timedelta(seconds=20)
    await scene.actual_store.tasks.advance([state.prolonged(until, at=scene.clock.now())])
    sight = Sight(scene.clock)
    await scene.pass_time(20.1)
    await an_ending(scene)(scene.reign, sight)
    task = (await scene.actual_store.tasks.load([TaskId(7)]))[TaskId(7)]
    assert (task.state.status, task.state.retry_count) == (RETRYING, 1)
    assert task.error is not None
    assert task.error.message == "the heartbeats of whoever works on the attempt stopped"


@virtually
async def test_a_silent_attempt_past_its_total_timeout_is_not_tried_again() -> None:
    scene = await a_scene()
    await scene.add(7, retry=replace(ONCE_MORE, total_timeout=timedelta(seconds=15)), created_at=scene.clock.now())
    await scene.run_at(1, 7, within=timedelta(seconds=10))
    sight = Sight(scene.clock)
    await scene.pass_time(10 + SILENCE.total_seconds() + 1)
    await an_ending(scene)(scene.reign, sight)
    assert (await scene.state_of(7)).status is TIMEOUT
