"""Decisions that many configs share."""

import pytest

from rota.domain.decisions import Decisions
from rota.domain.firing import NEVER_RAN
from rota.domain.schedule import Schedule
from rota.testing.values import replace
from tests.support.builders import NOW, a_config


@pytest.mark.parametrize(
    ("cron", "is_shared"), [("0 * * * *", True), ("@hourly", True), ("0 9 * * THU", True), ("H * * * *", False)]
)
def test_types_whose_schedules_say_the_same_share_a_decision_unless_it_is_spread(cron: str, is_shared: bool) -> None:
    decisions = Decisions(NOW)
    first, second = (
        decisions.about(replace(a_config(name, schedule=Schedule(cron=cron)), next_fire_at=NOW), NEVER_RAN)
        for name in ("email", "report")
    )

    assert (first is second) is is_shared
