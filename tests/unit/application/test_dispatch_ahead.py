"""While a grant is written, the next batch is taken and read, and the workers are known without asking."""

from datetime import timedelta
from functools import partial

from rota.application.dispatch import DispatchSettings
from rota.application.muster import ESTIMATE_KEPT
from rota.application.taking import Taking
from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import TaskId, WorkerId
from rota.domain.priority import LEVELS
from rota.testing.faults import Fault
from tests.support.stage import Stage, staged

BATCH = 2
ASKED = "pool.list_alive"
READ = "tasks.find_live"


async def prepare(stage: Stage, *, tasks: int, capacity: int = 100) -> None:
    stage.dispatcher.tune(DispatchSettings(batch_size=BATCH))
    await stage.hire(1, capacity=capacity)
    await stage.submit(*range(1, tasks + 1))


@staged
async def test_the_next_batch_is_taken_and_read_before_a_grant_is_written(stage: Stage) -> None:
    await prepare(stage, tasks=4)
    seen = []

    async def look() -> None:
        await stage.settle()
        seen.append((stage.calls["queue.take"], stage.calls[READ], stage.dispatcher.is_parked(TaskId(3))))

    stage.faults.before("tasks.advance", look)
    async with stage.reigning():
        await stage.settle()
        assert seen == [(2, 2, True)]
        assert await stage.granted() == dict.fromkeys(range(1, 5), 1)
        assert not stage.dispatcher.is_parked(TaskId(3))


@staged
async def test_one_question_about_the_workers_does_for_many_batches(stage: Stage) -> None:
    await prepare(stage, tasks=8 * BATCH)
    async with stage.reigning():
        assert len(await stage.granted()) == 8 * BATCH
        assert stage.calls[ASKED] <= 3, "for the first batch, the second, and in advance for what comes alone"


@staged
async def test_the_workers_are_asked_for_each_batch_while_the_queues_may_not_know_what_they_run(stage: Stage) -> None:
    await prepare(stage, tasks=4 * BATCH)
    stage.dispatcher.distrust_loads(timedelta(seconds=10))
    async with stage.reigning():
        assert len(await stage.granted()) == 4 * BATCH
        assert stage.calls[ASKED] >= 4


@staged
async def test_a_second_take_is_not_begun_while_one_is_under_way(stage: Stage) -> None:
    await stage.submit(1, 2, 3)
    taking = Taking(stage.coordinator.queue)
    for _ in range(2):
        taking.begin(2, LEVELS, read=stage.store.tasks.find_live)
    await stage.settle()
    assert list(await taking.catch()) == [1, 2]
    assert await stage.queued() == [3]


@staged
async def test_nobody_is_given_more_than_fits_by_what_is_known_without_asking(stage: Stage) -> None:
    await prepare(stage, tasks=8, capacity=3)
    await stage.hire(2, capacity=2)
    async with stage.reigning():
        granted = list((await stage.granted()).values())
        assert (granted.count(1), granted.count(2)) == (3, 2)


@staged
async def test_the_workers_are_asked_for_again_when_what_is_known_is_too_old(stage: Stage) -> None:
    await prepare(stage, tasks=4 * BATCH)

    async def dawdle() -> None:
        await stage.pass_time(ESTIMATE_KEPT.total_seconds() + 0.1)

    stage.faults.before("tasks.advance", dawdle)
    async with stage.reigning():
        await stage.pass_time(1)
        assert len(await stage.granted()) == 4 * BATCH
        assert stage.calls[ASKED] >= 3


@staged
async def test_the_workers_are_asked_for_again_when_one_has_left_since(stage: Stage) -> None:
    await prepare(stage, tasks=3 * BATCH)

    async def skip() -> None:
        stage.faults.before("tasks.advance", replace_soon)

    async def replace_soon() -> None:
        stage.faults.before("queue.take", partial(replace_worker, stage))

    stage.faults.before("tasks.advance", skip)
    async with stage.reigning():
        await stage.settle()
        assert await stage.granted() == {1: 1, 2: 1, 3: 1, 4: 1, 5: 2, 6: 2}


@staged
async def test_the_workers_are_asked_for_again_when_one_left_before_the_take_that_told_so(stage: Stage) -> None:
    await prepare(stage, tasks=BATCH, capacity=BATCH)
    async with stage.reigning():
        await stage.hire(1, capacity=100)  # there was no room left: now they are asked for before anything is taken
        stage.faults.before("queue.take", partial(replace_worker, stage))
        await stage.submit(3, 4, 5, 6)
        await stage.pass_time(3)
        granted = await stage.granted()
        assert (granted[3], granted[5], granted[6]) == (1, 2, 2)


async def replace_worker(stage: Stage) -> None:
    await stage.calm.pool.remove([WorkerId(1)])
    await stage.hire(2, capacity=100)


@staged
async def test_what_was_taken_ahead_is_granted_though_it_could_not_be_read(stage: Stage) -> None:
    await prepare(stage, tasks=4)

    async def trouble() -> None:
        stage.faults.inject(READ, Fault.GONE)

    stage.faults.before("tasks.advance", trouble)
    async with stage.reigning():
        await stage.pass_time(3)
        assert await stage.granted() == dict.fromkeys(range(1, 5), 1)


@staged
async def test_what_was_taken_ahead_and_has_changed_since_is_read_again(stage: Stage) -> None:
    await prepare(stage, tasks=4)

    async def change() -> None:
        await stage.settle()
        await stage.cancel(3)
        [live] = await stage.truth.tasks.find_live([TaskId(4)])
        await stage.truth.tasks.advance([live.state.amended(priority=5, at=stage.clock.now())])

    stage.faults.before("tasks.advance", change)
    async with stage.reigning():
        await stage.settle()
        assert await stage.granted() == {1: 1, 2: 1, 4: 1}


@staged
async def test_what_was_taken_ahead_is_queued_again_when_the_reign_ends(stage: Stage) -> None:
    await prepare(stage, tasks=4)

    async def hang() -> None:
        await stage.pass_time(100)
        raise StoreUnavailableError("too late")

    stage.faults.before("tasks.advance", hang)
    async with stage.reigning():
        assert stage.dispatcher.is_parked(TaskId(3))
    assert sorted(await stage.queued()) == [1, 2, 3, 4]
    assert await stage.granted() == {}
