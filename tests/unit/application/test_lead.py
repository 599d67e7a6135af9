"""All duties of a leader together."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from rota.application import metrics
from rota.application.chronicle import Chronicle
from rota.application.elect import Leadership
from rota.application.fire import FireSchedules
from rota.application.lead import (
    HAND_BACK_WITHIN,
    HEAD_START,
    RETAIN_EVERY,
    SOON,
    UNSETTLED_FOR,
    Mend,
    Pace,
    SchedulerDuties,
    Watchfulness,
)
from rota.application.loop import FatalError, Loops
from rota.application.observe import Observe
from rota.application.rebuild import RebuildQueues
from rota.application.reconcile import SETTLED, ReconcileDeliveries, ReconcileQueue
from rota.application.recover import HEARTBEAT_EVERY, WORKER_LEASE, BlindError, EndSilentAttempts, RecoverLostWorkers
from rota.application.reign import Reign
from rota.application.retain import Retain
from rota.application.roll_up import RollUp
from rota.domain.errors import CoordinatorUnavailableError, FencedError
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.queue import QueueEntry
from rota.domain.task import PENDING
from rota.testing.faults import Fault
from tests.support.builders import HOUR, a_worker
from tests.support.scene import BEAT, LEASE, Scene, a_scene
from tests.support.virtual import virtually

NODE = NodeId("a")


class ScriptedDispatcher:
    """Dispatches nothing; does what a test wants instead."""

    def __init__(self, scene: Scene, *failures: BaseException) -> None:
        self._scene = scene
        self._failures = list(failures)
        self.parked: set[int] = set()
        self.distrusts_until = 0.0
        self.distrusts: list[float] = []  # when it was told to
        self.runs = 0
        self.is_running = False
        self.first_look_takes = timedelta(0)
        self.hand_backs = 0
        self.hand_back_takes = timedelta(0)
        self.hand_back_failure: Exception | None = None

    async def run(self, reign: Reign, *, on_look: Callable[[], None]) -> None:
        self.runs += 1
        reign.check()
        self.is_running = True
        try:
            if self._failures:
                raise self._failures.pop(0)
            await self._scene.clock.sleep(self.first_look_takes)
            on_look()
            await self._scene.clock.sleep(timedelta(days=365))
        finally:
            self.is_running = False

    def is_parked(self, task_id: TaskId) -> bool:
        return task_id in self.parked

    def distrust_loads(self, period: timedelta) -> None:
        self.distrusts.append(self._scene.clock.monotonic())
        self.distrusts_until = self._scene.clock.monotonic() + period.total_seconds()

    async def hand_back(self) -> None:
        assert not self.is_running
        self.hand_backs += 1
        await self._scene.clock.sleep(self.hand_back_takes)
        if self.hand_back_failure is not None:
            raise self.hand_back_failure


def duties(scene: Scene, dispatcher: ScriptedDispatcher) -> SchedulerDuties:
    store, coordinator, time, figures = scene.store, scene.coordinator, scene.time, scene.figures
    rebuild = RebuildQueues(tasks=store.tasks, queue=coordinator.queue, time=time, collector=figures, node_id=NODE)
    take_back = scene.take_back
    return SchedulerDuties(
        loops=Loops(scene.clock, scene.random, figures),
        pace=Pace(),
        dispatcher=dispatcher,
        rebuild=rebuild,
        recover=RecoverLostWorkers(
            store=store, coordinator=coordinator, time=time, collector=figures, take_back=take_back
        ),
        end_silent=EndSilentAttempts(
            store=store, coordinator=coordinator, time=time, random=scene.random, take_back=take_back
        ),
        reconcile_queue=ReconcileQueue(
            store=store, coordinator=coordinator, time=time, clock=scene.clock, collector=figures, rebuild=rebuild
        ),
        reconcile_deliveries=ReconcileDeliveries(
            store=store, coordinator=coordinator, time=time, collector=figures, take_back=take_back
        ),
        fire=FireSchedules(scene.node),
        retain=Retain(store=store, time=time, clock=scene.clock),
        observe=Observe(tasks=store.tasks, queue=coordinator.queue, pool=coordinator.pool, collector=figures),
        roll_up=RollUp(reports=store.reports, time=time, clock=scene.clock),
        chronicle=Chronicle(scene.node),
    )


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@virtually
async def test_a_leader_repairs_what_its_predecessor_left_behind() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(1, 2)
    await scene.run_at(1, 1, within=HOUR)
    leading = asyncio.create_task(duties(scene, ScriptedDispatcher(scene))(scene.reign))
    await scene.pass_time(LEASE.total_seconds() + 2)
    assert (await scene.state_of(1)).status is PENDING
    assert set(await scene.queued()) == {1, 2}
    assert scene.figures.gauge(metrics.TASKS, PENDING) is not None
    await stop(leading)


@virtually
async def test_a_stop_ends_the_duties_and_then_hands_back_what_is_parked() -> None:
    scene = await a_scene()
    dispatcher = ScriptedDispatcher(scene)
    leading = asyncio.create_task(duties(scene, dispatcher)(scene.reign))
    await scene.pass_time(10)
    assert (dispatcher.is_running, dispatcher.hand_backs) == (True, 0)
    await stop(leading)
    assert (dispatcher.is_running, dispatcher.hand_backs) == (False, 1)
    assert scene.figures.gauges == {}


@virtually
async def test_a_new_leader_dispatches_before_it_does_anything_else() -> None:
    scene = await a_scene()
    dispatcher = ScriptedDispatcher(scene)
    dispatcher.first_look_takes = HEAD_START / 2
    for operation in OPERATIONS.values():
        scene.faults.inject(operation, Fault.TIMEOUT)
    leading = asyncio.create_task(duties(scene, dispatcher)(scene.reign))
    await scene.pass_time(dispatcher.first_look_takes.total_seconds() * 0.9)
    assert len(scene.faults.pending) == len(OPERATIONS), "nothing was asked for yet"
    await scene.pass_time(dispatcher.first_look_takes.total_seconds() * 0.2)
    assert scene.faults.pending == {}
    await stop(leading)


@virtually
async def test_a_dispatch_that_gets_no_answer_does_not_keep_the_other_duties_waiting() -> None:
    scene = await a_scene()
    dispatcher = ScriptedDispatcher(scene)
    dispatcher.first_look_takes = HOUR
    for operation in OPERATIONS.values():
        scene.faults.inject(operation, Fault.TIMEOUT)
    leading = asyncio.create_task(duties(scene, dispatcher)(scene.reign))
    await scene.pass_time(HEAD_START.total_seconds() + 0.1)
    assert scene.faults.pending == {}
    await stop(leading)


OPERATIONS = {
    "rebuild": "queue.find_generation",
    "recover": "workers.list_all",
    "end_silent": "tasks.list_overdue",
    "reconcile_queue": "tasks.list_due",
    "reconcile_deliveries": "tasks.list_running",
    "fire": "schedules.list_due",
    "retain": "tasks.purge",
    "observe": "tasks.count_by_status",
}


@pytest.mark.parametrize("duty", OPERATIONS)
def test_a_duty_that_fails_is_counted_and_goes_on(duty: str) -> None:
    @virtually
    async def story() -> None:
        scene = await a_scene()
        operation = OPERATIONS[duty]
        leading = asyncio.create_task(duties(scene, ScriptedDispatcher(scene))(scene.reign))
        await scene.pass_time(8.5)  # past what follows the first rebuild
        scene.faults.inject(operation, Fault.TIMEOUT, times=2)
        await scene.pass_time(2 * RETAIN_EVERY.total_seconds() + 5)
        assert scene.faults.pending == {}
        assert scene.figures.count(metrics.LOOP_FAILURES, duty) == 2
        scene.faults.inject(operation, Fault.TIMEOUT)
        await scene.pass_time(RETAIN_EVERY.total_seconds())
        assert scene.faults.pending == {}, "it did not go on"
        assert not leading.done()
        await stop(leading)

    story()


@virtually
async def test_dispatch_that_fails_is_counted_and_goes_on() -> None:
    scene = await a_scene()
    dispatcher = ScriptedDispatcher(scene, RuntimeError("broken"), CoordinatorUnavailableError("away"))
    leading = asyncio.create_task(duties(scene, dispatcher)(scene.reign))
    await scene.pass_time(5)
    assert (dispatcher.runs, dispatcher.is_running) == (3, True)
    assert scene.figures.count(metrics.LOOP_FAILURES, "dispatch") == 2
    await stop(leading)


@virtually
async def test_what_is_parked_is_known_to_reconciliation() -> None:
    scene = await a_scene()
    dispatcher = ScriptedDispatcher(scene)
    dispatcher.parked = {1}
    leading = asyncio.create_task(duties(scene, dispatcher)(scene.reign))
    await scene.pass_time(5)
    await scene.add(1, 2)
    await scene.pass_time((Pace().reconcile_every + SETTLED + SOON).total_seconds())
    assert await scene.queued() == [2]
    await stop(leading)


@virtually
async def test_what_died_with_the_leader_before_waits_no_longer_than_it_takes_to_settle() -> None:
    scene = await a_scene()
    await scene.add(1)  # in no queue, as if it had been in the hand of a leader that died
    await scene.pass_time(SETTLED.total_seconds() - 1)
    leading = asyncio.create_task(duties(scene, ScriptedDispatcher(scene))(scene.reign))
    await scene.pass_time((2 * SOON).total_seconds())
    assert set(await scene.queued()) == {1}
    await stop(leading)


CALM_AFTER = UNSETTLED_FOR + 10.5  # past what follows the beginning of a reign, between two looks at all
SOON_FOUND = SETTLED.total_seconds() + 3


async def lead_calmly(scene: Scene) -> "asyncio.Task[None]":
    """A leader that has settled down, with a worker and one task that has waited: it will not look again for long."""
    await scene.join(1)
    await scene.add(1)
    leading = asyncio.create_task(_run(duties(scene, ScriptedDispatcher(scene)), scene))
    while scene.clock.monotonic() < CALM_AFTER:
        await scene.beat(1)
        await scene.pass_time(BEAT.total_seconds())
    await scene.queued()
    return leading


async def live_on(scene: Scene, seconds: float) -> None:
    for _ in range(int(seconds / BEAT.total_seconds()) + 1):
        await scene.beat(1)
        await scene.pass_time(BEAT.total_seconds())


@virtually
async def test_what_a_call_without_an_answer_took_from_the_queue_is_missed_soon() -> None:
    scene = await a_scene()
    leading = await lead_calmly(scene)
    await scene.add(2)
    await live_on(scene, SOON_FOUND)
    assert 2 not in await scene.queued(), "nothing hints at it, and there is a backlog: the next comparison finds it"
    scene.faults.inject("queue.find_generation", Fault.TIMEOUT)  # as any call of the leader
    await live_on(scene, 2)
    assert 2 in await scene.queued()
    await stop(leading)


@virtually
async def test_a_grant_that_was_written_long_after_it_was_given_up_is_handed_over_soon() -> None:
    scene = await a_scene()
    leading = await lead_calmly(scene)
    scene.faults.inject("queue.find_generation", Fault.TIMEOUT)
    await live_on(scene, SETTLED.total_seconds())
    granted = await scene.grant(1, within=HOUR)
    await live_on(scene, SOON_FOUND)
    assert await scene.actual.deliveries.list_assigned(WorkerId(1)) == granted
    await stop(leading)


@virtually
async def test_what_was_granted_to_a_worker_while_it_was_given_up_is_taken_back_soon() -> None:
    scene = await a_scene()
    leading = await lead_calmly(scene)
    await scene.actual_store.workers.register(a_worker(2))
    await live_on(scene, LEASE.total_seconds() + 1)
    assert await scene.alive() == [1]
    await scene.grant(1, worker_id=2, within=HOUR)
    await live_on(scene, SOON_FOUND)
    assert (await scene.state_of(1)).status is PENDING
    await stop(leading)


@virtually
async def test_where_nothing_waits_a_lost_push_is_found_soon() -> None:
    scene = await a_scene()
    leading = asyncio.create_task(_run(duties(scene, ScriptedDispatcher(scene)), scene))
    await scene.pass_time(UNSETTLED_FOR + 1)
    await scene.add(1)
    await scene.pass_time(2 * SETTLED.total_seconds() + 2)
    assert await scene.queued() == [1]
    await stop(leading)


@virtually
async def test_a_duty_that_learns_of_the_end_of_the_reign_ends_all() -> None:
    scene = await a_scene()
    dispatcher = ScriptedDispatcher(scene)
    leading = asyncio.create_task(duties(scene, dispatcher)(scene.reign))
    await scene.pass_time(5)
    scene.reign.end()
    scene.memory.forget()  # so that a duty wants to act
    await asyncio.wait_for(leading, 2)
    assert dispatcher.hand_backs == 1


@virtually
async def test_a_duty_that_something_cancels_ends_all() -> None:
    scene = await a_scene()
    dispatcher = ScriptedDispatcher(scene, asyncio.CancelledError())
    await asyncio.wait_for(duties(scene, dispatcher)(scene.reign), 2)
    assert (dispatcher.runs, dispatcher.hand_backs) == (1, 1)


@virtually
async def test_a_reign_that_is_over_before_it_began_ends_at_once() -> None:
    scene = await a_scene()
    dispatcher = ScriptedDispatcher(scene, FencedError("term", seen=1, current=2))
    await asyncio.wait_for(duties(scene, dispatcher)(scene.reign), 1)
    assert scene.figures.count(metrics.LOOP_FAILURES, "dispatch") == 0


@virtually
async def test_a_leader_that_stays_blind_ends_its_reign() -> None:
    scene = await a_scene()
    dispatcher = ScriptedDispatcher(scene, BlindError("cannot see"))
    await asyncio.wait_for(duties(scene, dispatcher)(scene.reign), 1)
    assert scene.figures.count(metrics.LOOP_FAILURES, "dispatch") == 0


@virtually
async def test_a_fatal_error_comes_through_as_itself() -> None:
    scene = await a_scene()
    dispatcher = ScriptedDispatcher(scene, FatalError("no way on"))
    with pytest.raises(FatalError, match="no way on"):
        await duties(scene, dispatcher)(scene.reign)
    assert dispatcher.hand_backs == 1


@pytest.mark.parametrize("is_slow", [True, False])
def test_a_hand_back_that_fails_or_hangs_does_not_hold_up_the_stop(is_slow: bool) -> None:
    @virtually
    async def story() -> None:
        scene = await a_scene()
        dispatcher = ScriptedDispatcher(scene)
        dispatcher.hand_back_takes = HOUR if is_slow else timedelta(0)
        dispatcher.hand_back_failure = CoordinatorUnavailableError("away")
        leading = asyncio.create_task(duties(scene, dispatcher)(scene.reign))
        await scene.pass_time(5)
        before = scene.clock.monotonic()
        await stop(leading)
        assert scene.clock.monotonic() - before <= HAND_BACK_WITHIN.total_seconds() + 0.1

    story()


@virtually
async def test_a_node_leads_with_all_its_duties_and_hands_over_to_the_next() -> None:
    scene = await a_scene()
    dispatchers = [ScriptedDispatcher(scene), ScriptedDispatcher(scene)]
    nodes = [
        asyncio.create_task(_node(scene, name).run(duties(scene, dispatcher)))
        for name, dispatcher in zip("ab", dispatchers, strict=True)
    ]
    await scene.pass_time(10)
    assert [one.is_running for one in dispatchers] == [True, False]
    await stop(nodes[0])
    await scene.pass_time(1)
    assert [one.is_running for one in dispatchers] == [False, True]
    assert [one.hand_backs for one in dispatchers] == [1, 0]
    await stop(nodes[1])


def _node(scene: Scene, name: str) -> Leadership:
    return Leadership(
        election=scene.coordinator.election,
        terms=scene.store.terms,
        clock=scene.clock,
        random=scene.random,
        collector=scene.figures,
        node_id=NodeId(name),
    )


@virtually
async def test_a_lost_memory_delays_what_was_handed_over_by_seconds_only() -> None:
    scene = await a_scene()
    running = asyncio.create_task(_run(duties(scene, ScriptedDispatcher(scene)), scene))
    await scene.pass_time(8)  # past the reconciliation that follows the first rebuild
    await scene.join(1)
    await scene.add(7)
    held = await scene.grant(7)
    await scene.actual.deliveries.assign(held)
    scene.memory.forget()
    for _ in range(3):
        await scene.beat(1)
        await scene.pass_time(3)
    assert await scene.actual.deliveries.list_assigned(WorkerId(1)) == held
    await stop(running)


@virtually
async def test_depths_are_distrusted_from_before_a_rebuild_until_the_workers_have_reported() -> None:
    scene = await a_scene()
    dispatcher = ScriptedDispatcher(scene)
    lead = duties(scene, dispatcher)
    mend = Mend(lead, scene.reign, Watchfulness(lead.loops, lead.pace, scene.clock.monotonic()))
    await mend()
    dispatcher.distrusts.clear()
    await scene.pass_time(60)
    await mend()
    assert dispatcher.distrusts == [], "a memory that is there is trusted"
    scene.memory.forget()
    scene.faults.inject("queue.rebuild", Fault.TIMEOUT)
    with pytest.raises(CoordinatorUnavailableError):
        await mend()
    assert len(dispatcher.distrusts) == 1
    await mend()
    assert len(dispatcher.distrusts) == 3
    wanted = WORKER_LEASE + HEARTBEAT_EVERY
    assert dispatcher.distrusts_until == scene.clock.monotonic() + wanted.total_seconds()


async def _run(lead: SchedulerDuties, scene: Scene) -> None:
    await lead(scene.reign)


@virtually
async def test_a_changed_pace_counts_from_the_next_turn_on() -> None:
    scene = await a_scene()
    lead = duties(scene, ScriptedDispatcher(scene))
    running = asyncio.create_task(_run(lead, scene))
    await scene.pass_time(1)
    lead.pace.reconcile_every = timedelta(seconds=2)
    await scene.pass_time(31)
    scene.faults.inject("tasks.list_due", Fault.TIMEOUT, times=None)
    await scene.pass_time(2)
    assert scene.figures.count(metrics.LOOP_FAILURES, "reconcile_queue") >= 1
    await stop(running)


@virtually
async def test_the_queues_are_compared_often_for_a_while_after_another_scheduler_is_gone() -> None:
    """What it had taken and not granted is in no queue."""
    scene = await a_scene()
    assistance = scene.coordinator.assistance
    assert assistance is not None
    asked = replace(duties(scene, ScriptedDispatcher(scene)), assistance=assistance)
    asked.pace.reconcile_every = HOUR
    seat = await assistance.join(NodeId("other"), HOUR)
    leading = asyncio.create_task(asked(scene.reign))
    await scene.add(9)
    await scene.actual.queue.push([QueueEntry(TaskId(9), 0)])  # with a backlog the next comparison is an hour off
    await scene.pass_time(60)
    await scene.add(1)
    await scene.pass_time(60)
    assert 1 not in await scene.queued()
    await scene.actual.queue.push([QueueEntry(TaskId(9), 0)])
    await assistance.leave(NodeId("other"), seat)
    await scene.pass_time(SETTLED.total_seconds())
    assert 1 in await scene.queued()
    await stop(leading)
