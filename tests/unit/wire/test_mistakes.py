"""What is told of a value that msgspec refuses."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
import pytest

from rota.domain.errors import InvalidError
from rota.wire.config import PutConfig
from rota.wire.mistakes import explain
from rota.wire.task import CreateTasks


def mistake(value: Any, wanted: type, **places: str) -> InvalidError:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, wanted)
    return explain(caught.value, wanted, **places)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"timeout": 3}, "timeout: is not known; did you mean timeout_seconds?"),
        ({"cron": "0 9 * * *"}, "cron: is not known; it belongs in `schedule`"),
        (
            {"retry": {"cron": "0 9 * * *"}},
            "retry.cron: is not known; known are max_retries, strategy, delay_seconds, "
            "backoff_rate, max_delay_seconds, jitter, retry_on, give_up_on, total_timeout_seconds",
        ),
        ({"retry": {"max_retrys": 3}}, "retry.max_retrys: is not known; did you mean max_retries?"),
        (
            {"retry": {"strategy": "expo"}},
            "retry.strategy: must be one of FIXED, EXPONENTIAL, not 'expo'",
        ),
        (
            {"retry": {"strategy": "fixd"}},
            "retry.strategy: must be one of FIXED, EXPONENTIAL, not 'fixd'; did you mean FIXED?",
        ),
        ({"retry": {"delay_seconds": "10s"}}, "retry.delay_seconds: must be a number, not text"),
        ({"retry": {"retry_on": "503"}}, "retry.retry_on: must be a list, not text"),
        ({"priority": []}, "priority: must be a whole number or text, not a list"),
        ([], "definition: must be an object, not a list"),
    ],
)
def test_a_mistake_is_told_in_plain_words(value: Any, told: str) -> None:
    assert str(mistake(value, PutConfig, whole="definition")) == told


def test_where_nothing_is_near_all_names_are_listed() -> None:
    error = mistake({"retry": {"zzz": 3}}, PutConfig)
    assert error.field == "retry.zzz"
    assert error.problem.startswith("is not known; known are max_retries, strategy, delay_seconds,")


def test_a_mistake_in_a_list_and_within_another_value_has_its_place() -> None:
    value = {"tasks": [{"type": "a"}, {"type": "b", "retry": {"jiter": 1}}]}
    assert mistake(value, CreateTasks).field == "tasks[1].retry.jiter"
    assert str(mistake({"tasks": [{}]}, CreateTasks, within="x")) == "x.tasks[0].type: is missing"
    assert "did you mean jitter?" in mistake(value, CreateTasks).problem


class Bounded(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    name: Annotated[str, msgspec.Meta(max_length=3)] = ""
    at: datetime | None = None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"count": 1001}, "count: must be a whole number, at most 1000"),
        ({"count": 0}, "count: must be a whole number, at least 1"),
        ({"name": "long"}, "name: must be text of at most 3 characters"),
        ({"at": "soon"}, "at: must be a time such as 2030-01-31T09:00:00Z"),
    ],
)
def test_a_bound_is_told_in_plain_words(value: Any, told: str) -> None:
    assert str(mistake(value, Bounded)) == told
