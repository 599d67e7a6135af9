"""Dispatching beside the leader."""

import asyncio
from datetime import timedelta
from functools import partial

import pytest
from structlog.testing import capture_logs

from rota.application.dispatch import DispatchSettings
from rota.application.elect import ElectionSettings
from rota.domain.ids import NodeId, TaskId, WorkerId
from rota.domain.queue import QueueEntry
from rota.domain.worker import Heartbeat
from rota.testing.contract.coordinator_backend import make_pages
from rota.testing.faults import Fault
from tests.support.builders import EMAIL, NOW, a_config
from tests.support.clock import settle
from tests.support.shared_stage import DISTRUST_FOR, HELPER, LEADER, SharedStage, shared
from tests.support.stage import LEASE, TERM
from tests.support.virtual import virtually
from tests.unit.application.test_dispatch import attempts

TRUSTED_FOR = (ElectionSettings().ttl - ElectionSettings().margin).total_seconds()
REPORT = "report"


@shared
async def test_an_assistant_grants_what_has_no_limits_under_the_leader_s_term(stage: SharedStage) -> None:
    await stage.hire(1)
    await stage.submit(1, 2, 3)
    async with stage.assisting():
        assert await stage.handed_over() == attempts(1, 2, 3)
        lives = await stage.truth.tasks.find_live([TaskId(1)])
        assert lives[0].state.term == TERM
        assert await stage.reserved() == {}
        assert stage.figures.counted["rota_scheduler_tasks_scheduled_total", EMAIL] == 3
        assert len(stage.figures.observed[("rota_scheduler_dispatch_seconds",)]) == 1


@shared
async def test_it_is_woken_by_what_comes_and_by_room(stage: SharedStage) -> None:
    await stage.hire(1, capacity=1)
    async with stage.assisting():
        await stage.submit(1)
        await stage.settle()
        await stage.submit(2)
        await stage.settle()
        assert await stage.granted() == {1: 1}
        await stage.finish(1)
        await stage.settle()
        assert await stage.granted() == {2: 1}


@pytest.mark.parametrize("limit", ["max_concurrent", "rate_per_second"])
def test_what_has_a_limit_is_left_to_the_leader(limit: str) -> None:
    async def play(stage: SharedStage) -> None:
        await stage.truth.configs.put(a_config(REPORT, **{limit: 10}))
        await stage.hire(1)
        await stage.submit(1, 2, type=REPORT)
        await stage.submit(3)
        async with stage.assisting():
            assert await stage.granted() == {3: 1}
            assert await stage.passed_on() == [1, 2]
            assert stage.figures.counted[("rota_scheduler_tasks_passed_on_total",)] == 2

    shared(play)()


@shared
async def test_what_no_worker_supports_is_left_to_the_leader(stage: SharedStage) -> None:
    await stage.hire(1, types=frozenset({REPORT}))
    await stage.submit(1)
    async with stage.assisting():
        assert await stage.passed_on() == [1]


@shared
async def test_without_room_nothing_is_taken(stage: SharedStage) -> None:
    await stage.hire(1, capacity=2)
    await stage.submit(1, 2, 3, 4)
    async with stage.assisting():
        assert await stage.granted() == {1: 1, 2: 1}
        await stage.pass_time(5)
    assert await stage.queued() == [3, 4]


@shared
async def test_what_another_scheduler_reserved_meanwhile_is_not_filled_again(stage: SharedStage) -> None:
    await stage.hire(1, capacity=2)
    await stage.submit(1, 2)
    stage.faults.before("assistance.reserve", lambda: stage.reserve_elsewhere(1, 1))
    async with stage.assisting():
        assert await stage.granted() == {1: 1}
        assert await stage.passed_on() == [2]
        assert stage.figures.counted[("rota_scheduler_places_lost_total",)] == 2


@shared
async def test_places_found_taken_are_looked_for_elsewhere(stage: SharedStage) -> None:
    await stage.hire(1, capacity=1)
    await stage.hire(2, capacity=1)
    await stage.submit(1, 2)
    stage.faults.before("assistance.reserve", lambda: stage.reserve_elsewhere(1, 1))
    async with stage.assisting():
        assert list((await stage.granted()).values()) == [2]
        assert len(await stage.passed_on()) == 1


@shared
async def test_a_rate_over_all_types_leaves_everything_to_the_leader(stage: SharedStage) -> None:
    await stage.hire(1)
    await stage.submit(1)
    stage.assistant.settings = DispatchSettings(global_rate=5)
    async with stage.assisting():
        await stage.pass_time(5)
        assert await stage.granted() == {}
        stage.assistant.settings = DispatchSettings()
        await stage.pass_time(1)
        assert await stage.granted() == {1: 1}


@shared
async def test_a_node_that_leads_does_not_assist(stage: SharedStage) -> None:
    await stage.hire(1)
    async with stage.assisting():
        with stage.assistant.resting():
            await stage.submit(1)
            await stage.pass_time(5)
            assert await stage.granted() == {}
        await stage.pass_time(1)
        assert await stage.granted() == {1: 1}


@shared
async def test_what_is_in_hand_when_its_node_begins_to_lead_is_passed_on(stage: SharedStage) -> None:
    await stage.hire(1)
    await stage.submit(1, 2)
    stage.faults.inject("tasks.find_live", Fault.GONE, times=None)
    async with stage.assisting():
        await stage.pass_time(3)
        assert await stage.passed_on() == []
        with stage.assistant.resting():
            await stage.pass_time(5)
            assert await stage.passed_on() == [1, 2]


@shared
async def test_what_may_have_been_granted_is_passed_on_though_the_store_is_away(stage: SharedStage) -> None:
    await stage.hire(1)
    await stage.submit(1, 2)
    stage.faults.inject("tasks.advance", Fault.TIMEOUT)
    stage.faults.after("tasks.advance", partial(_lose_the_store, stage))
    async with stage.assisting():
        await stage.pass_time(3)
        with stage.assistant.resting():
            await stage.pass_time(5)
            assert await stage.passed_on() == [1, 2]
            stage.faults.heal()
            await stage.pass_time(5)
            assert await stage.reserved() == {}


async def _lose_the_store(stage: SharedStage) -> None:
    stage.faults.inject("tasks.find_live", Fault.GONE, times=None)


@shared
async def test_an_answer_of_the_store_that_comes_when_nobody_waits_for_it_lets_nothing_go(stage: SharedStage) -> None:
    answered = asyncio.Event()

    async def lose_the_workers() -> None:
        stage.faults.inject("pool.list_alive", Fault.GONE)

    async def answer() -> None:
        answered.set()
        await settle()

    await stage.hire(1)
    async with stage.assisting():
        stage.faults.before("tasks.find_live", answered.wait)
        stage.faults.after("queue.take", lose_the_workers)
        await stage.submit(1)
        await stage.pass_time(1)
        assert not stage.faults.pending
        assert await stage.granted() == {1: 1}, "it was read anew"
        stage.faults.before("tasks.find_live", answer)
        await stage.submit(2)
        await stage.settle()
        assert await stage.granted() == {1: 1, 2: 1}


@virtually
async def test_before_anybody_has_led_nobody_assists() -> None:
    fresh = SharedStage()
    await fresh.calm.queue.rebuild("first", make_pages())
    await fresh.hire(1)
    await fresh.submit(1)
    async with fresh.assisting():
        await fresh.pass_time(5)
        assert await fresh.granted() == {}


@shared
async def test_an_assistant_whose_seat_is_not_renewed_stops_in_time(stage: SharedStage) -> None:
    await stage.hire(1)
    async with stage.assisting():
        stage.faults.inject("assistance.renew", Fault.GONE, times=None)
        await stage.pass_time(TRUSTED_FOR)
        await stage.submit(1)
        await stage.pass_time(5)
        assert await stage.granted() == {}
        stage.faults.heal()
        await stage.pass_time(10)
        assert await stage.granted() == {1: 1}


@virtually
async def test_while_the_coordinator_s_memory_is_lost_nobody_assists() -> None:
    fresh = SharedStage()
    for _ in range(TERM):
        await fresh.truth.terms.begin(LEADER)
    await fresh.hire(1)
    async with fresh.assisting():
        await fresh.submit(1)
        await fresh.pass_time(5)
        assert await fresh.granted() == {}
        await fresh.calm.queue.rebuild("second", make_pages([QueueEntry(TaskId(1), 0)]))
        await fresh.pass_time(3)
        assert await fresh.granted() == {1: 1}


@shared
async def test_with_a_new_memory_a_worker_that_says_it_is_busy_is_believed_for_a_while(stage: SharedStage) -> None:
    await stage.hire(1, capacity=1)
    await stage.calm.pool.heartbeat(WorkerId(1), Heartbeat(load=1), lease=LEASE)
    await stage.submit(1)
    async with stage.assisting():
        await stage.pass_time(DISTRUST_FOR.total_seconds() / 2)
        assert await stage.granted() == {}
        await stage.pass_time(DISTRUST_FOR.total_seconds())
        assert await stage.granted() == {1: 1}


CALLS = [
    *("assistance.join", "terms.find_last", "queue.find_generation", "pool.list_alive", "queue.loads", "queue.take"),
    *("tasks.find_live", "configs.find_many", "assistance.pass_on", "assistance.reserve", "tasks.advance"),
    *("deliveries.assign", "assistance.release", "signals.publish", "assistance.wait_for_work"),
]


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.EXECUTE_AND_TIMEOUT, Fault.REFUSED])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_loses_nothing(call: str, fault: Fault) -> None:
    async def play(stage: SharedStage) -> None:
        await stage.truth.configs.put(a_config(REPORT, max_concurrent=1))
        await stage.hire(1)
        await stage.submit(1, 2)
        await stage.submit(3, type=REPORT)
        stage.faults.inject(call, fault)
        async with stage.assisting():
            await stage.pass_time(10)
            assert await stage.handed_over() == attempts(1, 2)
            assert await stage.passed_on() == [3]
            assert await stage.reserved() == {}
            assert not stage.faults.pending

    if (call, fault) != ("queue.take", Fault.EXECUTE_AND_TIMEOUT):  # what that has taken, the leader finds by comparing
        shared(play)()


@shared
async def test_a_seat_that_is_gone_is_taken_anew(stage: SharedStage) -> None:
    await stage.hire(1)
    async with stage.assisting():
        await stage.calm_assistance.leave(HELPER, (await stage.seat.holder("any")).seat)
        await stage.submit(1)
        await stage.pass_time(1)
        assert await stage.granted() == {1: 1}
        assert await stage.calm_assistance.list_present() == [HELPER]


@shared
async def test_who_hears_late_that_a_seat_is_over_does_not_lose_the_next_one(stage: SharedStage) -> None:
    old = await stage.seat.holder("any")
    stage.seat.lose(old)
    new = await stage.seat.holder("any")
    stage.seat.lose(old)
    assert await stage.seat.holder("any") == new != old


@shared
async def test_a_task_that_was_granted_in_a_later_term_waits_until_that_is_known(stage: SharedStage) -> None:
    await stage.hire(1)
    await stage.submit(1)
    (live,) = await stage.truth.tasks.find_live([TaskId(1)])
    await stage.truth.tasks.advance([live.state.granted(WorkerId(1), term=TERM + 1, at=NOW, timeout=live.timeout)])
    (live,) = await stage.truth.tasks.find_live([TaskId(1)])
    await stage.truth.tasks.advance([live.state.lost(at=stage.clock.now())])
    with capture_logs() as logs:
        async with stage.assisting():
            await stage.pass_time(3)
            assert await stage.granted() == {}
            await stage.truth.terms.begin(NodeId("next"))
            await stage.pass_time(5)
            assert await stage.granted() == {1: 1}
            assert await stage.reserved() == {}
    assert "assist.fenced" in [line["event"] for line in logs]


@shared
async def test_what_is_not_due_yet_goes_back_until_it_is(stage: SharedStage) -> None:
    await stage.hire(1)
    await stage.submit(1, due_at=stage.clock.now() + timedelta(minutes=1))
    await stage.submit(2)
    async with stage.assisting():
        assert await stage.granted() == {2: 1}
    assert (await stage.calm.queue.depths()).delayed == 1


@shared
async def test_what_waits_no_longer_is_let_go(stage: SharedStage) -> None:
    await stage.hire(1)
    await stage.submit(1, 2)
    await stage.cancel(1)
    async with stage.assisting():
        assert await stage.granted() == {2: 1}
        assert await stage.passed_on() == []


@shared
async def test_what_has_changed_since_it_was_added_is_read_and_granted(stage: SharedStage) -> None:
    await stage.hire(1)
    await stage.submit(1)
    await stage.queued()
    (added,) = await stage.truth.tasks.find_live([TaskId(1)])
    await stage.truth.tasks.advance([added.state.amended(priority=5, at=stage.clock.now())])
    await stage.calm.queue.push([QueueEntry(TaskId(1), 0, added=added)])
    async with stage.assisting():
        assert await stage.granted() == {1: 1}


@shared
async def test_what_somebody_else_granted_first_is_let_go(stage: SharedStage) -> None:
    await stage.hire(1)
    await stage.submit(1)

    async def grant_elsewhere() -> None:
        (live,) = await stage.truth.tasks.find_live([TaskId(1)])
        step = live.state.granted(WorkerId(9), term=TERM, at=stage.clock.now(), timeout=live.timeout)
        await stage.truth.tasks.advance([step])

    stage.faults.before("tasks.advance", grant_elsewhere)
    async with stage.assisting():
        assert await stage.granted() == {1: 9}
        assert await stage.handed_over() == []
        assert await stage.reserved() == {}


@shared
async def test_a_stop_in_the_middle_leaves_what_was_taken_to_the_leader(stage: SharedStage) -> None:
    await stage.hire(1)
    never = asyncio.Event()
    async with stage.assisting() as run:
        stage.faults.before("tasks.find_live", never.wait)
        await stage.submit(1, 2)
        await stage.settle()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        assert await stage.passed_on() == [1, 2]


@shared
async def test_a_stop_that_cannot_give_back_ends_all_the_same(stage: SharedStage) -> None:
    await stage.hire(1)
    with capture_logs() as logs:
        async with stage.assisting():
            stage.faults.inject("tasks.find_live", Fault.GONE, times=None)
            stage.faults.inject("assistance.pass_on", Fault.GONE, times=None)
            stage.faults.inject("assistance.leave", Fault.GONE, times=None)
            await stage.submit(1)
            await stage.settle()
    events = [line["event"] for line in logs]
    assert "assist.hand_back_failed" in events
    assert "seat.leave_failed" in events


@shared
async def test_a_stop_gives_the_seat_up(stage: SharedStage) -> None:
    async with stage.assisting():
        assert await stage.calm_assistance.list_present() == [HELPER]
    assert await stage.calm_assistance.list_present() == []


@shared
async def test_a_stop_before_there_is_a_seat_gives_none_up(stage: SharedStage) -> None:
    stage.faults.inject("assistance.join", Fault.GONE, times=None)
    async with stage.assisting():
        pass
    assert stage.calls["assistance.leave"] == 0
