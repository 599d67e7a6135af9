from datetime import timedelta
from typing import Any

import pytest

from rota.domain.errors import InvalidError
from tests.support.builders import MINUTE, a_config


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
        ("timeout_seconds", {"timeout": timedelta(0)}),
        ("priority", {"priority": 10}),
        ("priority", {"priority": "high"}),
        ("max_concurrent", {"max_concurrent": 0}),
    ],
)
def test_an_unsound_config_is_refused_by_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as refusal:
        a_config(**wrong)

    assert refusal.value.field == field


@pytest.mark.parametrize("max_concurrent", [None, 1, 1_000_000])
def test_concurrency_may_be_limited_or_free(max_concurrent: int | None) -> None:
    assert a_config(max_concurrent=max_concurrent).max_concurrent == max_concurrent


@pytest.mark.parametrize("text", ["", "{", "NaN", '"\\u0000"', None])
def test_payload_and_executor_settings_are_json(text: Any) -> None:
    with pytest.raises(InvalidError, match="payload"):
        a_config(payload=text)
    with pytest.raises(InvalidError, match="executor"):
        a_config(executor_config=text)
