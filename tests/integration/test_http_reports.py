"""Reports over HTTP, against a real server."""

import csv
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest

from rota.application.reign import Reign
from rota.application.roll_up import RollUp
from rota.domain.access import Role
from rota.domain.attempt import TaskError, TaskResult
from rota.domain.ids import DEFAULT_TENANT, TaskId, WorkerId, first_id_at
from rota.domain.submission import NewTask
from rota.domain.task import Task, TaskSpec, TaskState, TaskStatus
from rota.domain.term import Term
from tests.support.api import STRANGER, Api, an_api

HOUR = timedelta(hours=1)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(store={"url": "memory://"}) as made:
        yield made


@pytest.fixture
async def http(api: Api) -> AsyncIterator[httpx2.AsyncClient]:
    async with api.client() as client:
        yield client


async def run_tasks(api: Api, *, number: int, hours_ago: int, task_type: str = "email") -> datetime:
    """Tasks that were made so long ago and took two seconds, of which the first failed; when they began."""
    node = api.services.node
    at = node.time.now() - hours_ago * HOUR
    for place in range(number):
        task_id = TaskId(first_id_at(at) + place)
        spec = TaskSpec(id=task_id, type=task_type, created_at=at)
        state = TaskState(id=task_id, status=TaskStatus.PENDING, due_at=at)
        await node.store.tasks.add([NewTask(Task(spec=spec, state=state))])
        granted = state.granted(WorkerId(1), term=1, at=at + timedelta(seconds=1), timeout=HOUR)
        ended_at = at + timedelta(seconds=3)
        if place:
            end = granted.after.succeeded(TaskResult(), at=ended_at)
        else:
            end = granted.after.failed(TaskError("boom"), at=ended_at)
        await node.store.tasks.advance([granted])
        await node.store.tasks.advance([end])
    return at


async def sum_up(api: Api) -> None:
    node = api.services.node
    reign = Reign(Term(1, trusted_until=float("inf")), node.clock)
    await RollUp(reports=node.store.reports, time=node.time, clock=node.clock)(reign)


async def report(http: httpx2.AsyncClient, **query: Any) -> Any:
    answer = await http.get("/reports", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_report_says_what_happened_by_type_and_hour(api: Api, http: httpx2.AsyncClient) -> None:
    at = await run_tasks(api, number=4, hours_ago=3)
    await run_tasks(api, number=1, hours_ago=2, task_type="sync")
    await sum_up(api)
    found = await report(http, by="hour")
    first, second = found["items"]
    assert (first["type"], first["submitted"], first["succeeded"], first["failed"]) == ("email", 4, 3, 1)
    assert datetime.fromisoformat(first["start"]) <= at < datetime.fromisoformat(first["end"])
    assert first["success_rate"] == 0.75
    assert (first["run"]["count"], first["run"]["p50_seconds"], first["wait"]["max_seconds"]) == (4, 2.0, 1.0)
    assert second["type"] == "sync"
    assert [one["type"] for one in found["types"]] == ["email", "sync"]
    assert (found["totals"]["failed"], found["most_failing"], found["slowest"]) == (
        2,
        ["email", "sync"],
        ["email", "sync"],
    )
    assert found["complete_until"] is not None
    only = await report(http, by="hour", task_type="sync")
    assert only["totals"]["submitted"] == 1


async def test_a_report_is_a_file_for_spreadsheets(api: Api, http: httpx2.AsyncClient) -> None:
    await run_tasks(api, number=2, hours_ago=1)
    await sum_up(api)
    answer = await http.get("/reports", params={"format": "csv", "by": "hour"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith('attachment; filename="rota-hour-20')
    [line] = csv.DictReader(answer.text.splitlines())
    assert (line["type"], line["submitted"], line["failed"], line["run_p50_seconds"]) == ("email", "2", "1", "2.0")
    assert line["success_rate"] == "0.5"


async def test_days_are_those_of_the_zone(http: httpx2.AsyncClient) -> None:
    found = await report(http, zone="Asia/Kolkata", by="day")
    assert found["begin"].endswith("T18:30:00Z")
    assert (found["items"], found["types"], found["totals"]["success_rate"]) == ([], [], None)


async def test_other_tenants_are_not_in_a_report_and_viewers_may_see_theirs(api: Api) -> None:
    await run_tasks(api, number=1, hours_ago=1)
    await sum_up(api)
    for tenant, number in ((DEFAULT_TENANT, 1), (STRANGER, 0)):
        async with api.client(Role.VIEWER, tenant) as http:
            assert (await report(http, by="hour"))["totals"]["submitted"] == number


async def test_without_a_token_there_is_no_report(api: Api) -> None:
    async with httpx2.AsyncClient(base_url=api.url) as http:
        assert (await http.get("/api/v1/reports")).status_code == 401


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"by": "month"}, "by"),
        ({"zone": "Mars"}, "zone"),
        ({"from": "yesterday"}, "from"),
        ({"from": "2999-01-01T00:00:00Z"}, "from"),
        ({"from": "2021-01-01T00:00:00Z", "to": "2021-01-05T00:00:00Z"}, "from"),
        ({"from": "2026-01-01T00:00:00"}, "from"),
        ({"to": "1990-01-01T00:00:00Z"}, "to"),
        ({"task_type": "a b"}, "task_type"),
        ({"format": "xml"}, "format"),
        ({"begin": "2026-01-01T00:00:00Z"}, "begin"),
    ],
)
async def test_what_no_report_can_be_made_of_is_named(
    http: httpx2.AsyncClient, query: dict[str, str], field: str
) -> None:
    answer = await http.get("/reports", params=query)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"] == field
