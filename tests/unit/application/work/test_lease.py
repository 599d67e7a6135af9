"""A worker that nobody hears stops what it runs before others are given it."""

import asyncio
from datetime import timedelta

import pytest

from rota.application.ports.executor import Job, Reports
from rota.application.work.settings import WorkerSettings
from rota.domain.attempt import Outcome
from rota.domain.errors import InvalidError
from rota.domain.task import PENDING, PROCESSING, SUCCESS
from rota.testing.faults import Fault
from tests.support.builders import MINUTE, SECOND
from tests.support.executors import Stubborn, never_end, succeed
from tests.support.virtual import virtually
from tests.support.worker_stage import COORDINATOR_CALLS, STORE_CALLS, TICK, Stage, a_stage

LEASE = SECOND * 12


def cut_off(stage: Stage) -> None:
    for call in (*STORE_CALLS, *COORDINATOR_CALLS):
        stage.faults.inject(call, Fault.GONE, times=None)


def stand_still(duration: timedelta) -> None:
    """The whole process, as when something blocks the event loop."""
    asyncio.get_running_loop()._jumps.skipped += duration.total_seconds()  # type: ignore[attr-defined]  # a VirtualLoop


async def heard_last(stage: Stage) -> float:
    """When the store heard of the worker, by the monotonic clock."""
    [record] = await stage.store.workers.list_all()
    return stage.clock.monotonic() - (stage.clock.now() - record.seen_at).total_seconds()


@virtually
async def test_a_worker_that_nobody_hears_stops_what_it_runs_before_its_lease_is_over() -> None:
    async with a_stage(never_end) as stage:
        attempts = await stage.grant(1, 2, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 2)
        await stage.pass_time(SECOND * 10)
        cut_off(stage)
        sent_at = await heard_last(stage)
        await stage.until(lambda: stage.executor.stopped == attempts, within=LEASE)
        took = stage.clock.monotonic() - sent_at
        assert stage.settings.trusted_for.total_seconds() <= took < LEASE.total_seconds()


@virtually
async def test_what_takes_the_longest_grace_to_end_has_ended_when_the_lease_is_over() -> None:
    grace = LEASE / 4

    async def clean_up(job: Job, reports: Reports) -> Outcome:
        try:
            return await never_end(job, reports)
        finally:
            await stage.clock.sleep(grace)

    async with a_stage(clean_up, stop_grace=grace) as stage:
        await stage.grant(1, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 1)
        cut_off(stage)
        sent_at = await heard_last(stage)
        await stage.until(lambda: stage.executor.running == 0, within=LEASE)
        assert stage.clock.monotonic() - sent_at < LEASE.total_seconds() + TICK.total_seconds()


@virtually
async def test_what_it_stopped_is_handed_back_when_it_is_heard_again_and_it_goes_on() -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 1)
        cut_off(stage)
        await stage.pass_time(MINUTE)
        assert (stage.executor.running, await stage.statuses([1])) == (0, {PROCESSING})
        stage.executor.script = succeed
        stage.faults.heal()
        await stage.until_status(1, PENDING, within=SECOND * 10)
        state = (await stage.task(1)).state
        assert (state.retry_count, state.last_lost_at) == (0, None), "nobody was lost, and no retry is spent"
        await stage.until_free()
        await stage.grant_again(1)
        await stage.until_status(1, SUCCESS)
        assert [worker.id for worker in await stage.pool()] == [stage.worker_id]


@virtually
async def test_a_worker_that_was_given_up_meanwhile_starts_over_and_changes_nothing() -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 1)
        cut_off(stage)
        old = await stage.retire()
        await stage.pass_time(MINUTE)
        stage.faults.heal()
        await stage.until(lambda: stage.worker.worker_id not in (None, old), within=SECOND * 10)
        await stage.until_free()
        assert (await stage.task(1)).state.version == 3  # added, granted, lost
        stage.executor.script = succeed
        await stage.grant_again(1)
        await stage.until_status(1, SUCCESS)


@pytest.mark.parametrize("away", [STORE_CALLS, COORDINATOR_CALLS], ids=["store", "coordinator"])
@virtually
async def test_one_who_hears_it_is_enough(away: list[str]) -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 1)
        for call in away:
            stage.faults.inject(call, Fault.GONE, times=None)
        await stage.pass_time(MINUTE)
        assert (stage.executor.running, stage.executor.stopped) == (1, [])


@virtually
async def test_a_result_that_came_after_all_is_kept() -> None:
    stubborn = Stubborn()
    async with a_stage(stubborn) as stage:
        await stage.grant(1, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 1)
        cut_off(stage)
        await stage.pass_time(SECOND * 20)
        stubborn.is_let_go = True
        await stage.until(lambda: stage.executor.running == 0)
        stage.faults.heal()
        await stage.until_status(1, SUCCESS)


@virtually
async def test_nothing_is_begun_while_nobody_hears_it() -> None:
    async with a_stage() as stage:
        stage.faults.inject("tasks.load", Fault.GONE, times=None)
        [attempt] = await stage.grant(1, limit=MINUTE * 10)
        await stage.pass_time(SECOND * 2)
        for call in ("workers.seen", "pool.heartbeat"):
            stage.faults.inject(call, Fault.GONE, times=None)
        await stage.pass_time(MINUTE)
        stage.faults.heal()
        for call in ("workers.seen", "pool.heartbeat"):
            stage.faults.inject(call, Fault.GONE, times=None)
        await stage.pass_time(SECOND * 10)
        assert stage.executor.begun == []
        stage.faults.heal()
        await stage.until_status(1, SUCCESS, within=SECOND * 5)
        assert stage.executor.begun == [attempt]


@virtually
async def test_a_heartbeat_counts_from_when_it_was_sent() -> None:
    async with a_stage(never_end) as stage:
        await stage.grant(1, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 1)
        stage.faults.inject("pool.heartbeat", Fault.GONE, times=None)
        stage.delay("seen", SECOND * 11)
        await stage.until(lambda: len(stage.executor.stopped) == 1, within=SECOND * 14)


@virtually
async def test_a_worker_that_stood_still_asks_before_it_stops_anything() -> None:
    async with a_stage(never_end) as stage:
        [attempt] = await stage.grant(1, limit=MINUTE * 10)
        await stage.until(lambda: stage.executor.running == 1)
        stand_still(MINUTE)
        await stage.pass_time(SECOND * 10)
        assert stage.executor.stopped == []
        cut_off(stage)
        stand_still(MINUTE)
        await stage.until(lambda: stage.executor.stopped == [attempt], within=SECOND * 3)


@pytest.mark.parametrize(
    ("grace", "trusted"), [(timedelta(0), SECOND * 12), (SECOND * 2, SECOND * 10), (SECOND * 3, SECOND * 9)]
)
def test_there_is_time_to_stop_before_the_lease_is_over(grace: timedelta, trusted: timedelta) -> None:
    assert WorkerSettings(name="worker-1", lease=LEASE, stop_grace=grace).trusted_for == trusted


def test_a_grace_that_would_outlast_the_lease_or_leave_no_time_for_heartbeats_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"at most a quarter of worker\.lease"):
        WorkerSettings(name="worker-1", lease=LEASE, stop_grace=SECOND * 3 + timedelta(milliseconds=1))
