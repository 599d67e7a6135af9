"""The stored form of a schedule: what earlier releases wrote is read, and they read what they know."""

import json
from dataclasses import dataclass
from datetime import timedelta

import pytest

from rota.domain.schedule import Schedule
from rota.infrastructure.store.sql.config_rows import config_to_json, to_config
from tests.support.builders import EMAIL, a_config


@dataclass(frozen=True)
class Row:
    config_json: str
    type: str = EMAIL
    tenant_id: str = "default"
    next_fire_us: int = 0
    is_enabled: int = 1
    revision: int = 1
    created_us: int = 0
    updated_us: int = 0


def test_a_plain_cron_schedule_is_stored_as_it_always_was() -> None:
    stored = json.loads(config_to_json(a_config(schedule=Schedule(cron="0 9 * * *", zone="Asia/Shanghai"))))

    assert (stored["cron"], stored["zone"]) == ("0 9 * * *", "Asia/Shanghai")
    assert "schedule" not in stored
    assert to_config(Row(json.dumps(stored))).schedule == Schedule(cron="0 9 * * *", zone="Asia/Shanghai")


@pytest.mark.parametrize(
    "schedule",
    [
        None,
        Schedule(every=timedelta(minutes=5), zone="Asia/Shanghai"),
        Schedule(cron="@daily", jitter=timedelta(seconds=9)),
    ],
)
def test_a_schedule_comes_back_from_its_document(schedule: Schedule | None) -> None:
    assert to_config(Row(config_to_json(a_config(schedule=schedule)))).schedule == schedule
