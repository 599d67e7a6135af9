"""What a task config may say to the HTTP executor: what is wrong is named when it is defined."""

import json
from typing import Any

import pytest

from rota.domain.errors import InvalidError
from rota.infrastructure.executors.http.config import check_config, plan_of

URL = "https://crm.example.com/tasks"


@pytest.mark.parametrize(
    "executor",
    [
        {"url": URL},
        {"url": "http://10.0.0.1:8080/a?b=c"},
        {"url": "https://[2606:4700::1]/"},
        {"url": URL, "method": "GET", "query": {"id": "{payload.id}", "page": 1, "raw": "{{x}}"}},
        {"url": URL, "method": "PUT", "headers": {"X-Kind": "{type}"}, "body": {"a": ["{payload.a.0}", None, 1]}},
        {"url": URL, "secret": "crm", "target": "crm", "deferred": False, "concurrency": 5},
        {"url": URL, "success": {"statuses": ["2xx", 404], "data": "/a/b", "message": "/m"}},
        {"url": URL, "connect_timeout_seconds": 1, "response_timeout_seconds": 2.5},
    ],
)
def test_a_sound_config_passes(executor: dict[str, Any]) -> None:
    check_config(executor)


@pytest.mark.parametrize(
    ("executor", "field"),
    [
        ({}, "executor.url"),
        ({"url": 7}, "executor.url"),
        ({"url": "ftp://example.com"}, "executor.url"),
        ({"url": "https:///path"}, "executor.url"),
        ({"url": "https://user:pass@example.com/"}, "executor.url"),
        ({"url": "https://example.com/#top"}, "executor.url"),
        ({"url": "https://example.com:99999/"}, "executor.url"),
        ({"url": "https://example.com:0/"}, "executor.url"),
        ({"url": "https://example.com/{payload.id}"}, "executor.url"),
        ({"url": "https://exämple.com/"}, "executor.url"),
        ({"url": "https://example.com\\@evil.example.com/"}, "executor.url"),
        ({"url": "https://example.com/" + "a" * 3000}, "executor.url"),
        ({"url": URL, "urll": 1}, "executor.urll"),
        ({"url": URL, "method": "TRACE"}, "executor.method"),
        ({"url": URL, "method": "GET", "body": {}}, "executor.body"),
        ({"url": URL, "body": {"a": "{secret}"}}, "executor.body.a"),
        ({"url": URL, "body": {"a": "{payload"}}, "executor.body.a"),
        ({"url": URL, "body": ["}"]}, "executor.body[0]"),
        ({"url": URL, "query": {"a": "{payload..b}"}}, "executor.query.a"),
        ({"url": URL, "query": {str(key): 1 for key in range(40)}}, "executor.query"),
        ({"url": URL, "headers": {"Host": "evil"}}, "executor.headers.Host"),
        ({"url": URL, "headers": {"rota-attempt": "9"}}, "executor.headers.rota-attempt"),
        ({"url": URL, "headers": {"Webhook-Id": "9"}}, "executor.headers.Webhook-Id"),
        ({"url": URL, "headers": {"Authorization": "Bearer x"}}, "executor.headers.Authorization"),
        ({"url": URL, "headers": {"a b": "x"}}, "executor.headers.a b"),
        ({"url": URL, "headers": {"X-A": "x\r\nHost: evil"}}, "executor.headers.X-A"),
        ({"url": URL, "headers": {"X-A": 5}}, "executor.headers"),
        ({"url": URL, "headers": {f"x-{key}": "1" for key in range(40)}}, "executor.headers"),
        ({"url": URL, "secret": "a b"}, "executor.secret"),
        ({"url": URL, "target": ""}, "executor.target"),
        ({"url": URL, "concurrency": 0}, "executor.concurrency"),
        ({"url": URL, "connect_timeout_seconds": 0}, "executor.connect_timeout_seconds"),
        ({"url": URL, "response_timeout_seconds": 1e9}, "executor.response_timeout_seconds"),
        ({"url": URL, "success": {"statuses": ["ok"]}}, "executor.success.statuses"),
        ({"url": URL, "success": {"statuses": [99]}}, "executor.success.statuses"),
        ({"url": URL, "success": {"data": "a/b"}}, "executor.success.data"),
        ({"url": URL, "success": {"message": "x"}}, "executor.success.message"),
        ({"url": URL, "success": {"extra": 1}}, "executor.success.extra"),
        ({"url": URL, "success": 5}, "executor.success"),
    ],
)
def test_what_is_wrong_is_named(executor: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_config(executor)
    assert caught.value.field == field


def test_a_stored_config_becomes_a_plan_once() -> None:
    text = json.dumps({"url": "HTTPS://CRM.example.com/a"})

    assert plan_of(text) is plan_of(text)
    assert plan_of(text).origin == "https://crm.example.com:443"
