import json
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest

from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId, TenantId
from rota.domain.retry import RetryPolicy
from rota.domain.submission import NewTask, Submission, compose
from rota.domain.task import PENDING
from rota.domain.task_config import TaskConfig
from tests.support.builders import HOUR, MINUTE, NOW, SECOND, a_config, a_submission

BEIJING = timezone(timedelta(hours=8))
CONFIG = a_config(timeout=MINUTE, retry=RetryPolicy(max_retries=7), priority=3, payload='{"from":"config"}')


def composed(wish: Submission, config: TaskConfig | None = CONFIG) -> NewTask:
    return compose(wish, config, task_id=TaskId(7), now=NOW)


def digest(**wishes: Any) -> str:
    return composed(a_submission(idempotency_key="k", **wishes)).digest


def test_what_is_not_asked_for_comes_from_the_config() -> None:
    task = composed(a_submission()).task

    assert (task.spec.timeout, task.spec.retry, task.state.priority) == (MINUTE, CONFIG.retry, 3)
    assert task.spec.payload == '{"from":"config"}'


def test_what_is_asked_for_goes_before_the_config() -> None:
    once = RetryPolicy(max_retries=0)

    task = composed(a_submission(timeout=HOUR, retry=once, priority="urgent", payload={"a": 1}, name="n")).task

    assert (task.spec.timeout, task.spec.retry, task.state.priority, task.spec.name) == (HOUR, once, 9, "n")
    assert json.loads(task.spec.payload) == {"a": 1}


def test_a_new_task_waits_and_is_due_at_once() -> None:
    task = composed(a_submission(metadata={"order": "7"})).task

    assert (task.id, task.state.status, task.state.due_at, task.spec.created_at) == (7, PENDING, NOW, NOW)
    assert (task.state.version, task.state.attempt, task.state.retry_count) == (1, 0, 0)
    assert task.spec.metadata == {"order": "7"}


@pytest.mark.parametrize("payload", [0, False, "", [], {}])
def test_an_empty_payload_is_a_payload(payload: Any) -> None:
    config = a_config(executor_type="http")
    assert json.loads(composed(a_submission(payload=payload), config).task.spec.payload) == payload


@pytest.mark.parametrize("payload", [0, False, "", [], "{}"])
def test_what_is_no_object_cannot_be_the_arguments_of_a_function(payload: Any) -> None:
    with pytest.raises(InvalidError, match=r"^payload: must be a JSON object"):
        composed(a_submission(payload=payload))


def test_a_delayed_task_is_due_later() -> None:
    task = composed(a_submission(delay=HOUR)).task

    assert task.spec.scheduled_at == task.state.due_at == NOW + HOUR


def test_a_scheduled_task_is_due_at_that_instant_in_utc() -> None:
    task = composed(a_submission(scheduled_at=datetime(2026, 6, 1, 8, tzinfo=BEIJING))).task

    assert task.state.due_at.isoformat() == "2026-06-01T00:00:00+00:00"


def test_the_task_belongs_to_the_tenant_that_asked() -> None:
    acme = TenantId("acme")

    task = composed(a_submission(tenant_id=acme), a_config(tenant_id=acme)).task

    assert (task.spec.tenant_id, task.state.tenant_id) == (acme, acme)


@pytest.mark.parametrize(
    "config", [None, a_config("report"), a_config(tenant_id=TenantId("acme")), a_config(is_enabled=False)]
)
def test_a_config_that_is_missing_or_disabled_or_someone_elses_makes_no_task(config: TaskConfig | None) -> None:
    with pytest.raises(InvalidError, match=r"^type: .*'email'"):
        composed(a_submission(), config)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("type", {"type": "two words"}),
        ("name", {"name": "x" * 201}),
        ("payload.a", {"payload": {"a": float("nan")}}),
        ("metadata.a", {"metadata": {"a": 1}}),
        ("metadata", {"metadata": None}),
        ("priority", {"priority": 10}),
        ("timeout_seconds", {"timeout": timedelta(0)}),
        ("scheduled_at", {"scheduled_at": NOW.replace(tzinfo=None)}),
        ("delay_seconds", {"delay": -SECOND}),
        ("delay_seconds", {"delay": SECOND, "scheduled_at": NOW}),
        ("idempotency_key", {"idempotency_key": ""}),
        ("idempotency_key", {"idempotency_key": "key "}),
        ("idempotency_key", {"idempotency_key": "x" * 256}),
    ],
)
def test_a_wrong_wish_is_refused_by_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError) as refusal:
        composed(a_submission(**wrong))

    assert refusal.value.field == field


def test_without_a_key_there_is_nothing_to_compare() -> None:
    new = composed(a_submission())

    assert (new.key, new.digest) == (None, "")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"payload": {"a": 1, "b": {"c": 2, "d": 3}}}, {"payload": {"b": {"d": 3, "c": 2}, "a": 1}}),
        ({"metadata": {"a": "1", "b": "2"}}, {"metadata": MappingProxyType({"b": "2", "a": "1"})}),
        ({"scheduled_at": NOW}, {"scheduled_at": NOW.astimezone(BEIJING)}),
        ({"retry": RetryPolicy()}, {"retry": RetryPolicy(max_retries=3)}),
        ({"priority": 5}, {"priority": "high"}),
        ({"priority": 0}, {"priority": "normal"}),
    ],
)
def test_the_same_request_in_another_spelling_is_a_repeat(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert digest(**one) == digest(**other)


def test_requests_that_differ_anywhere_are_told_apart() -> None:
    different: list[dict[str, Any]] = [
        {},
        {"payload": {"a": 1}},
        {"payload": {"a": "1"}},
        {"payload": {"a": True}},
        {"payload": {"a": [1, 2]}},
        {"payload": {"a": [2, 1]}},
        {"name": "n"},
        {"priority": 1},
        {"metadata": {"a": "1"}},
        {"scheduled_at": NOW},
        {"scheduled_at": NOW + timedelta(microseconds=1)},
        {"delay": SECOND},
        {"timeout": SECOND},
        {"retry": RetryPolicy()},
        {"retry": RetryPolicy(jitter=0.2)},
    ]

    assert len({digest(**wish) for wish in different}) == len(different)


def test_a_digest_is_the_same_in_every_process_and_release() -> None:
    # Pinned: a change here makes a client that repeats its request during an upgrade see `idempotency_mismatch`.
    wish = {
        "payload": {"to": "müller"},
        "priority": "high",
        "delay": MINUTE,
        "retry": RetryPolicy(),
    }

    assert digest(**wish) == "0f3c0e8b1078c7b6695845feedfde2c2d31011ec82cbd0e64661914f7cdef4f6"
    ruled = RetryPolicy(retry_on=("503",), total_timeout=MINUTE)
    assert digest(**wish | {"retry": ruled}) != digest(**wish)
