"""Leaving in good order."""

from collections.abc import Sequence

from rota.application import metrics
from rota.application.ports.executor import Job, Reports
from rota.domain.attempt import Outcome, Succeeded
from rota.domain.events import EventKind
from rota.domain.ids import WorkerId
from rota.domain.task import PENDING, PROCESSING, SUCCESS
from rota.testing.faults import Fault
from rota.testing.values import replace
from tests.support.builders import EMAIL, MINUTE, SECOND, a_config
from tests.support.executors import Stubborn, never_end
from tests.support.virtual import virtually
from tests.support.worker_stage import Stage, a_stage


@virtually
async def test_an_idle_worker_leaves_at_once() -> None:
    stage = Stage()
    async with stage.running() as run:
        began = stage.clock.monotonic()
        stage.worker.stop()
        await run
        assert stage.clock.monotonic() - began < 1
        assert await stage.pool() == []
        assert await stage.store.workers.list_all() == []


@virtually
async def test_a_pool_that_forgot_that_a_worker_drains_is_told_as_soon_as_it_gives_it_something() -> None:
    async def slowly(job: Job, reports: Reports) -> Outcome:
        await stage.clock.sleep(SECOND * 20)
        return Succeeded()

    stage = Stage(slowly)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        stage.worker.stop()
        await stage.pass_time(SECOND * 2)
        (known,) = await stage.pool()
        await stage.coordinator.pool.register(replace(known, is_draining=False), MINUTE)
        await stage.grant(2)
        await stage.pass_time(SECOND / 10)
        assert await stage.statuses([2]) == {PENDING}
        assert [worker.is_draining for worker in await stage.pool()] == [True]
        await run


@virtually
async def test_a_drain_waits_for_what_runs() -> None:
    async def slowly(job: Job, reports: Reports) -> Outcome:
        await stage.clock.sleep(SECOND * 20)
        return Succeeded()

    stage = Stage(slowly)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        stage.worker.stop()
        await stage.pass_time(SECOND * 2)
        assert [worker.is_draining for worker in await stage.pool()] == [True]
        assert [record.worker.is_draining for record in await stage.store.workers.list_all()] == [True]
        await run
        assert await stage.statuses([1]) == {SUCCESS}
        assert await stage.pool() == []
        assert await stage.store.workers.list_all() == []


@virtually
async def test_what_does_not_end_in_time_goes_back_without_spending_a_retry() -> None:
    async with a_stage(never_end, drain_timeout=SECOND * 5) as stage:
        [attempt] = await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        began = stage.clock.monotonic()
        stage.worker.stop()
        await stage.until_status(1, PENDING)
        assert 5 <= stage.clock.monotonic() - began < 6
        assert stage.executor.stopped == [attempt]
        assert (await stage.task(1)).state.retry_count == 0
        await stage.pass_time(SECOND)
        assert dict((await stage.coordinator.queue.depths()).ready) == {0: 1}
        assert stage.figures.count(metrics.ATTEMPTS_ENDED, EMAIL, "released") == 1
        kinds = [event.kind for event in stage.events]
        assert kinds == [EventKind.WORKER_ONLINE, EventKind.TASK_RELEASED, EventKind.WORKER_OFFLINE]


@virtually
async def test_a_drain_waits_for_what_takes_a_long_grace_to_end() -> None:
    grace = MINUTE

    async def clean_up(job: Job, reports: Reports) -> Outcome:
        try:
            return await never_end(job, reports)
        finally:
            await stage.clock.sleep(grace)

    stage = Stage(clean_up, drain_timeout=SECOND, stop_grace=grace, lease=grace * 4)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        stage.worker.stop()
        await run
        assert await stage.statuses([1]) == {PENDING}
        assert await stage.store.workers.list_all() == []


@virtually
async def test_what_was_assigned_and_not_begun_goes_back_at_once() -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        await stage.order(draining=True)
        await stage.until(lambda: stage.worker.is_draining, within=SECOND)
        await stage.grant(2)
        await stage.until_status(2, PENDING, within=SECOND * 2)
        assert (await stage.task(2)).state.retry_count == 0
        assert await stage.statuses([1]) == {PROCESSING}
        assert len(stage.executor.begun) == 1


@virtually
async def test_a_grant_that_the_worker_never_heard_of_goes_back_when_it_leaves() -> None:
    stage = Stage()
    async with stage.running() as run:
        await stage.write_grant(1)
        stage.worker.stop()
        await run
        assert await stage.statuses([1]) == {PENDING}
        assert await stage.store.workers.list_all() == []


@virtually
async def test_a_grant_of_the_last_moment_goes_back_too() -> None:
    stage = Stage()
    async with stage.running() as run:
        remove, worker_id = stage.coordinator.pool.remove, stage.worker_id

        async def grant_and_remove(worker_ids: Sequence[WorkerId]) -> None:
            await stage.write_grant(1, worker_id=worker_id)  # by a leader that looked at the pool just before
            await remove(worker_ids)

        stage.coordinator.pool.remove = grant_and_remove  # type: ignore[method-assign]  # the worst moment
        stage.worker.stop()
        await run
        assert await stage.statuses([1]) == {PENDING}
        assert await stage.store.workers.list_all() == []


@virtually
async def test_a_worker_that_cannot_reach_the_store_leaves_its_record_to_the_leader() -> None:
    stage = Stage(never_end, drain_timeout=SECOND * 5)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        stage.take_store_away()
        began = stage.clock.monotonic()
        stage.worker.stop()
        await run
        assert stage.clock.monotonic() - began < 30
        stage.faults.heal()
        assert len(await stage.store.workers.list_all()) == 1
        assert len(await stage.store.tasks.list_held((await stage.store.workers.list_all())[0].worker.id)) == 1
        assert len(await stage.spool.read()) == 1


@virtually
async def test_an_attempt_that_does_not_end_keeps_the_incarnation_on_record() -> None:
    stubborn = Stubborn()
    stage = Stage(stubborn, drain_timeout=SECOND)
    await stage.store.configs.put(a_config())
    async with stage.running() as run:
        await stage.grant(1, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 1)
        stage.worker.stop()
        await run
        assert len(await stage.store.workers.list_all()) == 1
        assert await stage.pool() == []
        stubborn.is_let_go = True
        await stage.pass_time(SECOND * 2)


@virtually
async def test_a_worker_that_never_got_in_can_leave() -> None:
    stage = Stage()
    stage.faults.inject("workers.register", Fault.GONE, times=None)
    async with stage.running(is_awaited=False) as run:
        await stage.pass_time(SECOND * 2)
        assert await stage.pool() == [], "a worker that the store does not know would be given work"
        stage.worker.stop()
        await run
        assert stage.worker.worker_id is None
