from typing import Any

import pytest

from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId
from rota.domain.schedule import Occurrence, OccurrenceStatus, Schedule
from tests.support.builders import EMAIL, NOW


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("schedule.cron", {"cron": "*" * 257}),
        ("schedule.cron", {"cron": ""}),
        ("schedule.cron", {"cron": " "}),
        ("schedule.zone", {"zone": "Mars/Olympus_Mons"}),
    ],
)
def test_an_unsound_schedule_is_refused_by_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as refusal:
        Schedule(**{"cron": "* * * * *"} | wrong)

    assert refusal.value.field == field


def test_a_target_time_that_made_a_task_was_fired() -> None:
    assert Occurrence(task_type=EMAIL, fire_at=NOW, task_id=TaskId(7)).status is OccurrenceStatus.FIRED


def test_a_target_time_without_a_task_was_skipped() -> None:
    assert Occurrence(task_type=EMAIL, fire_at=NOW, reason="overlap").status is OccurrenceStatus.SKIPPED


def test_a_skipped_occurrence_says_why() -> None:
    with pytest.raises(InvalidError, match="reason"):
        Occurrence(task_type="report", fire_at=NOW)
    assert Occurrence(task_type="report", fire_at=NOW, reason="paused").status is OccurrenceStatus.SKIPPED
