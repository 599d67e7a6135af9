"""The store or the coordinator is away: nothing that was done is lost, and nothing is done twice."""

import pytest

from rota.application import metrics
from rota.application.ports.executor import Job, Reports
from rota.application.work.spool import MemorySpool, Result
from rota.domain.attempt import Failed, Outcome, Succeeded, TaskError
from rota.domain.errors import UnavailableError
from rota.domain.events import EventKind
from rota.domain.task import PENDING, PROCESSING, RETRYING, SUCCESS
from rota.testing.faults import Fault
from rota.testing.values import replace
from tests.support.builders import EMAIL, MINUTE, SECOND, a_config
from tests.support.executors import Script, never_end
from tests.support.virtual import virtually
from tests.support.worker_stage import COORDINATOR_CALLS, STORE_CALLS, Stage, a_stage


class FullSpool(MemorySpool):
    """A disk without room."""

    async def append(self, results: object) -> None:
        raise UnavailableError("no space left on device")


class StickySpool(MemorySpool):
    """A disk that refuses to forget, once."""

    refusals = 1

    async def clear(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise UnavailableError("read-only file system")
        await super().clear()


@virtually
async def test_results_survive_an_outage_of_the_store_and_none_is_lost() -> None:
    async with a_stage(capacity=20) as stage:
        stage.executor.script = _take_a_second(stage)
        await stage.grant(*range(1, 21))
        await stage.until(lambda: stage.executor.running == 20)
        stage.take_store_away()
        await stage.until(lambda: stage.worker.completed == 20)
        await stage.pass_time(MINUTE * 5)
        assert await stage.statuses(range(1, 21)) == {PROCESSING}
        assert len(await stage.in_flight()) == 20, "acknowledged before the commit"
        assert stage.figures.gauges[metrics.RESULTS_SPOOLED.name] == 20
        stage.faults.heal()
        await stage.until_free(within=SECOND * 10)
        assert await stage.statuses(range(1, 21)) == {SUCCESS}
        assert await stage.in_flight() == []
        assert await stage.spool.read() == []
        assert stage.figures.gauges[metrics.RESULTS_SPOOLED.name] == 0
        assert stage.figures.count(metrics.STALE_RESULTS, EMAIL) == 0


@virtually
async def test_the_spool_delivers_after_an_outage_and_a_restart() -> None:
    stage = Stage()
    stage.executor.script = _take_a_second(stage)
    await stage.store.configs.put(a_config())
    async with stage.running():
        old = await stage.grant(1, 2)
        await stage.until(lambda: stage.executor.running == 2)
        stage.take_store_away()
        await stage.until(lambda: stage.worker.completed == 2)
        await stage.pass_time(SECOND)
    await stage.lose(2)  # the leader has taken one of them back meanwhile
    stage.faults.heal()
    stage.worker = stage.make_worker()
    async with stage.running():
        await stage.until_status(1, SUCCESS)
        assert await stage.statuses([2]) == {PENDING}
        assert stage.figures.count(metrics.STALE_RESULTS, EMAIL) == 1
        assert await stage.spool.read() == []
        assert stage.executor.begun == old
        assert stage.worker.load == 0


@virtually
async def test_results_that_could_not_be_spooled_are_delivered_from_memory() -> None:
    async with a_stage(spool=FullSpool()) as stage:
        stage.executor.script = _take_a_second(stage)
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        stage.take_store_away()
        await stage.until(lambda: stage.worker.completed == 1)
        await stage.pass_time(SECOND * 5)
        stage.faults.heal()
        await stage.until_status(1, SUCCESS)


@virtually
async def test_a_full_spool_stops_the_intake_until_there_is_room() -> None:
    async with a_stage(spool=MemorySpool(most=1), capacity=5) as stage:
        stage.faults.inject("tasks.advance", Fault.GONE, times=None)
        await stage.grant(1)
        await stage.until(lambda: stage.worker.completed == 1)
        await stage.pass_time(SECOND)
        await stage.grant(2)
        await stage.pass_time(SECOND * 10)
        assert len(stage.executor.begun) == 1
        stage.faults.heal()
        await stage.until_status(2, SUCCESS)


@virtually
async def test_a_spool_that_refuses_to_be_cleared_is_cleared_later() -> None:
    async with a_stage(spool=StickySpool()) as stage:
        stage.faults.inject("tasks.advance", Fault.GONE, times=2)
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        await stage.pass_time(SECOND * 10)
        assert await stage.spool.read() == []


@virtually
async def test_results_are_written_though_the_spool_never_forgets() -> None:
    spool = StickySpool()
    spool.refusals = 1_000_000
    async with a_stage(spool=spool) as stage:
        stage.faults.inject("tasks.advance", Fault.GONE, times=2)
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        await stage.grant(2)
        await stage.until_status(2, SUCCESS)


@virtually
async def test_a_write_whose_answer_was_lost_is_repeated_and_told_once() -> None:
    async def fail(job: Job, reports: Reports) -> Outcome:
        return Failed(TaskError("smtp"))

    async with a_stage(fail) as stage:
        stage.faults.inject("tasks.advance", Fault.EXECUTE_AND_TIMEOUT)
        await stage.grant(1)
        await stage.until(lambda: stage.worker.completed == 1)
        await stage.until_free()
        assert not stage.faults.pending
        state = (await stage.task(1)).state
        assert (state.status, state.retry_count) == (RETRYING, 1)
        assert (await stage.coordinator.queue.depths()).delayed == 1
        assert stage.figures.count(metrics.STALE_RESULTS, EMAIL) == 0
        assert [event.kind for event in stage.events if event.task_id == 1] == [EventKind.TASK_RETRYING]


@virtually
async def test_two_results_of_one_task_are_written_one_after_the_other() -> None:
    stage = Stage(never_end)
    await stage.store.configs.put(a_config())
    async with stage.running():
        [first] = await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        state = (await stage.task(1)).state
    released = state.released("drained", at=stage.clock.now(), due_at=stage.clock.now())
    again = released.after.granted(first.worker_id, term=1, at=stage.clock.now(), timeout=MINUTE)
    ended = again.after.succeeded(Succeeded().result, at=stage.clock.now())
    await stage.spool.clear()
    await stage.store.tasks.advance([released])
    await stage.store.tasks.advance([again])
    await stage.spool.append([Result(first, EMAIL, released), Result(replace(first, number=2), EMAIL, ended)])
    stage.worker = stage.make_worker()
    async with stage.running():
        await stage.until_status(1, SUCCESS)


@virtually
async def test_what_was_taken_while_the_store_was_away_runs_when_it_is_back() -> None:
    async with a_stage() as stage:
        stage.faults.inject("tasks.load", Fault.GONE, times=3)
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        assert not stage.faults.pending
        assert len(stage.executor.begun) == 1


@virtually
async def test_a_take_whose_answer_was_lost_is_adopted() -> None:
    async with a_stage() as stage:
        await stage.pass_time(SECOND * 2)  # a take waits now; the next one loses its answer
        stage.faults.inject("deliveries.take", Fault.EXECUTE_AND_TIMEOUT)
        await stage.pass_time(SECOND)
        [attempt] = await stage.grant(1)
        await stage.until_status(1, SUCCESS, within=SECOND * 5)
        assert not stage.faults.pending
        assert stage.executor.begun == [attempt]
        await stage.until_free()
        assert await stage.in_flight() == []


@virtually
async def test_an_acknowledgement_that_was_lost_is_made_up_for_by_the_next_heartbeat() -> None:
    async with a_stage() as stage:
        stage.faults.inject("deliveries.acknowledge", Fault.GONE)
        [attempt] = await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        await stage.until_free()
        assert await stage.in_flight() == [attempt]
        await stage.pass_time(SECOND * 5)
        assert await stage.in_flight() == []
        assert stage.executor.begun == [attempt]


@virtually
async def test_a_coordinator_that_is_away_holds_up_no_result() -> None:
    async with a_stage() as stage:
        stage.executor.script = _take_a_second(stage)
        await stage.grant(1)
        await stage.until(lambda: stage.executor.running == 1)
        for call in COORDINATOR_CALLS:
            stage.faults.inject(call, Fault.GONE, times=None)
        await stage.until_status(1, SUCCESS, within=SECOND * 2)
        await stage.until_free(within=SECOND)


@virtually
async def test_events_that_nobody_takes_do_not_slow_the_acknowledgements() -> None:
    async with a_stage() as stage:
        stage.faults.inject("signals.publish", Fault.GONE, times=None)
        for task_id in range(1, 11):
            await stage.grant(task_id)
            await stage.until_status(task_id, SUCCESS, within=SECOND * 2)
            await stage.until_free(within=SECOND / 2)
        assert stage.figures.count(metrics.LOOP_FAILURES, "worker.publish") >= 10


@virtually
async def test_events_are_told_with_an_acknowledgement_and_not_after_its_answer() -> None:
    async with a_stage() as stage:
        stage.delay("acknowledge", SECOND * 10)
        await stage.grant(1)
        await stage.until_status(1, SUCCESS)
        await stage.until(lambda: EventKind.TASK_COMPLETED in [event.kind for event in stage.events], within=SECOND)


@pytest.mark.parametrize("call", [*STORE_CALLS, *COORDINATOR_CALLS])
@pytest.mark.parametrize("fault", [Fault.GONE, Fault.EXECUTE_AND_TIMEOUT])
def test_every_loop_survives_a_failure(call: str, fault: Fault) -> None:
    @virtually
    async def scene() -> None:
        async def talk(job: Job, reports: Reports) -> Outcome:
            reports.log("hello")
            await stage.clock.sleep(SECOND)
            return Failed(TaskError("smtp")) if job.task.id % 2 else Succeeded()

        stage = Stage(talk)
        await stage.store.configs.put(a_config())
        stage.faults.inject(call, fault, times=2)
        async with stage.running() as run:
            await stage.grant(1, 2)
            await stage.until_status(1, RETRYING)
            await stage.until_status(2, SUCCESS)
            await stage.until_free()
            stage.faults.inject(call, fault, times=2)
            await stage.grant(3, 4)
            await stage.until_status(3, RETRYING)
            await stage.until_status(4, SUCCESS)
            await stage.until_free()
            await stage.pass_time(SECOND * 10)
            assert await stage.in_flight() == []
            assert len(stage.executor.begun) == 4
            stage.worker.stop()
            await run

    scene()


def _take_a_second(stage: Stage) -> Script:
    async def script(job: Job, reports: Reports) -> Outcome:
        await stage.clock.sleep(SECOND)
        return Succeeded()

    return script


@virtually
async def test_a_worker_that_cannot_hear_the_store_takes_nothing_new_until_it_can() -> None:
    async with a_stage(capacity=3) as stage:
        stage.take_store_away()
        await stage.pass_time(SECOND * 10)
        assert [worker.room for worker in await stage.pool()] == [0]
        stage.faults.heal()
        await stage.pass_time(SECOND * 6)
        assert [worker.room for worker in await stage.pool()] == [3]


@virtually
async def test_a_worker_that_cannot_hear_the_pool_takes_nothing_new_until_it_can() -> None:
    async with a_stage(capacity=3) as stage:
        for operation in ("pool.register", "pool.heartbeat", "deliveries.held", "deliveries.take"):
            stage.faults.inject(operation, Fault.EXECUTE_AND_TIMEOUT, times=None)  # what it says arrives, as ever
        await stage.pass_time(SECOND * 12)
        assert [worker.room for worker in await stage.pool()] == [0]
        stage.faults.heal()
        await stage.pass_time(SECOND * 3)
        assert [worker.room for worker in await stage.pool()] == [3]


@virtually
async def test_a_worker_that_joins_and_does_not_hear_of_it_is_given_nothing_until_it_does() -> None:
    async with a_stage(capacity=3) as stage:
        stage.faults.inject("pool.register", Fault.EXECUTE_AND_TIMEOUT, times=None)
        await stage.retire()  # it starts over as another
        await stage.pass_time(SECOND * 10)
        assert [worker.room for worker in await stage.pool()] == [0]
        stage.faults.heal()
        await stage.pass_time(SECOND * 6)
        assert [worker.room for worker in await stage.pool()] == [3]


@virtually
async def test_a_pool_that_forgot_the_last_word_about_a_worker_is_told_again() -> None:
    async with a_stage(capacity=3) as stage:
        (known,) = await stage.pool()
        await stage.coordinator.pool.register(replace(known, is_draining=True), MINUTE)
        await stage.pass_time(SECOND * 20)
        assert [worker.is_draining for worker in await stage.pool()] == [False]
