"""Taking back what dead workers held, and what those that left were granted."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from rota.application import metrics
from rota.application.ports.store import TaskStore, WorkerRecord, WorkerRegistry
from rota.application.recover import (
    ASKED_AFTER,
    BLIND_AT_MOST,
    HEARTBEAT_EVERY,
    BlindError,
    RecoverLostWorkers,
    Sight,
)
from rota.application.reign import Reign
from rota.application.take_back import TypedStep
from rota.domain.attempt import TaskResult
from rota.domain.errors import CoordinatorUnavailableError, FencedError, StoreUnavailableError
from rota.domain.events import EventKind
from rota.domain.ids import TaskId, WorkerId
from rota.domain.task import FAILED, PENDING, PROCESSING, SUCCESS, LiveTask
from rota.domain.term import Term
from rota.testing.faults import Fault
from rota.testing.values import replace
from tests.support.builders import EMAIL, HOUR, a_worker
from tests.support.scene import BEAT, LEASE, Scene, a_scene, heard
from tests.support.virtual import virtually

SETTLED_IN = (2 * HEARTBEAT_EVERY).total_seconds()
WORKER = WorkerId(1)


def a_recovery(scene: Scene) -> RecoverLostWorkers:
    return RecoverLostWorkers(
        store=scene.store,
        coordinator=scene.coordinator,
        time=scene.time,
        collector=scene.figures,
        take_back=scene.take_back,
    )


async def recover(scene: Scene, sight: Sight, *, seconds: float) -> None:
    """One pass a second."""
    recovery = a_recovery(scene)
    for _ in range(int(seconds)):
        await recovery(scene.reign, sight)
        await scene.pass_time(1)


@virtually
async def test_a_leader_is_blind_for_two_heartbeats_and_again_after_a_failure() -> None:
    scene = await a_scene()
    sight = Sight(scene.clock)
    assert not sight.is_clear
    await scene.pass_time(SETTLED_IN - 0.001)
    assert not sight.is_clear
    await scene.pass_time(0.002)
    assert sight.is_clear
    with pytest.raises(StoreUnavailableError), sight.looking():
        raise StoreUnavailableError
    assert not sight.is_clear
    await scene.pass_time(SETTLED_IN)
    assert sight.is_clear


@virtually
async def test_a_leader_that_stays_blind_gives_up() -> None:
    scene = await a_scene()
    sight = Sight(scene.clock)
    for _ in range(int(BLIND_AT_MOST / 5)):
        await scene.pass_time(5)
        with pytest.raises(StoreUnavailableError), sight.looking():
            raise StoreUnavailableError
    await scene.pass_time(5)
    with pytest.raises(BlindError), sight.looking():
        raise StoreUnavailableError


@virtually
async def test_a_leader_that_sees_now_and_then_goes_on() -> None:
    scene = await a_scene()
    sight = Sight(scene.clock)
    for _ in range(20):
        await scene.pass_time(SETTLED_IN)
        assert sight.is_clear
        with pytest.raises(StoreUnavailableError), sight.looking():
            raise StoreUnavailableError


@virtually
async def test_a_failure_of_our_own_does_not_blind() -> None:
    scene = await a_scene()
    sight = Sight(scene.clock, settles_in=timedelta(0))
    with pytest.raises(ZeroDivisionError), sight.looking():
        _ = 1 // 0
    assert sight.is_clear


@virtually
async def test_the_tasks_of_a_dead_worker_go_back_to_the_queue() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.join(2)
    await scene.add(7, 8, 9)
    await scene.run_at(1, 7, 8, within=HOUR)
    await scene.run_at(2, 9, within=HOUR)
    sight = Sight(scene.clock)
    for _ in range(5):
        await recover(scene, sight, seconds=BEAT.total_seconds())
        await scene.beat(2)
    states = [await scene.state_of(task_id) for task_id in (7, 8, 9)]
    assert [state.status for state in states] == [PENDING, PENDING, PROCESSING]
    assert [state.retry_count for state in states] == [0, 0, 0]
    assert sorted(await scene.queued()) == [7, 8]
    assert await scene.alive() == [2]
    assert await scene.actual.deliveries.held(WORKER) == []
    assert scene.figures.count(metrics.WORKERS_LOST) == 1
    assert scene.figures.count(metrics.ATTEMPTS_LOST, EMAIL) == 2


@virtually
async def test_listeners_hear_of_a_dead_worker_and_of_its_tasks() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(7)
    await scene.run_at(1, 7, within=HOUR)
    sight = Sight(scene.clock)
    await scene.pass_time(LEASE.total_seconds() + 1)
    events = await heard(scene, lambda: a_recovery(scene)(scene.reign, sight))
    assert [(event.kind, event.worker_id) for event in events] == [
        (EventKind.TASK_RELEASED, 1),
        (EventKind.WORKER_OFFLINE, 1),
    ]


@virtually
async def test_a_worker_that_spoke_to_the_pool_after_its_end_is_removed_and_its_work_taken_back() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.join(2)
    await scene.add(7, 8)
    await scene.actual_store.workers.retire([WORKER])  # and its next word to the pool comes later
    await scene.run_at(1, 7, within=HOUR)
    await scene.run_at(2, 8, within=HOUR)
    assert await a_recovery(scene)(scene.reign, Sight(scene.clock)), "this needs no sight: the store has said so"
    assert [(await scene.state_of(task_id)).status for task_id in (7, 8)] == [PENDING, PROCESSING]
    assert await scene.queued() == [7]
    assert [worker.id for worker in await scene.actual.pool.list_alive()] == [2]
    assert scene.figures.count(metrics.ATTEMPTS_LOST, EMAIL) == 1
    assert scene.figures.count(metrics.WORKERS_LOST) == 0
    assert not await a_recovery(scene)(scene.reign, Sight(scene.clock))


class _LeftBefore:
    """A registry with which something happens, such as that a worker takes its leave, just before it is read."""

    def __init__(self, inner: WorkerRegistry, leave: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._leave = leave

    async def list_all(self, **wanted: Any) -> list[WorkerRecord]:
        await self._leave()
        return await self._inner.list_all(**wanted)


@pytest.mark.parametrize(("page", "asked"), [(3, 1), (1, 3)])
@virtually
async def test_a_look_asks_once_for_the_workers_that_fit_on_a_page(
    page: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.application.registered.PAGE", page)
    scene = await a_scene()
    await scene.join(1)
    await scene.join(2)
    looks = 0

    async def count() -> None:
        nonlocal looks
        looks += 1

    counting = replace(scene.store, workers=_LeftBefore(scene.store.workers, count))
    assert not await replace(a_recovery(scene), store=counting)(scene.reign, Sight(scene.clock)), "nobody is missed"
    assert looks == asked


@virtually
async def test_a_worker_that_leaves_while_the_leader_looks_is_no_ghost() -> None:
    scene = await a_scene()
    await scene.join(1)

    async def leave() -> None:
        await scene.actual.pool.remove([WORKER])
        await scene.actual_store.workers.retire([WORKER])

    leaving = replace(scene.store, workers=_LeftBefore(scene.store.workers, leave))
    with capture_logs() as logs:
        assert not await replace(a_recovery(scene), store=leaving)(scene.reign, Sight(scene.clock))
    assert logs == []


@virtually
async def test_what_was_granted_to_a_worker_as_it_left_is_taken_back_at_the_next_look() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.join(2)
    await scene.add(7, 8, 9)
    recovery, sight = a_recovery(scene), Sight(scene.clock)
    await recovery(scene.reign, sight)
    await scene.actual_store.workers.retire([WORKER])  # it took its leave …
    await scene.actual.pool.remove([WORKER])
    await scene.run_at(1, 7, within=HOUR)  # … and the leader had not heard of it
    await recovery(scene.reign, sight)
    assert (await scene.state_of(7)).status is PENDING
    await scene.run_at(1, 8, within=HOUR)  # this grant was on its way for longer
    await recovery(scene.reign, sight)
    assert (await scene.state_of(8)).status is PENDING
    assert sorted(await scene.queued()) == [7, 8]
    for _ in range(ASKED_AFTER):
        await recovery(scene.reign, sight)
    await scene.run_at(1, 9, within=HOUR)
    await recovery(scene.reign, sight)
    assert (await scene.state_of(9)).status is PROCESSING, "nobody is asked after for ever"


@virtually
async def test_a_new_reign_asks_after_nobody_whom_an_earlier_one_knew() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(7)
    recovery, sight = a_recovery(scene), Sight(scene.clock)
    await recovery(scene.reign, sight)
    await scene.actual_store.workers.retire([WORKER])
    await scene.actual.pool.remove([WORKER])
    await scene.run_at(1, 7, within=HOUR)
    await recovery(Reign(Term(2, trusted_until=float("inf")), scene.clock), sight)
    assert (await scene.state_of(7)).status is PROCESSING, "the comparisons at the beginning of a reign find it"


class _SlowToTell:
    """Tasks whose store takes its time to say what a worker holds."""

    def __init__(self, inner: TaskStore, tell: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def list_held(self, worker_id: WorkerId) -> list[LiveTask]:
        await self._tell()
        return await self._inner.list_held(worker_id)


@virtually
async def test_however_long_it_takes_to_remove_one_worker_another_that_just_joins_is_left_alone() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.actual_store.workers.retire([WORKER])
    await scene.actual_store.workers.register(a_worker(2))  # and it is about to join the pool

    async def beat_for_long() -> None:
        for _ in range(6):
            await scene.beat(2)
            await scene.pass_time(3)

    slow = replace(scene.store, tasks=_SlowToTell(scene.store.tasks, beat_for_long))
    sight = Sight(scene.clock)
    await scene.pass_time(SETTLED_IN)
    await scene.actual_store.workers.seen({WorkerId(2): 0})
    await scene.beat(1)
    assert await replace(a_recovery(scene), store=slow)(scene.reign, sight)
    assert [worker.id for worker in await scene.actual.pool.list_alive()] == [2]
    assert scene.figures.count(metrics.WORKERS_LOST) == 0


@virtually
async def test_a_leader_whose_reign_is_over_removes_nobody() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.actual_store.workers.retire([WORKER])
    scene.reign.end()
    with pytest.raises(FencedError):
        await a_recovery(scene)(scene.reign, Sight(scene.clock))
    assert len(await scene.actual.pool.list_alive()) == 1


@virtually
async def test_a_worker_that_beats_is_never_given_up() -> None:
    scene = await a_scene()
    await scene.join(1)
    sight = Sight(scene.clock)
    for _ in range(20):
        await recover(scene, sight, seconds=BEAT.total_seconds())
        await scene.beat(1)
    assert await scene.alive() == [1]


@virtually
async def test_a_coordinator_that_lost_its_memory_is_no_evidence_of_death() -> None:
    scene = await a_scene()
    await scene.join(1)
    sight = Sight(scene.clock)
    for _ in range(10):
        await scene.beat(1)
        scene.memory.forget()
        await recover(scene, sight, seconds=BEAT.total_seconds())
    assert await scene.alive() == [1]


@virtually
async def test_a_worker_that_the_store_has_not_seen_lives_while_the_pool_knows_it() -> None:
    scene = await a_scene()
    await scene.join(1)
    sight = Sight(scene.clock)
    for _ in range(10):
        await scene.actual.pool.register((await scene.actual_store.workers.list_all())[0].worker, LEASE)
        await recover(scene, sight, seconds=BEAT.total_seconds())
    assert await scene.alive() == [1]


@pytest.mark.parametrize("operation", ["pool.list_alive", "workers.list_all"])
def test_nobody_is_given_up_right_after_an_outage(operation: str) -> None:
    @virtually
    async def story() -> None:
        scene = await a_scene()
        await scene.join(1)
        sight = Sight(scene.clock)
        await scene.pass_time(LEASE.total_seconds() + SETTLED_IN)  # neither has heard of it: it cannot reach them
        scene.faults.inject(operation, Fault.TIMEOUT)
        with pytest.raises((StoreUnavailableError, CoordinatorUnavailableError)):
            await a_recovery(scene)(scene.reign, sight)
        await recover(scene, sight, seconds=SETTLED_IN)
        assert await scene.alive() == [1]
        await recover(scene, sight, seconds=1)
        assert await scene.alive() == []

    story()


@virtually
async def test_a_new_leader_gives_nobody_up_before_it_can_see() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.pass_time(60)
    await recover(scene, Sight(scene.clock), seconds=SETTLED_IN)
    assert await scene.alive() == [1]


@virtually
async def test_a_task_that_took_its_third_worker_with_it_is_poison() -> None:
    scene = await a_scene()
    await scene.add(7)
    for worker_id in (1, 2, 3):
        await scene.join(worker_id)
        await scene.run_at(worker_id, 7, within=HOUR)
        await recover(scene, Sight(scene.clock), seconds=LEASE.total_seconds() + 2)
    task = (await scene.actual_store.tasks.load([TaskId(7)]))[TaskId(7)]
    assert task.state.status is FAILED
    assert task.error is not None
    assert task.error.code == "poison"
    assert scene.figures.count(metrics.TASKS_ENDED, EMAIL, FAILED) == 1
    assert await scene.queued() == [7, 7]  # the first two losses


@virtually
async def test_a_result_that_came_just_in_time_stands() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(7)
    await scene.run_at(1, 7, within=HOUR)
    await scene.pass_time(60)
    stale = await scene.actual_store.tasks.list_held(WORKER)
    step = stale[0].state.succeeded(TaskResult(), at=scene.clock.now())
    await scene.actual_store.tasks.advance([step])
    late = stale[0].state.lost(at=scene.clock.now())
    assert await scene.take_back(scene.reign, [TypedStep(EMAIL, late)]) == []
    assert (await scene.state_of(7)).status is SUCCESS
    assert await scene.queued() == []


@virtually
async def test_a_burial_that_was_cut_short_is_finished_later() -> None:
    scene = await a_scene()
    await scene.join(1)
    await scene.add(7)
    await scene.run_at(1, 7, within=HOUR)
    sight = Sight(scene.clock)
    await scene.pass_time(60)
    scene.faults.inject("queue.push", Fault.TIMEOUT)
    with pytest.raises(CoordinatorUnavailableError):
        await a_recovery(scene)(scene.reign, sight)
    assert await scene.alive() == [1]
    await recover(scene, sight, seconds=SETTLED_IN + 1)
    assert await scene.alive() == []
    assert (await scene.state_of(7)).status is PENDING


@virtually
async def test_a_leader_whose_reign_is_over_gives_nobody_up() -> None:
    scene = await a_scene()
    await scene.join(1)
    sight = Sight(scene.clock)
    await scene.pass_time(60)
    scene.reign.end()
    with pytest.raises(FencedError):
        await a_recovery(scene)(scene.reign, sight)
    assert await scene.alive() == [1]
