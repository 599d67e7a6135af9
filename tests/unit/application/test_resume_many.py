"""Many schedules that are resumed at once."""

from datetime import timedelta

import pytest

from rota.application.manage_configs import ManageConfigs
from rota.application.submit import SubmitTasks
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import OnMissed, Schedule
from rota.domain.task import PENDING
from tests.support.builders import MINUTE
from tests.support.virtual import pass_time, virtually
from tests.unit.application.test_fire import a_leader

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("number", "is_type"), [(500, True), (500, False), pytest.param(10_000, True, marks=pytest.mark.slow)]
)
@virtually
async def test_resuming_what_was_paused_for_a_day_causes_no_storm(number: int, is_type: bool) -> None:
    leader = await a_leader()
    configs = ManageConfigs(leader.node, SubmitTasks(leader.node))
    types = [f"type-{place}" for place in range(number)]
    for task_type in types:
        await leader.put(Schedule(every=MINUTE, on_missed=OnMissed.RUN_ALL, missed_limit=100), type=task_type)
        await (configs.pause if is_type else configs.pause_schedule)(DEFAULT_TENANT, task_type)
    await pass_time((DAY + MINUTE / 2).total_seconds())
    await leader.fire()
    for task_type in types:
        await (configs.resume if is_type else configs.resume_schedule)(DEFAULT_TENANT, task_type)
    await leader.fire()
    assert await leader.truth.tasks.count_by_status(None) == {}, "nothing is made up for"
    await pass_time(MINUTE.total_seconds())
    await leader.fire()
    assert await leader.truth.tasks.count_by_status(None) == {PENDING: number}
    assert await leader.outcomes(types[-1]) == ["paused", "fired"], "the pause is one range"


@virtually
async def test_what_a_paused_schedule_skipped_is_noted_when_its_times_change() -> None:
    leader = await a_leader()
    await leader.put(Schedule(every=MINUTE / 60, is_paused=True))
    await pass_time(3.5)
    await leader.put(Schedule(every=DAY, is_paused=True))
    assert await leader.outcomes() == ["paused"]
