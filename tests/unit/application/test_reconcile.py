"""Repairing what store and coordinator disagree about."""

import pytest

from rota.application import metrics
from rota.application.rebuild import RebuildQueues
from rota.application.reconcile import LATE, REBUILD_SELDOM, SETTLED, ReconcileDeliveries, ReconcileQueue
from rota.application.reign import Reign
from rota.domain.attempt import TaskResult
from rota.domain.errors import FencedError
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.task import PENDING, PROCESSING
from rota.domain.term import Term
from rota.testing.faults import Fault
from tests.support.builders import EMAIL, HOUR, an_attempt, an_entry
from tests.support.scene import LEASE, Scene, a_scene, ids
from tests.support.virtual import virtually

WORKER = WorkerId(1)
LONG_ENOUGH = SETTLED.total_seconds() + 1


def a_queue_check(scene: Scene, batch: int = 5) -> ReconcileQueue:
    rebuild = RebuildQueues(
        tasks=scene.store.tasks,
        queue=scene.coordinator.queue,
        time=scene.time,
        collector=scene.figures,
        node_id=NodeId("a"),
    )
    return ReconcileQueue(
        store=scene.store,
        coordinator=scene.coordinator,
        time=scene.time,
        clock=scene.clock,
        collector=scene.figures,
        rebuild=rebuild,
        batch=batch,
    )


def a_delivery_check(scene: Scene) -> ReconcileDeliveries:
    return ReconcileDeliveries(
        store=scene.store,
        coordinator=scene.coordinator,
        time=scene.time,
        collector=scene.figures,
        take_back=scene.take_back,
    )


def nothing_parked(_: TaskId) -> bool:
    return False


@virtually
async def test_a_task_whose_push_was_lost_is_pushed() -> None:
    scene = await a_scene()
    await scene.add(1, 2)
    await scene.add(3, due_in=HOUR)
    await scene.pass_time(LONG_ENOUGH)
    await a_queue_check(scene)(scene.reign, nothing_parked)
    assert await scene.queued() == [1, 2]
    assert scene.figures.count(metrics.RECONCILED, "pushed") == 2


@virtually
async def test_a_push_that_may_still_be_under_way_is_waited_for() -> None:
    scene = await a_scene()
    await scene.add(1)
    await scene.pass_time(SETTLED.total_seconds() - 1)
    await a_queue_check(scene)(scene.reign, nothing_parked)
    assert await scene.queued() == []
    assert scene.figures.count(metrics.RECONCILED, "pushed") == 0


@virtually
async def test_looks_that_follow_each_other_closely_queue_nothing_twice() -> None:
    scene = await a_scene()
    check = a_queue_check(scene)
    await scene.add(1)
    await scene.pass_time(1)
    await scene.add(2)
    await scene.pass_time(SETTLED.total_seconds() - 0.5)
    await check(scene.reign, nothing_parked)
    await scene.pass_time(1)
    await check(scene.reign, nothing_parked)
    await scene.pass_time(1)
    await check(scene.reign, nothing_parked)
    assert await scene.queued() == [1, 2]
    assert scene.figures.count(metrics.RECONCILED, "pushed") == 2


@virtually
async def test_what_is_handed_back_between_two_looks_with_a_due_time_of_long_ago_is_queued() -> None:
    scene = await a_scene()
    check = a_queue_check(scene)
    await scene.add(1)
    await scene.run_at(1, 1, within=HOUR)
    ended_at = scene.clock.now()
    await scene.pass_time(LONG_ENOUGH)
    await check(scene.reign, nothing_parked)
    await scene.pass_time(1)  # only now does the worker reach the store, and it never reaches the queue
    released = (await scene.state_of(1)).released("unheard", at=scene.clock.now(), due_at=ended_at)
    await scene.actual_store.tasks.advance([released])
    await check(scene.reign, nothing_parked)
    assert await scene.queued() == [1]


@virtually
async def test_what_another_reign_queued_is_queued_again() -> None:
    scene = await a_scene()
    check = a_queue_check(scene)
    await scene.add(1)
    await scene.pass_time(LONG_ENOUGH)
    for term in (1, 2):
        await check(Reign(Term(term, trusted_until=float("inf")), scene.clock), nothing_parked)
        assert await scene.queued() == [1]


@virtually
async def test_an_empty_queue_lacks_what_waits_however_lately_it_was_queued() -> None:
    scene = await a_scene()
    check = a_queue_check(scene)
    await scene.add(1)
    await scene.pass_time(LONG_ENOUGH)
    for _ in range(3):
        assert await check(scene.reign, nothing_parked)
        assert await scene.queued() == [1]  # taken, and lost once more


@virtually
async def test_a_look_says_whether_there_is_a_backlog() -> None:
    scene = await a_scene()
    check = a_queue_check(scene)
    await scene.add(1)
    await scene.actual.queue.push([an_entry(1)])
    assert await check(scene.reign, nothing_parked), "it has just come"
    await scene.pass_time(LONG_ENOUGH)
    assert not await check(scene.reign, nothing_parked)
    assert await check(scene.reign, lambda _: True)
    await scene.actual.queue.push([an_entry(task_id) for task_id in range(1, 11)])
    assert not await check(scene.reign, lambda _: True), "a deep queue costs more to look at"


@virtually
async def test_what_was_queued_again_and_is_missing_once_more_is_found_by_a_later_look() -> None:
    scene = await a_scene()
    check = a_queue_check(scene)
    await scene.add(1)
    await scene.pass_time(LONG_ENOUGH)
    await check(scene.reign, nothing_parked)
    assert await scene.queued() == [1]  # taken, and lost once more
    await scene.pass_time(LONG_ENOUGH)
    await check(scene.reign, nothing_parked)
    assert await scene.queued() == [1]


@virtually
async def test_what_is_parked_is_not_missing() -> None:
    scene = await a_scene()
    await scene.add(1, 2)
    await scene.pass_time(LONG_ENOUGH)
    await a_queue_check(scene)(scene.reign, lambda task_id: task_id == 1)
    assert await scene.queued() == [2]


@virtually
async def test_many_parked_tasks_do_not_hide_a_missing_one() -> None:
    scene = await a_scene()
    await scene.add(*range(1, 21))
    await scene.pass_time(1)
    await scene.add(21)
    await scene.pass_time(LONG_ENOUGH)
    await a_queue_check(scene)(scene.reign, lambda task_id: task_id <= 20)
    assert await scene.queued() == [21]


@virtually
async def test_a_backlog_in_good_order_is_no_repair() -> None:
    scene = await a_scene()
    await scene.add(*range(1, 101))
    await scene.actual.queue.push([an_entry(task_id) for task_id in range(1, 101)])
    for _ in range(2):  # nobody has room, and so nobody takes them
        await scene.pass_time(LONG_ENOUGH)
        await a_queue_check(scene, batch=500)(scene.reign, nothing_parked)
    assert scene.figures.counts == {}


@virtually
async def test_what_a_backlog_lacks_is_pushed_and_counted() -> None:
    scene = await a_scene()
    await scene.add(*range(1, 101))
    await scene.actual.queue.push([an_entry(task_id) for task_id in range(1, 99)])
    await scene.pass_time(LONG_ENOUGH)
    await a_queue_check(scene, batch=500)(scene.reign, nothing_parked)
    assert set(await scene.queued()) == set(ids(range(1, 101)))
    assert scene.figures.count(metrics.RECONCILED, "pushed") == 2


@virtually
async def test_a_deep_queue_is_not_filled_with_doubles() -> None:
    scene = await a_scene()
    await scene.add(*range(1, 11))
    await scene.actual.queue.push([an_entry(task_id) for task_id in range(1, 11)])
    await scene.pass_time(LONG_ENOUGH)
    await a_queue_check(scene)(scene.reign, nothing_parked)
    assert await scene.queued() == ids(range(1, 11))


@virtually
async def test_a_deep_queue_that_lacks_older_tasks_is_rebuilt_but_seldom() -> None:
    scene = await a_scene()
    check = a_queue_check(scene)
    await scene.add(1)  # its push was lost
    await scene.pass_time(LATE.total_seconds() + 1)
    await scene.add(*range(2, 12))
    await scene.actual.queue.push([an_entry(task_id) for task_id in range(2, 12)])
    await check(scene.reign, nothing_parked)
    assert (await scene.actual.queue.take(1, order=[0])).task_ids == (1,)
    assert scene.figures.count(metrics.RECONCILED, "rebuilt") == 1
    await check(scene.reign, nothing_parked)
    assert scene.figures.count(metrics.RECONCILED, "rebuilt") == 1
    await scene.pass_time(REBUILD_SELDOM.total_seconds())
    await check(scene.reign, nothing_parked)
    assert scene.figures.count(metrics.RECONCILED, "rebuilt") == 2


@virtually
async def test_parked_tasks_do_not_hide_what_a_deep_queue_lacks() -> None:
    scene = await a_scene()
    await scene.add(1, 2, 3)
    await scene.pass_time(LATE.total_seconds() + 1)
    await scene.add(*range(4, 14))
    await scene.actual.queue.push([an_entry(task_id) for task_id in range(4, 14)])
    await a_queue_check(scene)(scene.reign, lambda task_id: task_id <= 2)
    assert scene.figures.count(metrics.RECONCILED, "rebuilt") == 1


@virtually
async def test_a_deep_queue_whose_heads_are_oldest_is_left_alone() -> None:
    scene = await a_scene()
    await scene.add(1)
    await scene.actual.queue.push([an_entry(1)])
    await scene.pass_time(LATE.total_seconds() + 1)
    await scene.add(*range(2, 12))
    await scene.actual.queue.push([an_entry(task_id, priority=9) for task_id in range(2, 12)])
    await a_queue_check(scene)(scene.reign, nothing_parked)
    assert scene.figures.count(metrics.RECONCILED, "rebuilt") == 0


@virtually
async def test_heads_that_no_longer_wait_say_nothing_about_the_queue() -> None:
    scene = await a_scene()
    await scene.add(1)
    await scene.pass_time(LATE.total_seconds() + 1)
    await scene.actual.queue.push([an_entry(task_id) for task_id in range(100, 110)])  # all ended long ago
    await a_queue_check(scene)(scene.reign, nothing_parked)
    assert scene.figures.count(metrics.RECONCILED, "rebuilt") == 0


@virtually
async def test_a_deep_queue_while_nothing_is_due_is_left_alone() -> None:
    scene = await a_scene()
    await scene.actual.queue.push([an_entry(task_id) for task_id in range(100, 110)])
    await a_queue_check(scene)(scene.reign, nothing_parked)
    assert scene.figures.counts == {}


@virtually
async def test_an_attempt_that_was_never_handed_over_is_assigned_again() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(1, 2, 3)
    lost = await scene.grant(1, within=HOUR)
    await scene.run_at(1, 2, within=HOUR)
    waiting = await scene.grant(3, within=HOUR)
    await scene.actual.deliveries.assign(waiting)
    await scene.pass_time(LONG_ENOUGH)
    await a_delivery_check(scene)(scene.reign)
    assert await scene.actual.deliveries.list_assigned(WORKER) == [*waiting, *lost]
    assert scene.figures.count(metrics.RECONCILED, "assigned") == 1


@virtually
async def test_a_hand_over_that_may_still_be_under_way_is_waited_for() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(1)
    await scene.grant(1, within=HOUR)
    await scene.pass_time(SETTLED.total_seconds() - 1)
    await a_delivery_check(scene)(scene.reign)
    assert await scene.actual.deliveries.list_assigned(WORKER) == []


@virtually
async def test_all_attempts_are_assigned_again_after_a_lost_memory() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(*range(1, 6))
    attempts = await scene.run_at(1, *range(1, 6), within=HOUR)
    await scene.pass_time(LONG_ENOUGH)
    scene.memory.forget()
    await scene.beat(1)
    await a_delivery_check(scene)(scene.reign)
    assert await scene.actual.deliveries.list_assigned(WORKER) == attempts


@virtually
async def test_an_attempt_that_ended_while_we_looked_is_not_assigned_again() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(1)
    await scene.grant(1, within=HOUR)
    await scene.pass_time(LONG_ENOUGH)
    check = a_delivery_check(scene)
    settled = await scene.actual_store.tasks.list_held(WORKER)
    await scene.actual_store.tasks.advance([settled[0].state.succeeded(TaskResult(), at=scene.clock.now())])
    await check._assign_again(WORKER, settled, reign=scene.reign)
    assert await scene.actual.deliveries.list_assigned(WORKER) == []


@virtually
async def test_in_flight_entries_that_the_store_knows_nothing_of_are_forgotten() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(1, 2, 3)
    kept, ended, moved = await scene.run_at(1, 1, 2, 3, within=HOUR)
    state = await scene.state_of(ended.task_id)
    lost = (await scene.state_of(moved.task_id)).lost(at=scene.clock.now())
    await scene.actual_store.tasks.advance([state.succeeded(TaskResult(), at=scene.clock.now()), lost])
    [again] = await scene.run_at(1, 3, within=HOUR)
    await scene.beat(1, kept, again)
    check = a_delivery_check(scene)
    assert await check(scene.reign)
    assert await check(scene.reign)
    held = await scene.actual.deliveries.held(WORKER)
    assert [(one.task_id, one.number) for one in held] == [(kept.task_id, 1), (moved.task_id, 2)]
    assert scene.figures.count(metrics.RECONCILED, "forgotten") == 2
    assert not await check(scene.reign)


@virtually
async def test_what_is_acknowledged_a_moment_after_it_ended_is_no_repair() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(1, 2)
    check = a_delivery_check(scene)
    for number in (1, 2):
        [attempt] = await scene.run_at(1, number, within=HOUR)
        state = await scene.state_of(number)
        await scene.actual_store.tasks.advance([state.succeeded(TaskResult(), at=scene.clock.now())])
        await scene.beat(1)
        assert await check(scene.reign)
        assert await scene.actual.deliveries.held(WORKER) == [attempt]
        await scene.actual.deliveries.acknowledge([attempt])
    assert scene.figures.counts == {}


@virtually
async def test_what_a_worker_still_holds_fills_its_slot_until_the_worker_lets_go() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(1)
    [cancelled] = await scene.run_at(1, 1, within=HOUR)
    await scene.actual_store.tasks.advance([(await scene.state_of(1)).cancelled("", at=scene.clock.now())])
    check = a_delivery_check(scene)
    await check(scene.reign)  # it has not said anything since it joined
    assert await scene.actual.deliveries.held(WORKER) == [cancelled]
    await scene.beat(1, cancelled)
    await check(scene.reign)
    assert await scene.actual.deliveries.held(WORKER) == [cancelled]
    assert scene.figures.counts == {}
    await scene.beat(1)
    await check(scene.reign)
    assert await scene.actual.deliveries.held(WORKER) == []
    assert scene.figures.count(metrics.RECONCILED, "forgotten") == 1


@virtually
async def test_what_was_granted_to_a_worker_in_the_moment_it_ended_is_taken_back() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.join(2)
    await scene.add(1, 2)
    await scene.actual_store.workers.retire([WORKER])
    await scene.actual.pool.remove([WORKER])
    await scene.grant(1, worker_id=1, within=HOUR)
    await scene.run_at(2, 2, within=HOUR)
    await scene.pass_time(LONG_ENOUGH)
    await a_delivery_check(scene)(scene.reign)
    assert [(await scene.state_of(task_id)).status for task_id in (1, 2)] == [PENDING, PROCESSING]
    assert await scene.queued() == [1]
    assert scene.figures.count(metrics.RECONCILED, "taken_back") == 1
    assert scene.figures.count(metrics.ATTEMPTS_LOST, EMAIL) == 1


@virtually
async def test_the_attempts_of_a_worker_that_only_the_store_knows_are_left_to_recovery() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(1)
    await scene.run_at(1, 1, within=HOUR)
    await scene.pass_time(LONG_ENOUGH)
    scene.memory.forget()
    await a_delivery_check(scene)(scene.reign)
    assert (await scene.state_of(1)).status is PROCESSING
    assert scene.figures.counts == {}


@virtually
async def test_what_a_worker_left_behind_that_could_not_take_its_leave_is_cleared_away() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(1)
    await scene.run_at(1, 1, within=HOUR)
    ended = (await scene.state_of(1)).succeeded(TaskResult(), at=scene.clock.now())
    await scene.actual_store.tasks.advance([ended])
    await scene.beat(1)
    check = a_delivery_check(scene)
    await check(scene.reign)
    await check(scene.reign)  # it lives: what it holds is its own business, but for what has ended
    await scene.actual.deliveries.assign([an_attempt(ended.before)])
    await scene.actual_store.workers.retire([WORKER])
    await scene.pass_time(LEASE.total_seconds() + 1)
    assert (await scene.actual.queue.depths()).assigned == {WORKER: 1}
    await a_delivery_check(scene)(scene.reign)
    assert (await scene.actual.queue.depths()).assigned == {}
    assert scene.figures.count(metrics.RECONCILED, "cleared") == 1


@virtually
async def test_what_a_worker_holds_that_only_the_store_knows_is_left_alone() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(1)
    await scene.run_at(1, 1, within=HOUR)
    await scene.pass_time(LEASE.total_seconds() + 1)
    await a_delivery_check(scene)(scene.reign)
    assert (await scene.actual.queue.depths()).in_flight == {WORKER: 1}
    assert scene.figures.counts == {}


@virtually
async def test_a_leader_whose_reign_is_over_repairs_nothing() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(1, 2, 3)
    await scene.grant(2, within=HOUR)
    await scene.pass_time(LONG_ENOUGH)
    scene.reign.end()
    with pytest.raises(FencedError):
        await a_queue_check(scene)(scene.reign, nothing_parked)
    with pytest.raises(FencedError):
        await a_delivery_check(scene)(scene.reign)
    assert await scene.queued() == []
    assert await scene.actual.deliveries.list_assigned(WORKER) == []


@virtually
async def test_running_attempts_are_compared_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.application.reconcile.PAGE", 2)
    scene = await a_scene()
    await scene.join(1)
    await scene.add(*range(1, 8))
    await scene.grant(*range(1, 8), within=2 * HOUR)
    await scene.pass_time(LONG_ENOUGH)
    await a_delivery_check(scene)(scene.reign)
    assert len(await scene.actual.deliveries.list_assigned(WORKER)) == 7


@virtually
async def test_workers_that_have_taken_nothing_are_not_asked_what_they_hold() -> None:
    scene = await a_scene()
    for number in (1, 2, 3):
        await scene.join(number)
    scene.faults.inject("deliveries.held", Fault.GONE)
    assert not await a_delivery_check(scene)(scene.reign)
    assert scene.faults.pending == {"deliveries.held": 1}, "of 200 workers each would cost a message"


@virtually
async def test_a_deferred_attempt_is_nobodys_to_take_back_or_hand_over() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(7, 8)
    await scene.run_at(1, 7, within=HOUR)  # whose acknowledgement was lost
    await scene.grant(8, worker_id=9, within=HOUR)  # whose worker is gone
    for task_id in (7, 8):
        await scene.actual_store.tasks.advance([(await scene.state_of(task_id)).deferred(at=scene.clock.now())])
    await scene.pass_time(LONG_ENOUGH)
    await scene.beat(1)
    check = a_delivery_check(scene)
    await check(scene.reign)
    await check(scene.reign)
    assert [(await scene.state_of(task_id)).is_deferred for task_id in (7, 8)] == [True, True]
    assert await scene.actual.deliveries.held(WORKER) == []
    assert await scene.actual.deliveries.list_assigned(WORKER) == []
    assert await scene.queued() == []
