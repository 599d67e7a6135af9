from datetime import timedelta
from typing import Any

import pytest

from rota.domain.errors import InvalidError
from rota.domain.schedule import Schedule
from rota.testing.values import replace
from tests.support.builders import HOUR, MINUTE, NOW, a_config

HOURLY = Schedule(cron="0 * * * *")
STORED = a_config(schedule=HOURLY, next_fire_at=NOW, revision=3, created_at=NOW - 2 * HOUR, updated_at=NOW - HOUR)


def test_a_config_has_the_documented_defaults() -> None:
    config = a_config()

    assert (config.timeout, config.retry.max_retries, config.priority) == (5 * MINUTE, 3, 0)
    assert config.is_enabled


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("tenant", {"tenant_id": "a b"}),
        ("type", {"type": ""}),
        ("name", {"name": "x" * 201}),
        ("description", {"description": "nul \x00"}),
        ("executor.type", {"executor_type": "local!"}),
        ("source", {"source": "a b"}),
        ("timeout_seconds", {"timeout": timedelta(0)}),
        ("priority", {"priority": 10}),
        ("priority", {"priority": "high"}),
        ("max_concurrent", {"max_concurrent": 0}),
        ("rate_per_second", {"rate_per_second": 0}),
        ("rate_per_second", {"rate_per_second": -1.0}),
        ("rate_per_second", {"rate_per_second": float("nan")}),
        ("rate_per_second", {"rate_per_second": float("inf")}),
        ("rate_per_second", {"rate_per_second": 1_000_001}),
        ("rate_per_second", {"rate_per_second": True}),
        ("rate_per_second", {"rate_per_second": "10"}),
    ],
)
def test_an_unsound_config_is_refused_by_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as refusal:
        a_config(**wrong)

    assert refusal.value.field == field


@pytest.mark.parametrize("max_concurrent", [None, 1, 1_000_000])
def test_concurrency_may_be_limited_or_free(max_concurrent: int | None) -> None:
    assert a_config(max_concurrent=max_concurrent).max_concurrent == max_concurrent


@pytest.mark.parametrize("rate", [None, 0.001, 5, 1e6])
def test_the_rate_may_be_limited_or_free(rate: float | None) -> None:
    assert a_config(rate_per_second=rate).rate_per_second == rate


@pytest.mark.parametrize("text", ["", "{", "NaN", '"\\u0000"', None])
def test_payload_and_executor_settings_are_json(text: Any) -> None:
    with pytest.raises(InvalidError, match="payload"):
        a_config(payload=text)
    with pytest.raises(InvalidError, match="executor"):
        a_config(executor_config=text)


@pytest.mark.parametrize("expected", [None, 3, 2])
def test_a_config_repeats_the_stored_one_that_it_would_not_change(expected: int | None) -> None:
    assert a_config(schedule=HOURLY).is_repeat_of(STORED, expected_revision=expected)
    assert STORED.is_repeat_of(STORED, expected_revision=expected)


@pytest.mark.parametrize("expected", [0, 1, 4])
def test_a_config_for_another_revision_is_no_repeat(expected: int) -> None:
    assert not a_config(schedule=HOURLY).is_repeat_of(STORED, expected_revision=expected)


def test_a_creation_repeats_the_config_that_was_created_and_not_changed_since() -> None:
    created = replace(STORED, updated_at=STORED.created_at)

    assert a_config(schedule=HOURLY).is_repeat_of(created, expected_revision=0)


@pytest.mark.parametrize("change", [{"name": "changed"}, {"schedule": None}, {"is_enabled": False}])
def test_a_changed_config_is_no_repeat(change: dict[str, Any]) -> None:
    assert not replace(STORED, **change).is_repeat_of(STORED, expected_revision=None)


def test_the_next_fire_time_makes_no_difference_to_a_repeat() -> None:
    assert replace(STORED, next_fire_at=NOW - HOUR).is_repeat_of(STORED, expected_revision=3)


def test_a_config_takes_the_next_fire_time_of_the_one_it_replaces() -> None:
    changed = a_config(schedule=HOURLY, next_fire_at=NOW - HOUR, name="changed")

    assert changed.in_place_of(STORED) == replace(changed, next_fire_at=NOW)


def test_a_new_config_a_changed_schedule_and_one_that_was_over_have_their_own_next_fire_time() -> None:
    changed = a_config(schedule=HOURLY, next_fire_at=NOW - HOUR)

    assert changed.in_place_of(None) == changed
    assert changed.in_place_of(replace(STORED, schedule=Schedule(cron="5 * * * *"))) == changed
    assert changed.in_place_of(replace(STORED, next_fire_at=None)) == changed
