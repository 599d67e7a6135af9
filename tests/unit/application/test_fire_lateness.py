"""How late a target is said to have fired."""

import pytest

from rota.application import metrics
from rota.domain.schedule import Schedule
from tests.support.builders import HOUR, SECOND
from tests.support.virtual import pass_time, virtually
from tests.unit.application.test_fire import a_leader


@virtually
async def test_how_late_a_run_is_does_not_count_its_jitter() -> None:
    leader = await a_leader()
    await leader.put(Schedule(cron="0 0 * * *", jitter=HOUR))
    due_at = await leader.truth.schedules.find_next()
    assert due_at is not None and due_at.minute, "it has waited for a while"

    await pass_time((due_at + SECOND - leader.node.time.now()).total_seconds())
    await leader.fire()

    assert leader.figures.observed[(metrics.SCHEDULE_LATENESS_SECONDS.name,)] == pytest.approx([1.0])
