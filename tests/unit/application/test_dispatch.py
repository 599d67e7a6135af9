"""Dispatch on memory adapters and virtual time."""

from datetime import timedelta
from typing import Any

import pytest

from rota.application import dispatch
from rota.application.dispatch import DispatchSettings
from rota.domain.attempt import Attempt
from rota.domain.balancing import round_robin
from rota.domain.errors import InvalidError
from rota.domain.events import EventKind
from rota.domain.ids import TaskId, WorkerId
from rota.domain.priority import URGENT
from rota.domain.task import PROCESSING
from rota.domain.waiting import Reason
from rota.testing.contract.coordinator_backend import hear
from tests.support.builders import EMAIL, a_config, an_entry
from tests.support.stage import TERM, Stage, staged

REPORT = "report"
REPORTS_ONLY = frozenset({REPORT})
EMAILS_ONLY = frozenset({EMAIL})


def attempts(*task_ids: int, worker_id: int = 1) -> list[Attempt]:
    return [Attempt(TaskId(task_id), 1, WorkerId(worker_id)) for task_id in task_ids]


@staged
async def test_a_waiting_task_is_granted_handed_over_and_told(stage: Stage) -> None:
    await stage.hire(1)
    async with stage.coordinator.signals.subscribe() as events, stage.reigning():
        await stage.submit(5)
        event = await hear(events)

        [live] = await stage.truth.tasks.find_live([TaskId(5)])
        assert (live.state.status, live.state.worker_id, live.state.term) == (PROCESSING, 1, TERM)
        assert await stage.handed_over() == attempts(5)
        assert (event.kind, event.task_id, event.task_type) == (EventKind.TASK_ASSIGNED, 5, EMAIL)
        assert (event.status, event.attempt, event.worker_id) == (PROCESSING, 1, 1)
        assert event.at == live.state.started_at


@staged
async def test_a_round_leaves_its_figures(stage: Stage) -> None:
    await stage.hire(1)
    await stage.submit(1, 2, due_at=stage.clock.now())
    await stage.submit(3, type=REPORT, due_at=stage.clock.now())
    await stage.pass_time(4)
    async with stage.reigning():
        figures = stage.figures
        assert figures.counted["rota_scheduler_tasks_scheduled_total", EMAIL] == 2
        assert figures.counted["rota_scheduler_tasks_scheduled_total", REPORT] == 1
        assert figures.observed["rota_scheduler_delay_seconds", EMAIL] == pytest.approx([4.0, 4.0])
        assert len(figures.observed[("rota_scheduler_dispatch_seconds",)]) == 1


@staged
async def test_a_task_of_another_nodes_clock_is_granted_as_of_its_own_due_time(stage: Stage) -> None:
    soon = stage.clock.now() + timedelta(milliseconds=40)
    await stage.hire(1)
    await stage.submit(1, due_at=soon)
    async with stage.reigning():
        [live] = await stage.truth.tasks.find_live([TaskId(1)])
        assert live.state.started_at == soon


@staged
async def test_a_task_that_is_not_due_goes_back_and_is_granted_in_its_time(stage: Stage) -> None:
    due_at = stage.clock.now() + timedelta(seconds=90)
    await stage.hire(1)
    await stage.submit(1, due_at=due_at)
    async with stage.reigning():
        assert (await stage.calm.queue.depths()).delayed == 1
        assert not stage.dispatcher.is_parked(TaskId(1))
        await stage.pass_time(89.9)
        assert await stage.granted() == {}
        await stage.pass_time(0.2)
        [live] = await stage.truth.tasks.find_live([TaskId(1)])
        assert live.state.started_at == due_at


@staged
async def test_more_urgent_tasks_are_granted_first(stage: Stage) -> None:
    await stage.hire(1, capacity=1)
    await stage.submit(1, priority=0)
    await stage.submit(2, priority=5)
    await stage.submit(3, priority=URGENT)
    async with stage.reigning():
        order = []
        for _ in range(3):
            [running] = await stage.granted()
            order.append(running)
            await stage.finish(running)
            await stage.settle()
        assert order == [3, 2, 1]


@staged
async def test_a_normal_task_is_served_in_the_end_under_an_urgent_flood(stage: Stage) -> None:
    await stage.hire(1, capacity=1)
    await stage.submit(1)
    await stage.submit(*range(1_000, 1_400), priority=URGENT)
    async with stage.reigning():
        waited = 0
        while 1 not in await stage.granted():
            await stage.finish(*await stage.granted())
            await stage.pass_time(1)
            waited += 1
        assert 260 < waited < 300  # nine levels, half a minute each


@staged
async def test_tasks_that_nobody_supports_hold_up_nobody(stage: Stage) -> None:
    await stage.hire(1, capacity=1, types=EMAILS_ONLY)
    await stage.submit(*range(100, 3_100), type="video", priority=URGENT)
    await stage.submit(1)
    async with stage.reigning():
        await stage.pass_time(0.1)
        assert await stage.granted() == {1: 1}
        assert stage.dispatcher.is_parked(TaskId(100))
        assert stage.figures.gauges["rota_scheduler_tasks_parked", Reason.NO_WORKER] == 3_000


@staged
async def test_parked_tasks_go_when_a_worker_for_them_comes_the_most_urgent_first(stage: Stage) -> None:
    await stage.hire(1, types=EMAILS_ONLY)
    await stage.submit(1, 2, type=REPORT)
    await stage.submit(3, type=REPORT, priority=5)
    async with stage.reigning():
        assert await stage.granted() == {}
        await stage.hire(2, capacity=2, types=REPORTS_ONLY)
        await stage.pass_time(1.1)
        assert await stage.granted() == {3: 2, 1: 2}
        assert stage.dispatcher.is_parked(TaskId(2))
        assert stage.figures.gauges["rota_scheduler_tasks_parked", Reason.NO_WORKER] == 1


@staged
async def test_urgent_tasks_in_the_queue_go_before_parked_ones(stage: Stage) -> None:
    await stage.hire(1, types=EMAILS_ONLY)
    await stage.submit(*range(1, 9), type=REPORT, due_at=stage.clock.now())
    async with stage.reigning():
        assert await stage.granted() == {}
        await stage.hire(1, is_draining=True)
        await stage.submit(100, priority=URGENT, due_at=stage.clock.now())
        await stage.hire(2, capacity=1)
        await stage.pass_time(1.1)
        assert await stage.granted() == {100: 2}


@staged
async def test_parked_tasks_go_before_equal_ones_in_the_queue(stage: Stage) -> None:
    await stage.hire(1, types=EMAILS_ONLY)
    await stage.submit(1, type=REPORT, due_at=stage.clock.now())
    async with stage.reigning():
        await stage.hire(1, is_draining=True)
        await stage.submit(2, due_at=stage.clock.now())
        await stage.hire(2, capacity=1)
        await stage.pass_time(1.1)
        assert await stage.granted() == {1: 2}


@staged
async def test_a_parked_task_that_was_cancelled_is_dropped_and_makes_room(stage: Stage) -> None:
    await stage.hire(1, types=EMAILS_ONLY)
    await stage.submit(1, 2, type=REPORT)
    async with stage.reigning():
        await stage.cancel(1)
        await stage.hire(2, capacity=1, types=REPORTS_ONLY)
        await stage.pass_time(1.1)
        assert await stage.granted() == {2: 2}
        assert not stage.dispatcher.is_parked(TaskId(1))


@staged
async def test_nobody_is_given_more_than_fits(stage: Stage) -> None:
    await stage.hire(1, capacity=2)
    await stage.hire(2, capacity=3)
    await stage.hire(3, capacity=9, is_draining=True)
    await stage.submit(*range(1, 21))
    async with stage.reigning():
        await stage.pass_time(30)
        assert sorted((await stage.granted()).values()) == [1, 1, 2, 2, 2]
        assert (await stage.calm.queue.depths()).ready == {0: 15}


@staged
async def test_a_worker_whose_lease_ended_gets_nothing(stage: Stage) -> None:
    await stage.calm.pool.register(await stage.hire(1), timedelta(seconds=1))
    async with stage.reigning():
        await stage.pass_time(2)
        await stage.submit(1)
        await stage.pass_time(5)
        assert await stage.granted() == {}


@staged
async def test_room_is_what_the_coordinator_counts_not_what_a_heartbeat_said(stage: Stage) -> None:
    await stage.hire(1, capacity=2, load=2)
    await stage.submit(1, 2, 3)
    async with stage.reigning():
        assert await stage.granted() == {1: 1, 2: 1}


@staged
async def test_what_a_worker_frees_is_filled_without_waiting(stage: Stage) -> None:
    await stage.hire(1, capacity=1)
    await stage.submit(1, 2)
    async with stage.reigning():
        await stage.pass_time(0.3)
        await stage.finish(1)
        await stage.settle()
        assert await stage.granted() == {2: 1}


@staged
async def test_an_entry_that_is_queued_twice_is_granted_once(stage: Stage) -> None:
    await stage.hire(1)
    await stage.submit(1)
    await stage.calm.queue.push([an_entry(1), an_entry(1)])
    async with stage.reigning():
        await stage.calm.queue.push([an_entry(1)])
        await stage.settle()
        assert await stage.handed_over() == attempts(1)


@staged
async def test_what_has_ended_or_never_was_is_dropped(stage: Stage) -> None:
    await stage.hire(1)
    await stage.submit(1)
    await stage.cancel(1)
    await stage.calm.queue.push([an_entry(99)])
    async with stage.reigning():
        assert await stage.granted() == {}
        assert (await stage.calm.queue.depths()).ready == {}
        assert not stage.dispatcher.is_parked(TaskId(99))


@staged
async def test_a_task_that_somebody_else_moved_in_between_is_dropped(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(max_concurrent=2))
    await stage.hire(1)
    await stage.submit(1, 2, 3)
    stage.faults.before("tasks.advance", lambda: stage.cancel(1))
    async with stage.reigning():
        assert await stage.handed_over() == attempts(2, 3)
        assert stage.figures.counted["rota_scheduler_tasks_scheduled_total", EMAIL] == 2


@staged
async def test_the_balancer_and_the_batch_size_can_be_exchanged_while_running(stage: Stage) -> None:
    await stage.hire(1, capacity=100)
    await stage.hire(2, capacity=10)
    stage.dispatcher.tune(DispatchSettings(batch_size=1))
    async with stage.reigning():
        await stage.submit(*range(1, 12))
        await stage.pass_time(0.1)
        assert sorted((await stage.granted()).values()) == [1] * 10 + [2]
        stage.dispatcher.tune(DispatchSettings(balancer=round_robin))
        await stage.submit(*range(21, 29))
        await stage.pass_time(0.1)
        assert sorted((await stage.granted()).values()) == [1] * 14 + [2] * 5


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("batch_size", {"batch_size": 0}),
        ("batch_size", {"batch_size": 10_001}),
        ("global_rate", {"global_rate": 0.0}),
    ],
)
def test_unsound_settings_are_refused(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError, match=field):
        DispatchSettings(**wrong)


def test_what_finds_no_place_to_park_comes_back_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MOST_PARKED", 2)
    staged(_overflow)()


async def _overflow(stage: Stage) -> None:
    await stage.hire(1, capacity=10, types=EMAILS_ONLY)
    await stage.submit(*range(1, 6), type=REPORT)
    async with stage.reigning():
        assert [stage.dispatcher.is_parked(TaskId(task_id)) for task_id in range(1, 6)] == [True] * 2 + [False] * 3
        assert (await stage.calm.queue.depths()).delayed == 3
        await stage.hire(2, capacity=10)
        await stage.pass_time(4.9)
        assert set(await stage.granted()) == {1, 2}
        await stage.pass_time(0.2)
        assert set(await stage.granted()) == {1, 2, 3, 4, 5}


def test_what_was_cancelled_while_it_was_parked_keeps_no_place_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MOST_PARKED", 5)
    monkeypatch.setattr(dispatch, "MOST_LOOKED_OVER", 2)
    staged(_clear_parking)()


async def _clear_parking(stage: Stage) -> None:
    await stage.hire(1, types=EMAILS_ONLY)
    await stage.submit(*range(1, 6), type=REPORT)
    async with stage.reigning():
        for task_id in (1, 2, 3, 5):
            await stage.cancel(task_id)
        await stage.pass_time(3 * dispatch.LOOK_OVER_EVERY + 3)
        assert [task_id for task_id in range(1, 6) if stage.dispatcher.is_parked(TaskId(task_id))] == [4]
        assert stage.figures.gauges["rota_scheduler_tasks_parked", Reason.NO_WORKER] == 1
        await stage.cancel(4)
        await stage.pass_time(3 * dispatch.LOOK_OVER_EVERY + 3)
        assert not stage.dispatcher.is_parked(TaskId(4))


@staged
async def test_a_parked_task_that_is_rescheduled_waits_for_its_new_time(stage: Stage) -> None:
    await stage.hire(1, types=EMAILS_ONLY)
    await stage.submit(1, type=REPORT)
    async with stage.reigning():
        [live] = await stage.truth.tasks.find_live([TaskId(1)])
        later = stage.clock.now() + timedelta(seconds=60)
        await stage.truth.tasks.advance([live.state.amended(due_at=later, at=stage.clock.now())])
        await stage.hire(2)
        await stage.pass_time(59)
        assert await stage.granted() == {}
        await stage.pass_time(2)
        assert await stage.granted() == {1: 2}


@staged
async def test_on_stepping_down_everything_in_memory_goes_back_to_the_queue(stage: Stage) -> None:
    await stage.hire(1, types=EMAILS_ONLY)
    await stage.submit(*range(1, 1_202), type=REPORT)
    await stage.submit(2_000, type=REPORT, priority=5)
    async with stage.reigning():
        await stage.pass_time(1.1)
    await stage.dispatcher.hand_back()

    assert (await stage.calm.queue.depths()).ready == {0: 1_201, 5: 1}
    assert not stage.dispatcher.is_parked(TaskId(1))
    assert stage.figures.gauges["rota_scheduler_tasks_parked", Reason.NO_WORKER] == 0


@staged
async def test_a_worker_that_says_it_is_busy_is_believed_while_the_depths_are_distrusted(stage: Stage) -> None:
    await stage.hire(1, capacity=5, load=5)
    await stage.hire(2, capacity=5, load=0)
    await stage.submit(*range(1, 11))
    stage.dispatcher.distrust_loads(timedelta(seconds=15))
    async with stage.reigning():
        assert await stage.granted() == dict.fromkeys(range(1, 6), 2)
        await stage.pass_time(14)
        assert await stage.handed_over(1) == []
        await stage.pass_time(2)
        assert await stage.handed_over(1) == attempts(*range(6, 11))


@staged
async def test_what_is_handed_over_counts_though_a_worker_reports_less(stage: Stage) -> None:
    await stage.hire(1, capacity=5, load=0)
    await stage.submit(*range(1, 11))
    stage.dispatcher.distrust_loads(timedelta(seconds=15))
    async with stage.reigning():
        await stage.pass_time(5)
        assert await stage.handed_over(1) == attempts(*range(1, 6))


@staged
async def test_a_worker_that_has_just_finished_is_not_held_up_by_its_old_report(stage: Stage) -> None:
    await stage.hire(1, capacity=5, load=5)
    await stage.submit(*range(1, 6))
    async with stage.reigning():
        assert await stage.handed_over(1) == attempts(*range(1, 6))


@staged
async def test_a_worker_that_names_an_executor_gets_all_its_types_and_no_others(stage: Stage) -> None:
    await stage.truth.configs.put(a_config("webhook", executor_type="http"))
    await stage.truth.configs.put(a_config("video"))
    await stage.hire(1, types=frozenset({EMAIL, "@http"}))
    await stage.submit(1, type="webhook")
    await stage.submit(2, type="video")
    await stage.submit(3)
    async with stage.reigning():
        await stage.pass_time(0.1)
        assert await stage.granted() == {1: 1, 3: 1}
        assert stage.dispatcher.is_parked(TaskId(2))


@staged
async def test_a_parked_type_that_gets_another_executor_goes_to_those_who_have_it(stage: Stage) -> None:
    await stage.truth.configs.put(a_config("webhook"))
    await stage.hire(1, types=frozenset({"@http"}))
    await stage.submit(1, type="webhook")
    async with stage.reigning():
        await stage.pass_time(0.1)
        assert await stage.granted() == {}
        await stage.truth.configs.put(a_config("webhook", executor_type="http"))
        await stage.pass_time(5)
        assert await stage.granted() == {1: 1}


@staged
async def test_a_worker_that_names_a_type_and_its_executor_has_its_room_once(stage: Stage) -> None:
    await stage.truth.configs.put(a_config(EMAIL, executor_type="http"))
    await stage.hire(1, capacity=2, types=frozenset({EMAIL, "@http"}))
    await stage.submit(1, 2, 3)
    async with stage.reigning():
        await stage.pass_time(0.1)
        assert len(await stage.granted()) == 2
