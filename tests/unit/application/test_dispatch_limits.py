"""Limits of types and rates, as dispatch keeps them."""

from collections.abc import Awaitable, Callable

import pytest

from rota.application import running, throttle
from rota.application.dispatch import DispatchSettings
from rota.domain.ids import TaskId, TenantId, WorkerId
from rota.domain.priority import NORMAL, URGENT
from rota.domain.queue import QueueEntry
from rota.domain.waiting import Reason
from rota.testing.faults import Fault
from tests.support.builders import EMAIL, HOUR, MINUTE, NOW, a_config, a_new_task, a_state
from tests.support.stage import TERM, Stage, staged

REPORT = "report"


@staged
async def test_a_type_at_its_limit_holds_up_nobody_else(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(REPORT, max_concurrent=2))
    await stage.hire(1, capacity=100)
    await stage.submit(*range(1, 51), type=REPORT, priority=URGENT)
    await stage.submit(100, 101)
    async with stage.reigning():
        assert set(await stage.granted()) == {1, 2, 100, 101}
        assert stage.figures.gauges["rota_scheduler_tasks_parked", Reason.TYPE_LIMIT] == 48


@staged
async def test_when_one_of_a_limited_type_ends_the_next_goes_at_once(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=2))
    await stage.hire(1)
    await stage.submit(1, 2, 3, 4)
    async with stage.reigning():
        await stage.pass_time(0.3)
        await stage.finish(1)
        await stage.pass_time(0.03)
        assert set(await stage.granted()) == {2, 3}


@staged
async def test_an_end_that_nobody_told_of_is_found_within_a_second(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=1))
    await stage.hire(1)
    await stage.submit(1, 2)
    async with stage.reigning():
        await stage.finish(1, is_acknowledged=False)
        await stage.pass_time(1.1)
        assert set(await stage.granted()) == {2}


@staged
async def test_a_reign_begins_with_what_already_runs(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=2))
    await stage.hire(1)
    await stage.submit(1)
    async with stage.reigning():
        assert set(await stage.granted()) == {1}
    await stage.submit(2, 3)
    async with stage.reigning():
        assert set(await stage.granted()) == {1, 2}


@staged
async def test_what_the_leader_before_granted_last_counts_as_well(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=2))
    await stage.hire(1, capacity=10)
    await stage.submit(1)
    async with stage.reigning():
        assert set(await stage.granted()) == {1}
        await stage.truth.tasks.add([a_new_task(2)])
        (live,) = await stage.truth.tasks.find_live([TaskId(2)])
        late = live.state.granted(WorkerId(1), term=TERM - 1, at=stage.clock.now(), timeout=HOUR)
        await stage.truth.tasks.advance([late])  # by one who still believed that it led
        await stage.pass_time(running.SEED_AGAIN_AFTER)
        await stage.submit(3)
        await stage.pass_time(2)
        assert set(await stage.granted()) == {1, 2}


@staged
async def test_what_is_found_to_run_when_it_was_to_be_granted_counts_as_well(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=2))
    await stage.hire(1, capacity=10)
    await stage.truth.tasks.add([a_new_task(1)])
    (live,) = await stage.truth.tasks.find_live([TaskId(1)])
    granted = live.state.granted(WorkerId(1), term=TERM - 1, at=stage.clock.now(), timeout=HOUR)
    await stage.truth.tasks.advance([granted])  # by the leader before; what was queued knows nothing of it
    await stage.calm.queue.push([QueueEntry(live.id, live.state.priority, added=live)])
    async with stage.reigning():
        await stage.submit(2, 3)
        await stage.settle()
        assert set(await stage.granted()) == {1, 2}


async def raise_priority(stage: Stage, task_id: int) -> QueueEntry:
    """Add a task that becomes more urgent at once; answers with what is still queued of it as it was added."""
    await stage.truth.tasks.add([a_new_task(task_id)])
    [live] = await stage.truth.tasks.find_live([TaskId(task_id)])
    await stage.truth.tasks.advance([live.state.amended(priority=URGENT, at=stage.clock.now())])
    await stage.calm.queue.push([QueueEntry(live.id, URGENT)])
    return QueueEntry(live.id, NORMAL, added=live)


@staged
async def test_what_is_left_of_a_task_as_it_was_added_does_not_make_it_less_urgent_again(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=1))
    await stage.hire(1)
    await stage.submit(1)
    async with stage.reigning():
        await stage.submit(2)
        left = await raise_priority(stage, 3)
        await stage.settle()
        await stage.calm.queue.push([left])
        await stage.settle()
        await stage.finish(1)
        await stage.pass_time(1.1)
        assert set(await stage.granted()) == {3}


@staged
async def test_a_task_that_is_taken_as_it_was_added_and_as_it_is_now_is_parked_as_it_is_now(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=1))
    await stage.hire(1)
    await stage.submit(1)
    async with stage.reigning():
        assert set(await stage.granted()) == {1}
    await stage.submit(2)
    await stage.calm.queue.push([await raise_priority(stage, 3)])
    async with stage.reigning():
        await stage.finish(1)
        await stage.pass_time(1.1)
        assert set(await stage.granted()) == {3}


@staged
async def test_a_grant_that_got_no_answer_keeps_its_place_and_takes_no_second_one(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=2))
    await stage.hire(1, capacity=10)
    await stage.submit(9)
    async with stage.reigning():
        stage.faults.inject("tasks.advance", Fault.TIMEOUT)
        states = [a_state(3), a_state(1, due_at=NOW - MINUTE), a_state(2, due_at=NOW - MINUTE)]
        await stage.truth.tasks.add([a_new_task(state.id, state=state) for state in states])
        # The first one is taken first. The others are more pressing once they are parked.
        await stage.calm.queue.push([QueueEntry(state.id, state.priority) for state in states])
        await stage.settle()
        await stage.finish(9)
        await stage.pass_time(1)
        assert stage.faults.pending == {}
        assert set(await stage.granted()) == {1, 3}, "with a second place there would be three, if it was written late"


@staged
async def test_a_place_is_kept_for_a_grant_until_it_can_be_written_no_more(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=1))
    await stage.hire(1, capacity=10)
    await stage.submit(9)
    async with stage.reigning():
        await stage.pass_time(1)
        await stage.finish(9)
        stage.faults.inject("tasks.advance", Fault.TIMEOUT)
        await stage.submit(1)
        await stage.settle()
        (live,) = await stage.truth.tasks.find_live([TaskId(1)])
        await stage.truth.tasks.advance([live.state.cancelled("enough", at=stage.clock.now())])
        await stage.submit(2)
        await stage.pass_time(running.SEED_AGAIN_AFTER - 0.5)
        assert (stage.faults.pending, set(await stage.granted())) == ({}, set())
        await stage.pass_time(2)
        assert set(await stage.granted()) == {2}


@staged
async def test_a_limit_set_later_counts_what_was_granted_before(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(REPORT, max_concurrent=1))
    await stage.hire(1)
    await stage.submit(1, 2)
    await stage.submit(3, type=REPORT)
    async with stage.reigning():
        await stage.truth.configs.put(a_config(EMAIL, max_concurrent=3))
        await stage.pass_time(2.5)
        await stage.submit(4, 5)
        await stage.settle()
        assert set(await stage.granted()) == {1, 2, 3, 4}


@staged
async def test_a_limit_that_is_raised_or_lifted_lets_parked_tasks_go(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=1))
    await stage.hire(1)
    await stage.submit(1, 2, 3, 4)
    async with stage.reigning():
        await stage.truth.configs.put(a_config(max_concurrent=2))
        await stage.pass_time(4.5)
        assert set(await stage.granted()) == {1, 2}
        await stage.truth.configs.put(a_config())
        await stage.pass_time(4.5)
        assert set(await stage.granted()) == {1, 2, 3, 4}


@staged
async def test_tenants_have_limits_of_their_own(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=1))
    await stage.truth.configs.put(a_config(max_concurrent=2, tenant_id=TenantId("other")))
    await stage.hire(1)
    await stage.submit(1, 2)
    await stage.submit(11, 12, 13, tenant="other")
    async with stage.reigning():
        assert set(await stage.granted()) == {1, 11, 12}


@staged
async def test_while_a_limit_is_reached_nothing_is_polled_faster_than_the_net(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=1))
    await stage.hire(1)
    await stage.submit(1, 2)
    async with stage.reigning():
        before = stage.calls["tasks.find_live"]
        await stage.pass_time(60)
        assert stage.calls["tasks.find_live"] - before <= 62


def test_a_large_limited_type_is_asked_for_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PAGE", 7)
    staged(_ask_in_turn)()


async def _ask_in_turn(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=20))
    await stage.hire(1)
    await stage.hire(2, capacity=1000)
    await stage.submit(*range(1, 2_000))
    async with stage.reigning():
        for _ in range(30):
            assert len(await stage.granted()) == 20
            await stage.finish(*list(await stage.granted())[:3])
            await stage.pass_time(0.03)


@staged
async def test_a_type_starts_no_faster_than_its_rate_and_holds_up_nobody(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(REPORT, rate_per_second=10))
    await stage.hire(1, capacity=1000)
    await stage.submit(*range(1, 201), type=REPORT, priority=URGENT)
    await stage.submit(900)
    async with stage.reigning():
        assert len(await stage.granted()) == 11  # a second's worth at once, and the other one
        await stage.pass_time(10)
        assert 105 <= len(await stage.granted()) <= 111
        await stage.truth.configs.put(a_config(REPORT))
        await stage.pass_time(5)
        assert len(await stage.granted()) == 201


@staged
async def test_a_rate_below_one_per_second_is_kept(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(rate_per_second=0.1))
    await stage.hire(1)
    await stage.submit(1, 2, 3)
    async with stage.reigning():
        counts = []
        for _ in range(5):
            counts.append(len(await stage.granted()))
            await stage.pass_time(5.01)
        assert counts == [1, 1, 2, 2, 3]


@staged
async def test_a_type_may_have_both_limits(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(rate_per_second=1, max_concurrent=2))
    await stage.hire(1)
    await stage.submit(1, 2, 3)
    async with stage.reigning():
        await stage.pass_time(10)
        assert set(await stage.granted()) == {1, 2}
        await stage.finish(1)
        await stage.settle()
        assert set(await stage.granted()) == {2, 3}


@staged
async def test_the_global_rate_holds_for_all_types_together_and_can_be_tuned(stage: Stage) -> None:
    await stage.hire(1, capacity=1000)
    await stage.submit(*range(1, 200), type=REPORT)
    await stage.submit(*range(300, 500))
    stage.dispatcher.tune(DispatchSettings(global_rate=10))
    async with stage.reigning():
        assert len(await stage.granted()) == 10
        await stage.pass_time(10)
        assert 105 <= len(await stage.granted()) <= 110
        assert len((await stage.calm.queue.depths()).ready) == 1
        stage.dispatcher.tune(DispatchSettings())
        await stage.pass_time(1.1)
        assert len(await stage.granted()) == 399


async def leave_behind(stage: Stage, *task_ids: int) -> None:
    """Queue tasks that are cancelled before anybody takes them."""
    await stage.truth.tasks.add([a_new_task(task_id) for task_id in task_ids])
    lives = await stage.truth.tasks.find_live([TaskId(task_id) for task_id in task_ids])
    await stage.truth.tasks.advance([live.state.cancelled("by hand", at=stage.clock.now()) for live in lives])
    await stage.calm.queue.push([QueueEntry(live.id, NORMAL, added=live) for live in lives])


@staged
async def test_tasks_that_were_cancelled_in_the_queue_take_nothing_of_the_global_rate(stage: Stage) -> None:
    await stage.hire(1)
    stage.dispatcher.tune(DispatchSettings(global_rate=2))
    async with stage.reigning():
        await leave_behind(stage, *range(1, 41))
        await stage.submit(41)
        await stage.pass_time(1)
        assert set(await stage.granted()) == {41}


@staged
async def test_tasks_that_were_cancelled_in_the_queue_take_nothing_of_the_rate_of_their_type(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(rate_per_second=1))
    await stage.hire(1, capacity=1)
    async with stage.reigning():
        await leave_behind(stage, *range(1, 11))
        await stage.submit(11)
        await stage.pass_time(1)
        assert set(await stage.granted()) == {11}


@staged
async def test_what_the_global_rate_refuses_of_too_many_taken_is_parked(stage: Stage) -> None:
    await stage.hire(1, capacity=1000, types=frozenset({EMAIL}))
    stage.dispatcher.tune(DispatchSettings(global_rate=1))
    await stage.submit(*range(1, 4), type=REPORT, priority=URGENT)
    await stage.submit(*range(10, 20))
    async with stage.reigning():
        assert len(await stage.granted()) == 1
        assert stage.figures.gauges["rota_scheduler_tasks_parked", Reason.GLOBAL_RATE] > 0
        await stage.pass_time(9.1)
        assert set(await stage.granted()) == set(range(10, 20))


@staged
async def test_a_task_that_went_back_to_waiting_no_longer_counts(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=1))
    await stage.hire(1)
    await stage.submit(1, 2)
    async with stage.reigning():
        [live] = await stage.truth.tasks.find_live([TaskId(1)])
        now = stage.clock.now()
        await stage.truth.tasks.advance([live.state.released("drained", at=now, due_at=now + MINUTE)])
        await stage.pass_time(1.1)
        assert await stage.granted() == {2: WorkerId(1)}


def test_limits_hold_when_more_types_are_known_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "MOST_KNOWN", 1)
    monkeypatch.setattr(running, "MOST_UNCOUNTED", 1)
    staged(_many_types)()


async def _many_types(stage: Stage) -> None:
    await stage.hire(1, capacity=100)
    for number in range(3):
        await stage.truth.configs.put(a_config(f"limited-{number}", max_concurrent=1))
    async with stage.reigning():
        for number in range(3):
            first = 100 * number
            await stage.submit(first + 1, first + 2, type=f"limited-{number}")
            await stage.submit(first + 3, type=f"free-{number}")
            await stage.submit(first + 4, type=f"limited-{(number + 1) % 3}")
            await stage.pass_time(0.1)
        assert set(await stage.granted()) == {1, 3, 4, 103, 104, 203}


@staged
async def test_a_deferred_attempt_counts_against_the_limit_of_its_type_but_fills_no_worker(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(REPORT, max_concurrent=1))
    await stage.hire(1, capacity=1)
    await stage.submit(1, 2, type=REPORT)
    async with stage.reigning():
        [attempt] = await stage.handed_over(1)
        await stage.calm.deliveries.take(WorkerId(1), 1, wait=MINUTE)
        [live] = await stage.truth.tasks.find_live([TaskId(1)])
        await stage.truth.tasks.advance([live.state.deferred(at=stage.clock.now())])
        await stage.calm.deliveries.acknowledge([attempt])
        await stage.submit(3)
        await stage.pass_time(2)
        assert await stage.granted() == {1: 0, 3: 1}


async def submit_many(stage: Stage, *task_ids: int) -> None:
    """Tasks of one batch, which bring themselves along."""
    await stage.truth.tasks.add([a_new_task(task_id) for task_id in task_ids])
    lives = await stage.truth.tasks.find_live([TaskId(task_id) for task_id in task_ids])
    await stage.calm.queue.push([QueueEntry(live.id, live.state.priority, added=live) for live in lives])


async def cancel_many(stage: Stage, *task_ids: int) -> None:
    lives = await stage.truth.tasks.find_live([TaskId(task_id) for task_id in task_ids])
    await stage.truth.tasks.advance([live.state.cancelled("by filter", at=stage.clock.now()) for live in lives])


async def put_off_many(stage: Stage, *task_ids: int) -> None:
    lives = await stage.truth.tasks.find_live([TaskId(task_id) for task_id in task_ids])
    later = stage.clock.now() + HOUR
    await stage.truth.tasks.advance([live.state.amended(due_at=later, at=stage.clock.now()) for live in lives])


@staged
async def test_behind_thousands_that_were_cancelled_in_the_queue_one_waits_for_a_few_rounds(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=1))
    await stage.hire(1)
    await submit_many(stage, *range(1, 3001))
    await cancel_many(stage, *range(1, 3001))
    await stage.submit(3001)
    async with stage.reigning():
        assert set(await stage.granted()) == {3001}
        assert stage.calls["tasks.find_live"] < 40


@pytest.mark.parametrize("remove", [cancel_many, put_off_many])
def test_behind_thousands_that_may_not_go_after_all_one_waits_for_a_few_rounds(
    remove: Callable[..., Awaitable[None]],
) -> None:
    async def main(stage: Stage) -> None:
        await stage.truth.configs.put(a_config(max_concurrent=1))
        await stage.hire(1)
        await stage.submit(*range(1, 3001))
        async with stage.reigning():
            await remove(stage, *range(2, 3001))
            await stage.submit(3001)
            await stage.settle()
            before = stage.calls["tasks.find_live"]
            await stage.finish(1)
            await stage.pass_time(0.03)
            assert set(await stage.granted()) == {3001}
            assert stage.calls["tasks.find_live"] - before < 20

    staged(main)()
