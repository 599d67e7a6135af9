"""What an answer of a service means for the task."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from rota.domain.attempt import Deferred, Failed, Outcome, Succeeded
from rota.infrastructure.executors.http.answer import Answer, judge, parse_retry_after, parse_snooze
from rota.infrastructure.executors.http.config import HttpConfig

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
JSON = {"Content-Type": "application/json"}


def config_of(**fields: Any) -> HttpConfig:
    return msgspec.convert({"url": "https://example.com/", **fields}, HttpConfig)


def judged(
    status: int, body: bytes = b"", *, kind: str = "application/json", callback: str = "", **fields: Any
) -> Outcome:
    return judge(Answer(status, {"Content-Type": kind}, body), config_of(**fields), callback=callback, now=NOW)


def code_of(outcome: Outcome) -> tuple[str, bool]:
    assert isinstance(outcome, Failed)
    return outcome.error.code, outcome.error.retryable


def result_of(outcome: Outcome) -> tuple[Any, str]:
    assert isinstance(outcome, Succeeded), outcome
    data = outcome.result.data
    return None if data is None else json.loads(data), outcome.result.message


@pytest.mark.parametrize("status", [200, 201, 203, 299])
def test_the_json_of_a_success_is_the_result(status: int) -> None:
    assert result_of(judged(status, b'{"id": 7}')) == ({"id": 7}, "")


@pytest.mark.parametrize(
    "kind", ["application/problem+json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf8"']
)
def test_json_has_several_names(kind: str) -> None:
    assert result_of(judged(200, b"[1]", kind=kind)) == ([1], "")


def test_a_success_may_have_no_body() -> None:
    assert result_of(judged(204)) == (None, "")


def test_plain_text_is_the_message() -> None:
    assert result_of(judged(200, b" done ", kind="text/plain")) == (None, "done")


def test_a_pointer_takes_a_part_of_the_answer() -> None:
    success = {"data": "/orders/1/a~1b", "message": "/note"}

    assert result_of(judged(200, b'{"orders": [0, {"a/b": {"x": 1}}], "note": 5}', success=success)) == ({"x": 1}, "5")


@pytest.mark.parametrize("body", [b"{}", b'{"a": [1]}', b'{"a": 5}', b"[]", b""])
def test_a_pointer_to_nothing_is_a_bad_response(body: bytes) -> None:
    assert code_of(judged(200, body, success={"data": "/a/7"})) == ("bad_response", False)


def test_other_statuses_can_be_successes() -> None:
    success = {"statuses": ["2xx", 404, "3xx"]}

    assert result_of(judged(404, b"{}", success=success)) == ({}, "")
    assert result_of(judged(301, b"", success=success)) == (None, "")
    assert code_of(judged(403, success=success)) == ("http_403", False)


def test_accepted_means_that_a_callback_will_come() -> None:
    assert judged(202, b"{}", callback="https://rota/callback") == Deferred()


def test_accepted_without_callbacks_says_what_to_do() -> None:
    assert code_of(judged(202)) == ("callbacks_off", False)


def test_accepted_is_a_success_where_the_config_says_so() -> None:
    assert result_of(judged(202, b'{"job": 1}', callback="https://rota/callback", deferred=False)) == ({"job": 1}, "")


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_what_may_pass_is_tried_again(status: int) -> None:
    assert code_of(judged(status)) == (f"http_{status}", True)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422, 451])
def test_what_the_service_refuses_is_final(status: int) -> None:
    assert code_of(judged(status)) == (f"http_{status}", False)


@pytest.mark.parametrize(
    ("status", "code"), [(301, "redirected"), (307, "redirected"), (101, "bad_response"), (700, "bad_response")]
)
def test_what_is_neither_success_nor_failure_is_final(status: int, code: str) -> None:
    assert code_of(judged(status)) == (code, False)


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("https://login.example.com/?token=abc", "301 Moved Permanently to https://login.example.com; redirects are"),
        ("/elsewhere?token=abc", "301 Moved Permanently; redirects are"),
        ("http://[", "301 Moved Permanently; redirects are"),
        ("", "301 Moved Permanently; redirects are"),
    ],
)
def test_a_redirect_is_told_with_its_host_alone(location: str, told: str) -> None:
    outcome = judge(Answer(301, {"Location": location}, b""), config_of(), callback="", now=NOW)
    assert isinstance(outcome, Failed)
    assert told in outcome.error.message
    assert "abc" not in outcome.error.message


def test_the_host_of_a_redirect_is_bounded() -> None:
    location = f"https://{'a' * 8000}.example.com/"
    outcome = judge(Answer(301, {"Location": location}, b""), config_of(), callback="", now=NOW)
    assert isinstance(outcome, Failed)
    assert len(outcome.error.message) < 400


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"<html>", "is no JSON: Expecting value (line 1, column 1)"),
        (b'"\xff"', "is no JSON: it is not UTF-8 (byte 1)"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"1" * 10_000, "has a number that is too long"),
    ],
)
def test_a_success_that_is_no_json_is_told_with_its_place(body: bytes, told: str) -> None:
    outcome = judged(200, body)
    assert isinstance(outcome, Failed)
    assert outcome.error.message.endswith(told)


def test_the_body_of_a_failure_is_its_detail() -> None:
    outcome = judged(422, b'{"field": "to"}' + b"x" * 10_000)

    assert isinstance(outcome, Failed)
    assert outcome.error.message == "the service answered 422 Unprocessable Entity"
    assert outcome.error.detail.startswith('{"field": "to"}x')
    assert len(outcome.error.detail) == 4096


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("0", timedelta(0)),
        (" 30 ", timedelta(seconds=30)),
        ("3600", timedelta(hours=1)),
        ("86400", timedelta(hours=1)),
        ("9" * 400, timedelta(hours=1)),
        ("Thu, 01 Jan 2026 12:00:30 GMT", timedelta(seconds=30)),
        ("Thu, 01 Jan 2026 12:00:30 -0000", timedelta(seconds=30)),
        ("Thu, 01 Jan 2026 11:00:00 GMT", timedelta(0)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", timedelta(hours=1)),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("Thu, 99 Jan 2026 12:00:30 GMT", None),
        ("٣", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_within_reason(text: str, wait: timedelta | None) -> None:
    assert parse_retry_after(text, now=NOW) == wait


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("0", timedelta(0)),
        (" 5400 ", timedelta(minutes=90)),
        ("999999999", timedelta(days=366)),
        ("9" * 400, timedelta(days=366)),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("²", None),
    ],
)
def test_a_snooze_is_seconds_within_reason(text: str, wait: timedelta | None) -> None:
    assert parse_snooze(text) == wait
