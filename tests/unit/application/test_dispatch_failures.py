"""Dispatch while the store, the coordinator or the reign fail it."""

import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from rota.domain.errors import FencedError
from rota.domain.ids import TaskId, WorkerId
from rota.domain.priority import URGENT
from rota.testing.faults import Fault
from tests.support.builders import EMAIL, a_config
from tests.support.stage import TERM, Stage, staged
from tests.unit.application.test_dispatch import attempts

CALLS_BEFORE_THE_GRANT = [
    "queue.move_due",
    "pool.list_alive",
    "queue.loads",
    "queue.take",
    "tasks.find_live",
    "configs.find_many",
    "tasks.list_running",
    "tasks.advance",
]


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.REFUSED])
@pytest.mark.parametrize("call", CALLS_BEFORE_THE_GRANT)
def test_a_call_that_fails_loses_nothing(call: str, fault: Fault) -> None:
    async def play(stage: Stage) -> None:
        await stage.truth.configs.put(a_config(max_concurrent=10))
        await stage.hire(1)
        await stage.submit(1, 2, 3)
        stage.faults.inject(call, fault)
        async with stage.reigning():
            await stage.pass_time(1)
            assert await stage.handed_over() == attempts(1, 2, 3)
            assert stage.figures.counted[("rota_scheduler_dispatch_failures_total",)] == 1
            assert not stage.faults.pending

    staged(play)()


@staged
async def test_a_store_that_fails_for_a_while_loses_nothing_and_changes_no_order(stage: Stage) -> None:
    await stage.hire(1, capacity=1)
    await stage.submit(1)
    await stage.submit(2, priority=URGENT)
    stage.faults.inject("tasks.find_live", Fault.GONE, times=None)
    async with stage.reigning():
        await stage.pass_time(60)
        assert stage.dispatcher.is_parked(TaskId(2))
        stage.faults.heal()
        await stage.pass_time(6)
        assert await stage.granted() == {2: 1}


@staged
async def test_a_grant_whose_answer_was_lost_is_handed_over_once(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=2, rate_per_second=1000))
    await stage.hire(1, capacity=3)
    await stage.submit(1, 2, 3, 4)
    stage.faults.inject("tasks.advance", Fault.EXECUTE_AND_TIMEOUT)
    async with stage.reigning():
        await stage.pass_time(1)
        assert await stage.handed_over() == attempts(1, 2)
        assert set(await stage.granted()) == {1, 2}


@staged
async def test_of_grants_whose_answer_was_lost_those_are_not_handed_over_that_are_over(stage: Stage) -> None:
    await stage.hire(1)
    await stage.submit(1, 2)
    stage.faults.inject("tasks.advance", Fault.EXECUTE_AND_TIMEOUT)
    async with stage.reigning():
        await stage.cancel(1)
        await stage.pass_time(1)
        assert await stage.handed_over() == attempts(2)


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.EXECUTE_AND_TIMEOUT])
def test_a_hand_over_that_fails_is_repeated_before_anything_else_is_granted(fault: Fault) -> None:
    async def play(stage: Stage) -> None:
        await stage.hire(1, capacity=2)
        await stage.submit(1, 2, 3)
        stage.faults.inject("deliveries.assign", fault, times=3)
        with capture_logs() as logs:
            async with stage.reigning():
                await stage.pass_time(5)
                assert await stage.handed_over() == attempts(1, 2)
                assert set(await stage.granted()) == {1, 2}
        assert logs[0]["event"] == "dispatch.hand_over_failed"
        assert logs[0]["attempts"] == 2

    staged(play)()


@staged
async def test_events_that_cannot_be_told_change_nothing(stage: Stage) -> None:
    await stage.hire(1)
    await stage.submit(1)
    stage.faults.inject("signals.publish", Fault.GONE, times=None)
    with capture_logs() as logs:
        async with stage.reigning():
            await stage.pass_time(5)
            assert await stage.handed_over() == attempts(1)
    assert [line["event"] for line in logs] == ["dispatch.publish_failed"]
    assert stage.figures.counted[("rota_scheduler_dispatch_failures_total",)] == 0


@staged
async def test_a_leader_whose_trust_is_over_grants_nothing(stage: Stage) -> None:
    await stage.hire(1)
    async with stage.reigning():
        stage.reign.end()
        await stage.submit(1)
        await stage.pass_time(10)
        assert await stage.granted() == {}
        assert stage.dispatcher.is_parked(TaskId(1)), "its wait for work has taken it"
    await stage.dispatcher.hand_back()
    assert (await stage.calm.queue.depths()).ready == {0: 1}


@staged
async def test_trust_that_ends_between_taking_and_granting_grants_nothing(stage: Stage) -> None:
    async def lose_trust() -> None:
        stage.reign.end()

    await stage.hire(1)
    await stage.submit(1, priority=5)
    stage.faults.before("tasks.find_live", lose_trust)
    async with stage.reigning():
        assert await stage.granted() == {}
        assert stage.dispatcher.is_parked(TaskId(1))
    await stage.dispatcher.hand_back()
    assert (await stage.calm.queue.depths()).ready == {5: 1}
    assert not stage.dispatcher.is_parked(TaskId(1))


@staged
async def test_a_round_cut_off_in_the_middle_leaves_all_in_hand(stage: Stage) -> None:
    await stage.hire(1)
    await stage.submit(1)
    await stage.submit(2, priority=URGENT)
    await stage.submit(3)
    await stage.cancel(3)
    stage.faults.before("tasks.find_live", asyncio.Event().wait)  # the store hangs until the reign is over
    async with stage.reigning():
        assert stage.dispatcher.is_parked(TaskId(1))
    await stage.dispatcher.hand_back()
    assert (await stage.calm.queue.depths()).ready == {0: 1, URGENT: 1}


@staged
async def test_without_the_store_what_is_in_hand_goes_back_as_normal(stage: Stage) -> None:
    await stage.hire(1)
    await stage.submit(1, priority=5)
    stage.faults.inject("tasks.find_live", Fault.GONE, times=None)
    async with stage.reigning():
        pass
    await stage.dispatcher.hand_back()
    assert (await stage.calm.queue.depths()).ready == {0: 1}


@staged
async def test_what_could_not_be_handed_back_is_granted_in_the_next_reign(stage: Stage) -> None:
    await stage.hire(1, types=frozenset({"report"}))
    await stage.submit(1)
    async with stage.reigning():
        await stage.pass_time(1)
        stage.faults.inject("queue.push", Fault.GONE)
    assert (stage.dispatcher.is_parked(TaskId(1)), stage.faults.pending) == (True, {})
    await stage.hire(2)
    async with stage.reigning():
        assert await stage.granted() == {1: 2}


@staged
async def test_a_task_whose_putting_back_fails_is_put_back_later(stage: Stage) -> None:
    await stage.hire(1)
    await stage.submit(1, due_at=stage.clock.now() + timedelta(seconds=30))
    stage.faults.inject("queue.push", Fault.TIMEOUT)
    async with stage.reigning():
        assert stage.dispatcher.is_parked(TaskId(1))
        await stage.pass_time(1)
        assert (await stage.calm.queue.depths()).delayed == 1
        await stage.pass_time(30)
        assert await stage.granted() == {1: 1}


async def cut_a_take_short(stage: Stage) -> asyncio.Event:
    """End dispatch while it takes the tasks 1 and 2; their answer comes when the event is set."""
    await stage.hire(1)
    await stage.time.sync()
    running = asyncio.create_task(stage.dispatcher.run(stage.reign))
    await stage.settle()
    answered = asyncio.Event()
    stage.faults.after("queue.take", answered.wait)
    await stage.submit(1, 2)
    await stage.settle()
    assert await stage.queued() == []  # taken; the answer is on its way
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return answered


@staged
async def test_what_a_cancelled_take_brings_is_queued_again(stage: Stage) -> None:
    answered = await cut_a_take_short(stage)
    handing_back = asyncio.create_task(stage.dispatcher.hand_back())
    await stage.settle()
    answered.set()
    await handing_back
    assert await stage.queued() == [1, 2]


@staged
async def test_what_a_cancelled_take_brings_is_queued_again_though_it_could_not_be_woken(stage: Stage) -> None:
    answered = await cut_a_take_short(stage)
    stage.faults.inject("queue.wake", Fault.TIMEOUT)
    handing_back = asyncio.create_task(stage.dispatcher.hand_back())
    await stage.settle()
    assert (handing_back.done(), stage.faults.pending) == (False, {})
    answered.set()
    await handing_back
    assert await stage.queued() == [1, 2]


@staged
async def test_what_a_cancelled_take_brings_after_handing_back_was_given_up_is_granted_in_the_next_reign(
    stage: Stage,
) -> None:
    answered = await cut_a_take_short(stage)
    handing_back = asyncio.create_task(stage.dispatcher.hand_back())
    await stage.settle()
    handing_back.cancel()
    await asyncio.gather(handing_back, return_exceptions=True)
    answered.set()
    async with stage.reigning():
        await stage.pass_time(1)
        assert await stage.granted() == {1: 1, 2: 1}


@staged
async def test_a_cancelled_take_without_an_answer_keeps_nothing_else_from_the_queue(stage: Stage) -> None:
    await stage.submit(1, type="nobody.does.this")
    await stage.hire(1, types=frozenset({EMAIL}))
    async with stage.reigning():
        assert stage.dispatcher.is_parked(TaskId(1))
        stage.faults.inject("queue.take", Fault.EXECUTE_AND_TIMEOUT)
        stage.faults.after("queue.take", lambda: stage.pass_time(1))
        await stage.submit(2)
        await stage.settle()
    await stage.dispatcher.hand_back()
    assert await stage.queued() == [1]


@staged
async def test_a_grant_that_was_cancelled_on_its_way_is_handed_over_at_the_end(stage: Stage) -> None:
    await stage.hire(1)
    await stage.submit(1)
    stage.faults.after("tasks.advance", asyncio.Event().wait)
    async with stage.reigning():
        assert await stage.handed_over() == attempts()
    await stage.dispatcher.hand_back()
    assert await stage.handed_over() == attempts(1)


@staged
async def test_a_leader_that_meets_a_grant_of_its_successor_stops_and_puts_everything_back(stage: Stage) -> None:
    await stage.hire(1)
    await stage.time.sync()
    await stage.submit(1, 2)
    (live,) = await stage.truth.tasks.find_live([TaskId(2)])
    granted = live.state.granted(WorkerId(7), term=TERM + 1, at=stage.clock.now(), timeout=timedelta(minutes=1))
    await stage.truth.tasks.advance([granted])
    await stage.truth.tasks.advance([granted.after.lost(at=stage.clock.now())])
    with pytest.raises(FencedError):
        await stage.dispatcher.run(stage.reign)
    await stage.dispatcher.hand_back()
    assert (await stage.granted(), await stage.queued()) == ({}, [1, 2])


@staged
async def test_what_is_parked_is_handed_back_though_the_store_is_away(stage: Stage) -> None:
    await stage.submit(1, type="nobody.does.this")
    await stage.hire(1, types=frozenset({EMAIL}))
    async with stage.reigning():
        stage.faults.inject("tasks.advance", Fault.GONE, times=None)
        stage.faults.inject("tasks.find_live", Fault.GONE, times=None)
        await stage.submit(2)
        await stage.settle()
    assert set(await stage.queued()) == {1, 2}
