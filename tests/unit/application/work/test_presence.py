"""Being known, and what follows when others hold this worker for dead."""

import asyncio
from datetime import timedelta

import pytest

from rota.application import metrics
from rota.application.crew import Crew
from rota.application.work.settings import WorkerSettings
from rota.domain.errors import InvalidError
from rota.domain.events import EventKind
from rota.domain.ids import TaskId, WorkerId
from rota.domain.task import PENDING, SUCCESS
from rota.domain.worker import Worker
from rota.testing.faults import Fault
from tests.support.builders import MINUTE, SECOND, a_config, a_worker
from tests.support.executors import Stubborn, never_end, succeed
from tests.support.virtual import virtually
from tests.support.worker_stage import Stage, a_stage


@virtually
async def test_a_worker_is_known_to_the_store_and_the_pool() -> None:
    async with a_stage(capacity=7, address="10.0.0.7", labels={"zone": "a"}) as stage:
        [worker] = await stage.pool()
        assert (worker.name, worker.capacity, worker.address) == ("worker-1", 7, "10.0.0.7")
        [record] = await stage.store.workers.list_all()
        assert record.worker.id == worker.id == stage.worker_id
        await stage.pass_time()
        assert [event.kind for event in stage.events] == [EventKind.WORKER_ONLINE]


@virtually
async def test_dispatch_is_woken_for_a_new_worker() -> None:
    async with a_stage() as stage:
        assert await stage.coordinator.queue.wait_for_work(timedelta(0))


@virtually
async def test_it_stays_known_and_says_what_it_holds() -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1, limit=MINUTE * 10)
        await stage.pass_time(MINUTE)
        beats = await stage.coordinator.pool.list_beats()
        assert beats[stage.worker_id].load == 1
        assert beats[stage.worker_id].held == {(TaskId(1), 1)}
        [record] = await stage.store.workers.list_all()
        assert stage.clock.now() - record.seen_at < SECOND * 4
        assert record.worker.load == 1
        assert stage.figures.gauges[metrics.WORKER_LOAD.name] == 1
        assert stage.figures.observed[metrics.HEARTBEAT_SECONDS.name] >= 19


@virtually
async def test_the_store_hears_of_it_while_the_coordinator_is_away_and_the_other_way_round() -> None:
    async with a_stage() as stage:
        stage.faults.inject("pool.heartbeat", Fault.GONE, times=None)
        await stage.pass_time(MINUTE)
        [record] = await stage.store.workers.list_all()
        assert stage.clock.now() - record.seen_at < SECOND * 4
        stage.faults.heal()
        stage.faults.inject("workers.seen", Fault.GONE, times=None)
        await stage.pass_time(MINUTE)
        assert [worker.id for worker in await stage.pool()] == [stage.worker_id]


@virtually
async def test_it_joins_only_when_it_knows_the_time_of_the_store() -> None:
    stage = Stage()
    listener = asyncio.create_task(stage.listen())
    stage.faults.inject("tasks.now", Fault.GONE, times=6)
    async with stage.running():
        await stage.pass_time()
        assert [event.kind for event in stage.events] == [EventKind.WORKER_ONLINE]
    listener.cancel()


@virtually
async def test_one_incarnation_is_registered_however_often_it_is_tried() -> None:
    stage = Stage()
    stage.faults.inject("pool.register", Fault.GONE, times=3)
    async with stage.running():
        assert len(await stage.store.workers.list_all()) == 1
        assert not stage.faults.pending


@virtually
async def test_a_retired_incarnation_stops_everything_reports_nothing_and_starts_over() -> None:
    async with a_stage(never_end) as stage:
        [attempt] = await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        old = await stage.retire()
        await stage.until(lambda: stage.worker.worker_id not in (None, old), within=SECOND * 6)
        await stage.until_free()
        assert stage.executor.stopped == [attempt]
        assert await stage.statuses([1]) == {PENDING}
        assert (await stage.task(1)).state.version == 3  # added, granted, lost: nothing was reported since
        assert stage.figures.count(metrics.ATTEMPTS_ENDED, "email", "fenced") == 1
        assert [worker.id for worker in await stage.pool()] == [stage.worker_id]
        stage.executor.script = succeed
        await stage.grant_again(1)
        await stage.until_status(1, SUCCESS)


@virtually
async def test_an_incarnation_that_only_the_store_has_retired_starts_over_too() -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        old = stage.worker_id
        await stage.lose(1)
        await stage.store.workers.retire([old])
        await stage.until(lambda: stage.worker.worker_id not in (None, old), within=SECOND * 6)
        await stage.pass_time()
        assert [worker.id for worker in await stage.pool()] == [stage.worker_id]
        assert stage.executor.running == 0


@virtually
async def test_starting_over_does_not_need_the_coordinator_to_forget_the_old_one() -> None:
    async with a_stage() as stage:
        old = stage.worker_id
        stage.faults.inject("pool.remove", Fault.GONE, times=None)
        await stage.store.workers.retire([old])
        await stage.until(lambda: stage.worker.worker_id not in (None, old), within=SECOND * 6)


@virtually
async def test_the_neighbour_in_the_registry_is_not_taken_for_this_worker() -> None:
    async with a_stage() as stage:
        old = stage.worker_id
        await stage.store.workers.register(a_worker(old + 1))
        await stage.store.workers.retire([old])
        await stage.until(lambda: stage.worker.worker_id not in (None, old), within=SECOND * 6)


@virtually
async def test_attempts_that_are_slow_to_stop_still_fill_their_slots() -> None:
    stubborn = Stubborn()
    async with a_stage(stubborn, capacity=1) as stage:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        old = await stage.retire()
        await stage.until(lambda: stage.worker.worker_id not in (None, old))
        await stage.grant(2)
        await stage.pass_time(SECOND * 5)
        assert stage.executor.most == 1
        stubborn.is_let_go = True
        await stage.until_status(2, SUCCESS)
        assert await stage.statuses([1]) == {PENDING}


@virtually
async def test_what_was_taken_for_the_old_incarnation_is_not_begun() -> None:
    async with a_stage() as stage:
        stage.faults.inject("tasks.load", Fault.GONE, times=None)
        await stage.grant(1)
        await stage.pass_time(SECOND * 2)
        assert stage.worker.load == 1
        old = await stage.retire()
        await stage.until(lambda: stage.worker.worker_id not in (None, old))
        stage.faults.heal()
        await stage.pass_time(SECOND * 10)
        assert stage.executor.begun == []
        assert stage.worker.load == 0


@virtually
async def test_what_was_being_read_when_the_incarnation_ended_is_not_begun() -> None:
    async with a_stage() as stage:
        stage.delay("load", SECOND * 10)
        await stage.grant(1)
        await stage.pass_time(SECOND * 2)
        old = await stage.retire()
        await stage.until(lambda: stage.worker.worker_id not in (None, old), within=SECOND * 7)
        await stage.pass_time(SECOND * 15)
        assert stage.executor.begun == []
        assert stage.worker.load == 0
        assert stage.figures.count(metrics.LOOP_FAILURES, "worker.intake") == 0


@virtually
async def test_a_take_that_the_old_incarnation_began_brings_nothing_to_the_new_one() -> None:
    async with a_stage() as stage:
        old = stage.worker_id
        await stage.pass_time(SECOND / 2)  # so that no take is over at the very moment of a heartbeat
        earlier = await stage.grant(7)
        await stage.until_free_of(*earlier)
        stage.faults.inject("pool.remove", Fault.GONE, times=None)
        await stage.store.workers.retire([old])
        await stage.until(lambda: stage.worker.worker_id not in (None, old), within=SECOND * 6)
        attempt = await stage.write_grant(1, worker_id=old)
        await stage.coordinator.deliveries.assign([attempt])
        await stage.pass_time(SECOND * 5)
        assert await stage.coordinator.deliveries.held(old) == [attempt], "no take was under way: this shows nothing"
        assert stage.executor.begun == earlier


@virtually
async def test_both_loops_may_see_the_end_of_an_incarnation() -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        stage.delay("find_live", SECOND * 2)
        stage.delay("list_all", SECOND * 2)
        old = await stage.retire()
        await stage.until(lambda: stage.worker.worker_id not in (None, old), within=SECOND * 20)
        await stage.pass_time(SECOND * 20)
        assert len(await stage.pool()) == 1
        assert len(await stage.store.workers.list_all()) == 1


@virtually
async def test_a_pool_that_lost_its_memory_is_joined_again_and_work_goes_on() -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 1)
        worker_id = stage.worker_id
        stage.memory.forget()
        await stage.pass_time(SECOND * 4)
        assert [worker.id for worker in await stage.pool()] == [worker_id]
        assert stage.executor.running == 1


@virtually
async def test_a_pool_that_lost_its_memory_knows_what_a_worker_holds_as_soon_as_it_knows_the_worker() -> None:
    async with a_stage(never_end, capacity=3) as stage:
        await stage.grant(1, 2, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 2)
        stage.memory.forget()
        register, rooms = stage.coordinator.pool.register, []

        async def note_room(worker: Worker, lease: timedelta) -> None:
            await register(worker, lease)
            depths = await stage.coordinator.queue.depths()
            rooms.append(Crew.gather(await stage.pool(), depths).room)

        stage.coordinator.pool.register = note_room  # type: ignore[method-assign]  # to look at the first moment
        await stage.pass_time(SECOND * 10)
        assert rooms == [1]
        depths = await stage.coordinator.queue.depths()
        assert Crew.gather(await stage.pool(), depths).room == 1
        assert len(stage.executor.begun) == 2, "what it holds is not begun again"


@virtually
async def test_a_full_worker_that_joined_again_takes_new_work_when_something_ends() -> None:
    stubborn = Stubborn()
    async with a_stage(stubborn, capacity=1) as stage:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        stage.memory.forget()
        await stage.pass_time(SECOND * 4)
        await stage.grant(2)
        stubborn.is_let_go = True
        await stage.until_status(2, SUCCESS, within=SECOND * 10)
        await stage.until_free()
        assert await stage.statuses([1]) == {SUCCESS}
        assert (stage.executor.most, await stage.in_flight()) == (1, [])


@virtually
async def test_on_joining_again_attempts_that_were_taken_back_are_stopped() -> None:
    async with a_stage(never_end) as stage:
        [kept] = await stage.grant(1, limit=MINUTE * 10)
        [lost] = await stage.grant(2, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 2)
        await stage.lose(2)
        stage.memory.forget()
        await stage.until(lambda: stage.executor.stopped == [lost], within=SECOND * 4)
        assert kept in stage.executor.begun
        assert await stage.statuses([2]) == {PENDING}
        assert stage.figures.count(metrics.STALE_RESULTS, "email") == 0


@virtually
async def test_an_incarnation_whose_time_ran_out_while_it_was_stopping_reports_nothing() -> None:
    stubborn = Stubborn()
    async with a_stage(stubborn) as stage:
        await stage.grant(1, limit=SECOND)
        await stage.pass_time(SECOND * 3)  # stopped by its timeout, and still there
        await stage.retire()
        await stage.pass_time(SECOND * 6)
        stubborn.is_let_go = True
        await stage.until_free()
        assert stage.figures.count(metrics.ATTEMPTS_ENDED, "email", "fenced") == 1
        assert (await stage.task(1)).state.version == 3


@virtually
async def test_capacity_that_changes_while_it_joins_is_told() -> None:
    stage = Stage()
    await stage.store.configs.put(a_config())
    stage.faults.inject("pool.register", Fault.GONE, times=2)
    stage.worker.set_capacity(3)
    async with stage.running():
        await stage.pass_time(SECOND)
        stage.worker.set_capacity(4)
        await stage.pass_time(SECOND)
        assert [worker.capacity for worker in await stage.pool()] == [4]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "no spaces please"},
        {"lease": timedelta(seconds=5)},
        {"heartbeat_every": timedelta(0)},
        {"heartbeat_every": timedelta(minutes=3), "lease": timedelta(minutes=12)},
        {"drain_timeout": timedelta(seconds=-1)},
        {"batch_size": 0},
        {"weight": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidError):
        WorkerSettings(**({"name": "worker-1"} | wrong))  # type: ignore[arg-type]  # on purpose


def test_an_incarnation_has_what_the_settings_say() -> None:
    settings = WorkerSettings(name="gpu-1", types=frozenset({"video"}), weight=3)
    worker = settings.as_worker(WorkerId(5))
    assert (worker.id, worker.types, worker.weight) == (WorkerId(5), frozenset({"video"}), 3)
