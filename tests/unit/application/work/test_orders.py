"""What operators ask of a worker, and when it counts."""

from datetime import timedelta

from rota.domain.task import PROCESSING, SUCCESS
from rota.testing.faults import Fault
from tests.support.builders import SECOND
from tests.support.executors import never_end
from tests.support.virtual import virtually
from tests.support.worker_stage import Stage, a_stage

SOON = SECOND  # by the signal
BEAT = timedelta(seconds=4)  # by the heartbeat


@virtually
async def test_a_drained_worker_takes_nothing_until_it_may_resume() -> None:
    async with a_stage() as stage:
        await stage.order(draining=True)
        await stage.until(lambda: stage.worker.is_draining, within=SOON)
        await stage.pass_time(SECOND)
        assert [worker.is_draining for worker in await stage.pool()] == [True]
        assert [record.worker.is_draining for record in await stage.store.workers.list_all()] == [True]
        await stage.order(draining=False)
        await stage.until(lambda: not stage.worker.is_draining, within=SOON)
        await stage.pass_time(SECOND)
        assert [worker.is_draining for worker in await stage.pool()] == [False]
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)


@virtually
async def test_what_runs_in_a_drained_worker_goes_on() -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        await stage.order(draining=True)
        await stage.pass_time(BEAT)
        assert await stage.statuses([1]) == {PROCESSING}


@virtually
async def test_an_ordered_capacity_counts_within_a_second_for_everybody() -> None:
    async with a_stage(capacity=10) as stage:
        await stage.order(capacity=3)
        await stage.until(lambda: stage.worker.capacity == 3, within=SOON)
        await stage.pass_time(SECOND)
        assert [worker.capacity for worker in await stage.pool()] == [3]
        assert [record.worker.capacity for record in await stage.store.workers.list_all()] == [3]
        assert stage.sizes == [3], "the executor too"


@virtually
async def test_an_order_whose_signal_is_lost_counts_at_the_next_heartbeat() -> None:
    async with a_stage() as stage:
        stage.faults.inject("signals.find_cancelled", Fault.GONE, times=None)
        await stage.order(capacity=3, draining=True)
        await stage.until(lambda: stage.worker.is_draining and stage.worker.capacity == 3, within=BEAT)


@virtually
async def test_the_later_of_an_order_and_a_setting_wins() -> None:
    async with a_stage(capacity=10) as stage:
        await stage.order(capacity=3)
        await stage.pass_time(BEAT)
        stage.worker.set_capacity(10)
        assert stage.worker.capacity == 3, "the settings were read anew, and are as they were"
        stage.worker.set_capacity(5)
        await stage.pass_time(BEAT)
        assert stage.worker.capacity == 5
        await stage.order(draining=True)
        await stage.until(lambda: stage.worker.is_draining)
        assert stage.worker.capacity == 5, "another order does not bring back the older one"
        await stage.order(capacity=3)
        await stage.until(lambda: stage.worker.capacity == 3, within=SOON)


@virtually
async def test_orders_outlast_a_lost_coordinator() -> None:
    async with a_stage(capacity=10) as stage:
        await stage.order(capacity=3, draining=True)
        await stage.pass_time(BEAT)
        stage.memory.forget()
        await stage.pass_time(BEAT)
        assert [(worker.capacity, worker.is_draining) for worker in await stage.pool()] == [(3, True)]


@virtually
async def test_orders_end_with_the_incarnation() -> None:
    async with a_stage(capacity=10) as stage:
        await stage.order(capacity=3, draining=True)
        await stage.pass_time(BEAT)
        gone = await stage.retire()
        await stage.until(lambda: stage.worker.worker_id not in (None, gone))
        assert (stage.worker.capacity, stage.worker.is_draining) == (10, False)
        await stage.pass_time(BEAT)
        assert [(worker.capacity, worker.is_draining) for worker in await stage.pool()] == [(10, False)]
        assert stage.sizes == [3, 10]


@virtually
async def test_an_order_to_an_incarnation_that_ends_while_it_is_read_is_not_followed() -> None:
    async with a_stage(capacity=10) as stage:
        at_once = stage.store.workers.list_all
        stage.delay("list_all", SECOND * 10)
        await stage.order(capacity=3)
        await stage.pass_time(SECOND)  # the record has been read, and the answer is on its way
        setattr(stage.store.workers, "list_all", at_once)  # noqa: B010 mypy knows that it is a method
        gone = await stage.retire()
        await stage.until(lambda: stage.worker.worker_id not in (None, gone))
        await stage.pass_time(BEAT)
        assert stage.worker.capacity == 10


@virtually
async def test_a_worker_that_leaves_cannot_be_told_to_resume() -> None:
    stage = Stage(never_end)
    async with stage.running():
        worker_id = stage.worker_id
        await stage.write_grant(1)
        stage.worker.stop()
        await stage.until(lambda: stage.worker.is_draining)
        await stage.store.workers.order(worker_id, draining=False)
        await stage.pass_time(SECOND)
        assert stage.worker.is_draining
