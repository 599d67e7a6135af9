"""Every method of both clients, and what it asks for."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from tests.unit.client.dial import TASK, Dial
from tests.unit.interfaces.fake_api import (
    CALENDAR,
    CLUSTER,
    CONFIG,
    FORECAST,
    OCCURRENCE,
    PREVIEW,
    QUEUE_TYPES,
    QUEUES,
    REPORT,
    SETTINGS,
    STATS,
    TOKEN,
    WORKER,
    page,
)

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
TARGET = {"fire_at": "2030-06-01T09:00:00Z", "action": "run", "task_id": None, "reason": ""}
NOTHING = httpx2.Response(204)
AUDIT = {
    "id": "1",
    "at": "2030-06-01T12:00:00Z",
    "actor": "ci",
    "token_id": "7",
    "action": "x",
    "object": "y",
    "address": "",
    "detail": "",
}
ELECTION = {
    "term": 3,
    "node": "pod-1-77",
    "begun_at": "2030-06-01T12:00:00Z",
    "ended_at": None,
    "ending": None,
    "reason": "",
}
LINE = {
    "seq": "1",
    "kind": "INFO",
    "at": "2030-06-01T12:00:00Z",
    "from_status": None,
    "to_status": None,
    "attempt": 1,
    "worker_id": None,
    "message": "hello",
    "detail": "",
}
METHODS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "GET /tasks/7": (lambda client: client.tasks.get("7"), TASK),
    "PATCH /tasks/7": (lambda client: client.tasks.patch("7", priority=3), TASK),
    "POST /tasks/7:cancel": (lambda client: client.tasks.cancel("7"), TASK),
    "POST /tasks/7:retry": (lambda client: client.tasks.retry("7"), TASK),
    "GET /tasks/7/logs": (lambda client: client.tasks.logs("7"), page(LINE)),
    "POST /tasks:retry": (
        lambda client: client.tasks.retry_all(status="FAILED"),
        {"matched": 1, "changed": 1, "skipped": 0, "has_more": False},
    ),
    "POST /tasks:reprioritise": (
        lambda client: client.tasks.reprioritise_all("high", type="email", priority=0),
        {"matched": 1, "changed": 1, "skipped": 0, "has_more": False},
    ),
    "PUT /task-configs/email": (lambda client: client.configs.put("email", {"priority": 5}), CONFIG),
    "GET /task-configs/email": (lambda client: client.configs.get("email"), CONFIG),
    "GET /task-configs": (lambda client: client.configs.list(), page(CONFIG)),
    "DELETE /task-configs/email": (lambda client: client.configs.delete("email"), NOTHING),
    "POST /task-configs/email:pause": (lambda client: client.configs.pause("email"), CONFIG),
    "POST /task-configs/email:resume": (lambda client: client.configs.resume("email"), CONFIG),
    "GET /task-configs/email/revisions": (lambda client: client.configs.revisions("email"), page(CONFIG)),
    "POST /task-configs/email:check": (lambda client: client.configs.check("email", {"priority": 5}), CONFIG),
    "POST /task-configs/email:rollback": (lambda client: client.configs.roll_back("email", 1), CONFIG),
    "POST /task-configs/email:trigger": (lambda client: client.configs.trigger("email"), TASK),
    "GET /task-configs/email/schedule": (lambda client: client.schedules.get("email", count=1), PREVIEW),
    "POST /schedules:preview": (lambda client: client.schedules.preview({"cron": "0 9 * * *"}), PREVIEW),
    "GET /task-configs/email/occurrences": (lambda client: client.schedules.occurrences("email"), page(OCCURRENCE)),
    "POST /task-configs/email/schedule:pause": (lambda client: client.schedules.pause("email", note="x"), CONFIG),
    "POST /task-configs/email/schedule:resume": (lambda client: client.schedules.resume("email"), CONFIG),
    "GET /schedules:forecast": (lambda client: client.schedules.forecast(NOON, types=["email"]), FORECAST),
    "POST /task-configs/email:backfill": (
        lambda client: client.schedules.backfill("email", NOON, end=NOON, dry_run=True),
        {"name": "backfill", "total": 1, "items": [TARGET], "next_cursor": None},
    ),
    "PUT /calendars/holidays": (lambda client: client.calendars.put("holidays", {"country": "DE"}), CALENDAR),
    "GET /calendars/holidays": (lambda client: client.calendars.get("holidays"), CALENDAR),
    "GET /calendars": (lambda client: client.calendars.list(), page(CALENDAR)),
    "DELETE /calendars/holidays": (lambda client: client.calendars.delete("holidays"), NOTHING),
    "GET /workers": (lambda client: client.workers.list(), page(WORKER)),
    "GET /workers/9": (lambda client: client.workers.get("9"), WORKER),
    "POST /workers/9:drain": (lambda client: client.workers.drain("9"), WORKER),
    "POST /workers/9:resume": (lambda client: client.workers.resume("9"), WORKER),
    "PATCH /workers/9": (lambda client: client.workers.set_capacity("9", 3), WORKER),
    "GET /queues": (lambda client: client.queues(), QUEUES),
    "GET /queues/types": (lambda client: client.queue_types(), QUEUE_TYPES),
    "GET /stats": (lambda client: client.stats(), STATS),
    "GET /reports": (lambda client: client.report(begin=NOON, by="hour", types=["email"]), REPORT),
    "GET /cluster": (lambda client: client.cluster(), CLUSTER),
    "GET /cluster/elections": (lambda client: client.elections(5), page(ELECTION)),
    "GET /settings": (lambda client: client.settings(), SETTINGS),
    "GET /audit": (lambda client: client.audit(), page(AUDIT)),
    "POST /tokens": (
        lambda client: client.tokens.create("ci", "operator", expires_in="1d"),
        {"token": TOKEN, "secret": "s"},
    ),
    "GET /tokens": (lambda client: client.tokens.list(), page(TOKEN)),
    "DELETE /tokens/5": (lambda client: client.tokens.revoke("5"), NOTHING),
}


@pytest.mark.parametrize("route", METHODS)
def test_each_method_asks_for_its_path(dial: Dial, route: str) -> None:
    use, answer = METHODS[route]
    response = answer if isinstance(answer, httpx2.Response) else httpx2.Response(200, json=answer)
    found = dial.ask(use, response)
    (sent,) = dial.sent
    assert f"{sent.method} {sent.url.path.removeprefix('/api/v1')}" == route
    assert (found is None) == (answer is NOTHING)


def test_an_expression_is_a_schedule(dial: Dial) -> None:
    dial.ask(lambda client: client.schedules.preview("30 2 * * *"), httpx2.Response(200, json=PREVIEW))
    assert json.loads(dial.sent[0].content)["schedule"] == {"cron": "30 2 * * *"}


def test_a_task_is_run_again_with_other_input(dial: Dial) -> None:
    dial.ask(lambda client: client.tasks.retry("7", payload={"to": "bob"}), httpx2.Response(201, json=TASK))
    (sent,) = dial.sent
    assert (sent.url.path, sent.content) == ("/api/v1/tasks/7:retry", b'{"payload":{"to":"bob"}}')


def test_entries_of_the_audit_log_are_asked_for_by_what_they_say(dial: Dial) -> None:
    dial.ask(
        lambda client: client.audit(actor="ci", action="task.cancel", object="", after=NOON, cluster=True),
        httpx2.Response(200, json=page(AUDIT)),
    )
    (sent,) = dial.sent
    asked = {name: value for name, value in sent.url.params.items() if name != "limit"}
    assert asked == {
        "actor": "ci",
        "action": "task.cancel",
        "after": "2030-06-01T12:00:00+00:00",
        "cluster": "true",
    }


def test_a_handle_waits_looks_and_cancels(dial: Dial) -> None:
    handle = dial.ask(lambda client: client.submit("email"), httpx2.Response(201, json=TASK))
    assert handle.id == "7"
    ended = httpx2.Response(200, json={**TASK, "status": "CANCELLED"})
    for use in (
        lambda client: type(handle)("7", client).wait("1s"),
        lambda client: type(handle)("7", client).get(),
        lambda client: type(handle)("7", client).cancel("why"),
    ):
        assert dial.ask(use, ended).status == "CANCELLED"
