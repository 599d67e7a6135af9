"""The leader's dispatch where others dispatch as well."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from structlog.testing import capture_logs

from rota.application.dispatch import DispatchSettings
from rota.application.elect import ElectionSettings, Leadership
from rota.application.reign import Reign
from rota.application.roles import SharedDispatch
from rota.domain.events import EventKind
from rota.domain.ids import TaskId, WorkerId
from rota.testing.faults import Fault
from tests.support.builders import EMAIL, a_config
from tests.support.shared_stage import HELPER, LEADER, SharedStage, shared
from tests.support.stage import LEASE, Even
from tests.unit.application.test_dispatch import attempts

REPORT = "report"
TTL = ElectionSettings().ttl.total_seconds()


async def pass_on(stage: SharedStage, *task_ids: int, type: str = EMAIL) -> None:
    """An assistant took these and leaves them to the leader."""
    await stage.submit(*task_ids, type=type)
    await stage.queued()
    await stage.calm_assistance.pass_on([TaskId(task_id) for task_id in task_ids])


@shared
async def test_what_was_passed_on_is_granted(stage: SharedStage) -> None:
    await stage.hire(1)
    await pass_on(stage, 1, 2)
    await stage.submit(3)
    async with stage.reigning():
        assert await stage.handed_over() == attempts(1, 2, 3)
        assert await stage.reserved() == {}
        await pass_on(stage, 4)
        await stage.settle()
        assert await stage.handed_over() == attempts(1, 2, 3, 4)


@shared
async def test_more_than_a_batch_is_taken_over_at_once(stage: SharedStage) -> None:
    stage.dispatcher.tune(DispatchSettings(batch_size=2))
    await stage.hire(1)
    await pass_on(stage, *range(1, 8))
    async with stage.reigning():
        assert await stage.handed_over() == attempts(*range(1, 8))


@shared
async def test_what_is_passed_on_together_with_something_new_is_not_overlooked(stage: SharedStage) -> None:
    """One wake is for both."""
    await stage.hire(1)
    await stage.submit(1)

    async def pass_on_under_the_same_wake() -> None:
        await pass_on(stage, 2)
        await stage.calm.queue.wait_for_work(timedelta(0))

    async with stage.reigning():
        stage.faults.after("queue.take", pass_on_under_the_same_wake)
        await stage.submit(3)
        await stage.settle()
        assert await stage.handed_over() == attempts(1, 2, 3)


@shared
async def test_what_is_due_has_its_turn_while_more_and_more_is_passed_on(stage: SharedStage) -> None:
    await stage.hire(1, capacity=1_000)
    left, has_looked = list(range(1, 101)), False

    async def pass_on_another() -> None:
        nonlocal has_looked
        has_looked = has_looked or stage.calls["queue.move_due"] > 0
        if left:
            await pass_on(stage, left.pop())
            stage.faults.after("assistance.take_passed", pass_on_another)

    await pass_on_another()
    async with stage.reigning():
        await stage.pass_time(1)
        assert len(await stage.handed_over()) == 100
        assert has_looked


@shared
async def test_what_was_passed_on_and_cannot_go_is_parked(stage: SharedStage) -> None:
    await stage.truth.configs.put(a_config(REPORT, max_concurrent=1))
    await stage.hire(1)
    await pass_on(stage, 1, 2, type=REPORT)
    async with stage.reigning():
        assert await stage.granted() == {1: 1}
        assert stage.dispatcher.is_parked(TaskId(2))
        await stage.finish(1)
        await stage.settle()
        assert await stage.granted() == {2: 1}


@shared
async def test_while_there_is_no_room_what_was_passed_on_is_held(stage: SharedStage) -> None:
    await stage.hire(1, capacity=1)
    await stage.submit(1)
    async with stage.reigning():
        await pass_on(stage, 2)
        await stage.pass_time(3)
        assert await stage.granted() == {1: 1}
        await stage.finish(1)
        await stage.settle()
        assert await stage.granted() == {2: 1}


@shared
async def test_places_that_another_has_reserved_meanwhile_are_not_filled(stage: SharedStage) -> None:
    await stage.hire(1, capacity=2)
    await stage.submit(1, 2)
    stage.faults.before("assistance.reserve", lambda: stage.reserve_elsewhere(1, 1))
    async with stage.reigning():
        assert len(await stage.granted()) == 1
        assert stage.figures.counted[("rota_scheduler_places_lost_total",)] == 2
        await stage.pass_time(5)
        assert len(await stage.handed_over()) == 1


@shared
async def test_a_parked_task_whose_place_is_lost_stays_parked(stage: SharedStage) -> None:
    await stage.hire(1, capacity=1)
    await stage.submit(1)
    async with stage.reigning():
        await pass_on(stage, 2)
        await stage.settle()
        stage.faults.before("assistance.reserve", lambda: stage.reserve_elsewhere(1, 1))
        await stage.finish(1)
        await stage.settle()
        assert await stage.granted() == {}
        assert stage.dispatcher.is_parked(TaskId(2))
        await stage.calm_assistance.leave(LEADER, await _seat_of_the_third(stage))
        await stage.pass_time(2)
        assert await stage.granted() == {2: 1}


async def _seat_of_the_third(stage: SharedStage) -> int:
    """The last one that was taken."""
    return await stage.calm_assistance.join(LEADER, stage.leader_seat.settings.ttl) - 1


@shared
async def test_a_leader_whose_seat_is_over_takes_another(stage: SharedStage) -> None:
    await stage.hire(1)
    await stage.submit(1)
    async with stage.reigning():
        await stage.calm_assistance.leave(LEADER, (await stage.leader_seat.holder("any")).seat)
        await stage.submit(2)
        await stage.pass_time(1)
        assert await stage.handed_over() == attempts(1, 2)


@shared
async def test_places_left_over_from_a_call_without_an_answer_are_given_back(stage: SharedStage) -> None:
    """It was done after the leader had given it up, and had given its places back."""
    await stage.hire(1)
    async with stage.reigning():
        holder = await stage.leader_seat.holder(LEADER)
        since = (await stage.calm.queue.depths()).as_of
        await stage.calm_assistance.reserve(holder, {WorkerId(1): 10}, since=since)
        await stage.pass_time(3)
        assert await stage.reserved() == {}


@shared
async def test_what_was_handed_over_is_told_though_its_places_could_not_be_given_back(stage: SharedStage) -> None:
    await stage.hire(1)
    async with stage.reigning(), stage.calm.signals.subscribe() as events:
        stage.faults.inject("assistance.release", Fault.TIMEOUT)
        with capture_logs() as logs:
            await stage.submit(1)
            await stage.settle()
        async with asyncio.timeout(1):
            told = await anext(events)
        assert told.event is not None
        assert told.event.kind is EventKind.TASK_ASSIGNED
        assert "dispatch.give_back_failed" in [line["event"] for line in logs]
        await stage.pass_time(2)
        assert await stage.reserved() == {}


@shared
async def test_a_grant_that_is_done_does_not_fail_for_want_of_a_seat(stage: SharedStage) -> None:
    await stage.hire(1)
    async with stage.reigning():

        async def lose_the_seat() -> None:
            stage.leader_seat.lose(await stage.leader_seat.holder("any"))
            stage.faults.inject("terms.find_last", Fault.GONE)

        stage.faults.after("tasks.advance", lose_the_seat)
        await stage.submit(1)
        await stage.pass_time(3)
        assert stage.figures.counted["rota_scheduler_tasks_scheduled_total", EMAIL] == 1
        assert await stage.reserved() == {}


@shared
async def test_a_type_that_has_got_a_limit_counts_what_others_granted(stage: SharedStage) -> None:
    await stage.truth.configs.put(a_config(REPORT, max_concurrent=1))
    await stage.hire(1)
    await stage.hire(2)
    await stage.submit(1, type=REPORT)
    async with stage.reigning():
        await stage.pass_time(30)  # all that ran has been counted long ago
        await _grant_beside(stage, 2, 3)
        await stage.truth.configs.put(a_config(EMAIL, max_concurrent=2))
        await pass_on(stage, 4)
        await stage.pass_time(5)
        assert 4 not in await stage.granted()
        await _grant_beside(stage, 5)  # by one that has not heard of the limit yet
        await stage.pass_time(15)  # they are counted once more
        await stage.finish(2)
        await stage.pass_time(5)
        assert 4 not in await stage.granted()
        await stage.finish(3)
        await stage.pass_time(5)
        assert 4 in await stage.granted()


async def _grant_beside(stage: SharedStage, *task_ids: int) -> None:
    await stage.submit(*task_ids)
    await stage.queued()
    for live in await stage.truth.tasks.find_live([TaskId(task_id) for task_id in task_ids]):
        step = live.state.granted(WorkerId(2), term=stage.reign.number, at=stage.clock.now(), timeout=live.timeout)
        await stage.truth.tasks.advance([step])


@shared
async def test_a_mailbox_that_cannot_be_read_keeps_what_is_in_it(stage: SharedStage) -> None:
    await stage.hire(1)
    await pass_on(stage, 1)
    stage.faults.inject("assistance.take_passed", Fault.TIMEOUT)
    async with stage.reigning():
        await stage.pass_time(1)
        assert await stage.handed_over() == attempts(1)


@asynccontextmanager
async def leading(stage: SharedStage) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """This node leads, with its seat, until it is told that another one does."""
    over = asyncio.Event()

    async def duties(_reign: Reign) -> None:
        async with stage.reigning():
            await over.wait()

    async def step_down() -> None:
        over.set()
        await stage.settle()
        assert await stage.calm.election.campaign(HELPER, LEASE) is not None

    leadership = Leadership(
        election=stage.calm.election,
        terms=stage.truth.terms,
        clock=stage.clock,
        random=Even(),
        collector=stage.figures,
        node_id=LEADER,
    )
    run = asyncio.create_task(SharedDispatch(stage.leader_seat, stage.assistant).run(leadership, duties))
    await stage.settle()
    yield step_down
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


@shared
async def test_places_that_could_not_be_given_back_are_free_soon_after_the_reign(stage: SharedStage) -> None:
    await stage.hire(1)
    async with leading(stage) as step_down:
        stage.faults.inject("tasks.advance", Fault.TIMEOUT, times=None)
        stage.faults.inject("assistance.release", Fault.TIMEOUT, times=None)
        await stage.submit(1)
        await stage.settle()
        await step_down()
        stage.faults.heal()
        assert await stage.reserved() == {WorkerId(1): {LEADER: 1}}
        await stage.pass_time(2 * TTL)
        assert await stage.reserved() == {}
        assert await stage.calm_assistance.list_present() == [LEADER]


@shared
async def test_places_that_are_reserved_after_the_reign_by_a_late_call_are_free_soon(stage: SharedStage) -> None:
    await stage.hire(1)
    async with leading(stage) as step_down:
        holder, since = await stage.leader_seat.holder(LEADER), (await stage.calm.queue.depths()).as_of
        await step_down()
        await stage.calm_assistance.reserve(holder, {WorkerId(1): 10}, since=since)
        await stage.pass_time(2 * TTL)
        assert await stage.reserved() == {}
