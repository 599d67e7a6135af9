"""Tasks over HTTP, against a real server: what is created, found, changed, and refused."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.config.wiring import Role
from rota.domain.attempt import TaskError, TaskResult
from rota.domain.ids import TaskId, WorkerId
from rota.domain.task import TaskState, Transition
from rota.infrastructure.store.sql import listing
from rota.infrastructure.store.sql.tasks import SqlTaskStore
from rota.interfaces.operations import tasks
from tests.support.api import STRANGER, Api, an_api
from tests.support.builders import MINUTE, a_config
from tests.support.local_jobs import until


@pytest.fixture(params=["memory", "sqlite"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/rota.db"
    async with an_api(store={"url": url}) as made:
        yield made


@pytest.fixture
async def http(api: Api) -> AsyncIterator[httpx2.AsyncClient]:
    async with api.client() as client:
        yield client


async def create(http: httpx2.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await http.post("/tasks", json={"type": "email", **body})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def problem(answer: httpx2.Response) -> tuple[int, str, list[str]]:
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    return answer.status_code, told["code"], [error["field"] for error in told["errors"]]


async def test_a_task_is_created_and_found(http: httpx2.AsyncClient) -> None:
    payload = {"to": "ada@example.com", "deep": [1, {"two": None}]}
    answer = await http.post("/tasks", json={"type": "email", "payload": payload, "priority": "high", "name": "hello"})
    assert answer.status_code == 201
    made = answer.json()
    assert (made["status"], made["priority"], made["name"], made["payload"]) == ("PENDING", 5, "hello", payload)
    assert made["id"].isdigit()
    assert made["created_at"].endswith("Z")
    assert answer.headers["location"] == f"/api/v1/tasks/{made['id']}"
    assert (await http.get(f"/tasks/{made['id']}")).json() == made


async def test_a_payload_that_is_left_out_comes_from_the_config(api: Api, http: httpx2.AsyncClient) -> None:
    await api.services.configs.put(a_config("report", payload='{"pages":3}', priority=7))
    made = await create(http, type="report")
    assert (made["payload"], made["priority"]) == ({"pages": 3}, 7)


async def test_a_repeat_with_the_same_key_gets_the_first_task(http: httpx2.AsyncClient) -> None:
    key = {"Idempotency-Key": "order-17"}
    first = await http.post("/tasks", json={"type": "email", "payload": {"number": 1}}, headers=key)
    again = await http.post("/tasks", json={"payload": {"number": 1}, "type": "email", "idempotency_key": "order-17"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    other = await http.post("/tasks", json={"type": "email", "payload": {"number": 2}}, headers=key)
    assert problem(other) == (409, "idempotency_mismatch", [])
    assert other.json()["task_id"] == first.json()["id"]


@pytest.mark.parametrize("payload", ["text", 7, [1], True])
async def test_what_a_function_cannot_take_is_refused_before_it_is_a_task(
    api: Api, http: httpx2.AsyncClient, payload: Any
) -> None:
    answer = await http.post("/tasks", json={"type": "email", "payload": payload})
    assert problem(answer) == (422, "invalid_request", ["payload"])
    batch = await http.post("/tasks:batch", json={"tasks": [{"type": "email"}, {"type": "email", "payload": payload}]})
    assert problem(batch) == (422, "invalid_request", ["tasks[1].payload"])
    executor = '{"url": "https://example.com/hook"}'
    await api.services.configs.put(a_config("hook", executor_type="http", executor_config=executor))
    assert (await create(http, type="hook", payload=payload))["payload"] == payload


async def test_two_keys_that_differ_cannot_both_be_meant(http: httpx2.AsyncClient) -> None:
    body = {"type": "email", "idempotency_key": "a"}
    answer = await http.post("/tasks", json=body, headers={"Idempotency-Key": "b"})
    assert problem(answer) == (422, "invalid_request", ["idempotency_key"])
    assert (await http.post("/tasks", json=body, headers={"Idempotency-Key": "a"})).status_code == 201


async def test_many_at_the_same_time_are_all_created(http: httpx2.AsyncClient) -> None:
    made = await asyncio.gather(*(create(http, payload={"number": number}) for number in range(50)))
    assert len({task["id"] for task in made}) == 50


async def test_a_batch_is_created_in_order(http: httpx2.AsyncClient) -> None:
    body = {"tasks": [{"type": "email", "payload": {"number": number}} for number in range(100)]}
    answer = await http.post("/tasks:batch", json=body)
    assert answer.status_code == 201
    ids = answer.json()["ids"]
    assert len(set(ids)) == 100
    assert (await http.get(f"/tasks/{ids[42]}")).json()["payload"] == {"number": 42}


async def test_a_batch_names_each_bad_task_and_creates_none(http: httpx2.AsyncClient) -> None:
    bad = [
        {"type": "email"},
        {"type": "unknown"},
        {"type": "email", "delay_seconds": -1},
        {"type": "email", "name": "\u0000"},
    ]
    answer = await http.post("/tasks:batch", json={"tasks": bad[:3]})
    assert problem(answer) == (422, "invalid_request", ["tasks[2].delay_seconds"])
    answer = await http.post("/tasks:batch", json={"tasks": [bad[1], bad[0], bad[1]]})
    assert problem(answer) == (422, "invalid_request", ["tasks[0].type", "tasks[2].type"])
    assert problem(await http.post("/tasks:batch", json={"tasks": [bad[3]]}))[2] == ["tasks[0].name"]
    assert (await http.get("/tasks")).json()["items"] == []


async def test_a_batch_has_its_bound(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/tasks:batch", json={"tasks": [{"type": "email"}] * 10_001})
    assert problem(answer) == (422, "invalid_request", ["tasks"])


async def test_a_batch_that_is_repeated_with_its_key_creates_nothing_twice(http: httpx2.AsyncClient) -> None:
    body, key = {"tasks": [{"type": "email"}, {"type": "email", "idempotency_key": "own"}]}, {"Idempotency-Key": "b"}
    first = await http.post("/tasks:batch", json=body, headers=key)
    again = await http.post("/tasks:batch", json=body, headers=key)
    assert first.json() == again.json()
    assert len((await http.get("/tasks")).json()["items"]) == 2


async def test_lists_are_filtered_and_cut_into_pages(http: httpx2.AsyncClient) -> None:
    for number in range(5):
        await create(http, name=f"letter {number}", priority=number, metadata={"region": "eu" if number % 2 else "us"})
    page = (await http.get("/tasks", params={"limit": 2})).json()
    rest = (await http.get("/tasks", params={"limit": 2, "cursor": page["next_cursor"]})).json()
    names = [task["name"] for task in [*page["items"], *rest["items"]]]
    assert names == ["letter 4", "letter 3", "letter 2", "letter 1"]
    found = (await http.get("/tasks?priority=1&priority=3&metadata.region=eu&q=letter&status=PENDING")).json()
    assert [task["priority"] for task in found["items"]] == [3, 1]
    assert found["next_cursor"] is None
    assert (await http.get("/tasks?metadata.region=mars")).json()["items"] == []


@pytest.mark.parametrize("cursor", ["x", "bnVsbA", "WyJhIl0", "WzEsMl0", "é", "Wy0xXQ", "W3RydWVd"])
async def test_a_cursor_is_only_what_was_given_out(http: httpx2.AsyncClient, cursor: str) -> None:
    answer = await http.get("/tasks", params={"cursor": cursor})
    assert problem(answer) == (422, "invalid_request", ["cursor"])


async def test_a_waiting_task_is_moved_and_made_more_urgent(http: httpx2.AsyncClient) -> None:
    made = await create(http)
    moved = await http.patch(f"/tasks/{made['id']}", json={"priority": 9, "scheduled_at": "2099-01-01T00:00:00Z"})
    assert moved.status_code == 200
    assert (moved.json()["priority"], moved.json()["scheduled_at"]) == (9, "2099-01-01T00:00:00Z")
    assert [entry["action"] for entry in (await http.get("/audit")).json()["items"]] == ["task.patch", "task.create"]
    assert problem(await http.patch(f"/tasks/{made['id']}", json={}))[0] == 422
    cancelled = await http.post(f"/tasks/{made['id']}:cancel")
    assert cancelled.json()["scheduled_at"] == "2099-01-01T00:00:00Z", "also when it no longer waits"
    naive = await http.patch(f"/tasks/{made['id']}", json={"scheduled_at": "2099-01-01T00:00:00"})
    assert problem(naive) == (422, "invalid_request", ["scheduled_at"])


async def test_of_two_changes_none_is_made_when_one_is_impossible(http: httpx2.AsyncClient) -> None:
    made = await create(http)
    answer = await http.patch(f"/tasks/{made['id']}", json={"priority": 9, "scheduled_at": "9999-12-31T23:59:59Z"})
    assert problem(answer) == (422, "invalid_request", ["scheduled_at"])
    assert (await http.get(f"/tasks/{made['id']}")).json() == made


async def test_a_task_that_is_taken_as_soon_as_it_is_due_has_its_new_priority(
    api: Api, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await create(http, scheduled_at="2099-01-01T00:00:00Z")
    node = api.services.node
    store = type(node.store.tasks)
    advance = store.advance

    async def advance_and_take(self: Any, steps: Any, **others: Any) -> Any:
        written = await advance(self, steps, **others)
        if steps[0].after.due_at <= node.time.now():
            await advance(self, [steps[0].after.cancelled("taken", at=node.time.now())])
        return written

    monkeypatch.setattr(store, "advance", advance_and_take)
    answer = await http.patch(f"/tasks/{made['id']}", json={"priority": 9, "scheduled_at": "2020-01-01T00:00:00Z"})
    assert (answer.status_code, answer.json()["priority"], answer.json()["status"]) == (200, 9, "CANCELLED")


async def test_a_page_ends_before_it_has_too_many_bytes(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_PAGE_BYTES", 10_000)
    monkeypatch.setattr(tasks, "MOST_READ", 4)
    lengths = [10] * 10 + [4000] * 5 + [20_000] * 2 + [10]
    ids = [(await create(http, payload={"text": "x" * length}))["id"] for length in lengths]
    found: list[str] = []
    sizes: list[int] = []
    cursor = None
    while cursor is not None or not found:
        params = {"limit": 1000, "full": True} | ({} if cursor is None else {"cursor": cursor})
        answer = await http.get("/tasks", params=params)
        items, cursor = answer.json()["items"], answer.json()["next_cursor"]
        found += [task["id"] for task in items]
        sizes.append(len(items))
        assert len(items) == 1 or len(answer.content) < 10_100
    assert found == ids[::-1]
    assert sizes[:4] == [1, 1, 1, 2]


async def test_a_search_that_finds_little_stops_and_says_where_to_go_on(
    api: Api, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SLICES", (2, 3))
    is_bounded = isinstance(api.services.node.store.tasks, SqlTaskStore)
    await api.services.configs.put(a_config("rare"))
    wanted = []
    for number in range(23):
        rare = number in (0, 1, 12)
        made = await create(http, type="rare" if rare else "email")
        wanted += [made["id"]] if rare else []
        if number % 4 == 1:
            await http.post(f"/tasks/{made['id']}:cancel")
    for statuses, expected in (([], wanted), (["PENDING"], wanted[::2]), (["CANCELLED", "FAILED"], wanted[1:2])):
        pages = [page async for page in _walk(http, {"type": "rare", "status": statuses, "limit": 2})]
        assert [task["id"] for page in pages for task in page] == expected[::-1]
        if is_bounded and not statuses:
            assert [] in pages[:-1], "it stops also where it has found nothing"
    answer = await http.post("/tasks:cancel", json={"type": ["rare"]})
    assert answer.json()["changed"] == 2


async def _walk(http: httpx2.AsyncClient, params: dict[str, Any]) -> AsyncIterator[list[dict[str, Any]]]:
    cursor = None
    while True:
        page = (await http.get("/tasks", params=params | ({} if cursor is None else {"cursor": cursor}))).json()
        yield page["items"]
        if (cursor := page["next_cursor"]) is None:
            return


async def end(api: Api, task_id: str, *, conclude: Callable[[TaskState, datetime], Transition]) -> None:
    node, known = api.services.node, TaskId(int(task_id))
    task = (await node.store.tasks.load([known]))[known]
    granted = task.state.granted(WorkerId(1), term=1, at=node.time.now(), timeout=MINUTE)
    await node.store.tasks.advance([granted])
    await node.store.tasks.advance([conclude(granted.after, node.time.now())])


async def test_a_list_leaves_out_what_is_large_and_says_so(api: Api, http: httpx2.AsyncClient) -> None:
    result, error = TaskResult(data=json.dumps("y" * 5000)), TaskError(code="x", message="no", detail="z" * 5000)
    await create(http, payload={"text": "x" * 100})
    failed = await create(http, payload={"text": "x" * 5000})
    done = await create(http)
    await end(api, failed["id"], conclude=lambda state, at: state.failed(error, at=at))
    await end(api, done["id"], conclude=lambda state, at: state.succeeded(result, at=at))
    first, second, third = (await http.get("/tasks")).json()["items"]
    assert (first["result"]["data"], first["truncated"]) == (None, ["result.data"])
    assert (second["payload"], second["error"]["detail"]) == (None, "z" * 2048 + "…")
    assert second["truncated"] == ["payload", "error.detail"]
    assert (third["payload"], third["truncated"]) == ({"text": "x" * 100}, [])
    whole = (await http.get("/tasks", params={"full": "true"})).json()["items"]
    assert whole == [(await http.get(f"/tasks/{one['id']}")).json() for one in (first, second, third)]
    assert (whole[0]["result"]["data"], whole[1]["payload"]) == ("y" * 5000, {"text": "x" * 5000})
    assert (whole[1]["error"]["detail"], whole[1]["truncated"]) == ("z" * 5000, [])


@pytest.mark.parametrize(("limit", "has_more"), [(3, True), (4, True), (8, True), (9, False), (10, False)])
async def test_a_page_that_is_read_in_pieces_has_as_many_as_were_asked_for(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, limit: int, has_more: bool
) -> None:
    monkeypatch.setattr(tasks, "MOST_READ", 4)
    ids = [(await create(http))["id"] for _ in range(9)]
    page = (await http.get("/tasks", params={"limit": limit})).json()
    assert [task["id"] for task in page["items"]] == ids[::-1][:limit]
    assert (page["next_cursor"] is not None) is has_more


async def test_a_task_is_cancelled_once_and_run_again(http: httpx2.AsyncClient) -> None:
    made = await create(http, payload={"x": 1})
    early = await http.post(f"/tasks/{made['id']}:retry")
    assert problem(early) == (409, "illegal_transition", [])
    ended = await http.post(f"/tasks/{made['id']}:cancel", json={"reason": "typo"})
    assert (ended.json()["status"], ended.json()["error"]["message"]) == ("CANCELLED", "typo")
    assert problem(await http.post(f"/tasks/{made['id']}:cancel")) == (409, "illegal_transition", [])
    again = await http.post(f"/tasks/{made['id']}:retry", headers={"Idempotency-Key": "r"})
    repeated = await http.post(f"/tasks/{made['id']}:retry", headers={"Idempotency-Key": "r"})
    assert (again.status_code, repeated.status_code) == (201, 200)
    assert again.json()["id"] == repeated.json()["id"]
    assert (again.json()["rerun_of"], again.json()["payload"]) == (made["id"], {"x": 1})


async def test_all_that_match_are_cancelled_and_run_again(http: httpx2.AsyncClient) -> None:
    ids = [(await create(http, metadata={"run": "7"}))["id"] for _ in range(3)]
    other = await create(http)
    answer = await http.post("/tasks:cancel", json={"metadata": {"run": "7"}, "reason": "all of them"})
    assert answer.json() == {"matched": 3, "changed": 3, "skipped": 0, "has_more": False, "next_cursor": None}
    assert (await http.get(f"/tasks/{other['id']}")).json()["status"] == "PENDING"
    again = await http.post("/tasks:retry", json={"ids": [*ids, "1"]})
    assert (again.json()["matched"], again.json()["changed"]) == (3, 3)
    assert len((await http.get("/tasks?metadata.run=7&status=PENDING")).json()["items"]) == 3


async def test_all_that_match_are_made_as_urgent_as_asked(api: Api, http: httpx2.AsyncClient) -> None:
    ids = [(await create(http, metadata={"run": "8"}))["id"] for _ in range(3)]
    other = await create(http)
    wanted = {"metadata": {"run": "8"}, "priority": [0], "new_priority": "urgent"}
    answer = await http.post("/tasks:reprioritise", json=wanted)
    assert answer.json() == {"matched": 3, "changed": 3, "skipped": 0, "has_more": False, "next_cursor": None}
    assert [(await http.get(f"/tasks/{one}")).json()["priority"] for one in (*ids, other["id"])] == [9, 9, 9, 0]
    one = await http.post("/tasks:reprioritise", json={"ids": [*ids[:1], "1"], "new_priority": 2})
    assert (one.json()["matched"], one.json()["changed"]) == (1, 1)
    async with api.client(tenant_id=STRANGER) as stranger:
        assert (await stranger.post("/tasks:reprioritise", json={"ids": ids, "new_priority": 1})).json()["matched"] == 0


@pytest.mark.parametrize("body", [{"ids": ["1"]}, {"ids": ["1"], "new_priority": 10}, {"new_priority": 1}])
async def test_making_tasks_urgent_says_which_and_how(http: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    made = await create(http)
    if "ids" in body:
        body = body | {"ids": [made["id"]]}
    answer = await http.post("/tasks:reprioritise", json=body)
    assert problem(answer)[:2] == (422, "invalid_request")
    assert (await http.get(f"/tasks/{made['id']}")).json()["priority"] == 0


@pytest.mark.parametrize("body", [{}, {"reason": "x"}, {"ids": ["1"], "type": ["email"]}, {"ids": ["x"]}])
async def test_a_bulk_action_says_what_it_is_for(http: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    answer = await http.post("/tasks:cancel", json=body)
    assert problem(answer)[:2] == (422, "invalid_request")


async def test_the_record_of_a_task_is_read_in_pages(http: httpx2.AsyncClient) -> None:
    made = await create(http)
    await http.post(f"/tasks/{made['id']}:cancel")
    page = (await http.get(f"/tasks/{made['id']}/logs?limit=1")).json()
    rest = (await http.get(f"/tasks/{made['id']}/logs", params={"cursor": page["next_cursor"]})).json()
    lines = [*page["items"], *rest["items"]]
    assert [line["to_status"] for line in lines] == ["PENDING", "CANCELLED"]


async def test_a_task_says_why_it_waits(http: httpx2.AsyncClient) -> None:
    made = await create(http, delay_seconds=600)
    told = (await http.get(f"/tasks/{made['id']}/explain")).json()
    assert (told["reason"], told["task_id"]) == ("not_due", made["id"])


async def test_a_wait_ends_when_the_task_does(api: Api, http: httpx2.AsyncClient) -> None:
    made = await create(http)
    waiting = asyncio.create_task(http.get(f"/tasks/{made['id']}?wait=60"))
    await until(lambda: bool(api.services.watch._waits))
    assert not waiting.done()
    await http.post(f"/tasks/{made['id']}:cancel")
    assert (await waiting).json()["status"] == "CANCELLED"


async def test_a_wait_that_is_over_shows_the_task_as_it_is(http: httpx2.AsyncClient) -> None:
    made = await create(http)
    assert (await http.get(f"/tasks/{made['id']}?wait=50ms")).json()["status"] == "PENDING"
    for wait in ("61", "2m", "999999"):
        assert problem(await http.get(f"/tasks/{made['id']}?wait={wait}")) == (422, "invalid_request", ["wait"])


@pytest.mark.parametrize("task_id", ["7", str(2**63 - 1)])
async def test_what_is_not_there_is_not_found(http: httpx2.AsyncClient, task_id: str) -> None:
    assert problem(await http.get(f"/tasks/{task_id}")) == (404, "task_not_found", [])
    assert problem(await http.get(f"/tasks/{task_id}?wait=1")) == (404, "task_not_found", [])


@pytest.mark.parametrize("task_id", ["x", "0", "-1", "1.0", "9" * 19, "%00", "%F0%9F%98%80"])
async def test_what_is_no_id_is_told_so(http: httpx2.AsyncClient, task_id: str) -> None:
    assert problem(await http.get(f"/tasks/{task_id}")) == (422, "invalid_request", ["id"])


async def test_configs_are_defined_paused_triggered_and_deleted(http: httpx2.AsyncClient) -> None:
    body = {
        "name": "Report",
        "executor": {"type": "http", "url": "https://x"},
        "timeout_seconds": 7,
        "priority": "urgent",
    }
    made = await http.put("/task-configs/report", json=body)
    assert made.status_code == 201
    assert made.json()["executor"] == {"type": "http", "url": "https://x"}
    assert (await http.put("/task-configs/report", json={**body, "revision": 5})).status_code == 409
    assert (await http.put("/task-configs/report", json={**body, "name": "Other", "revision": 1})).status_code == 200
    assert (await http.get("/task-configs/report")).json()["name"] == "Other"
    assert not (await http.post("/task-configs/report:pause")).json()["enabled"]
    assert problem(await http.post("/tasks", json={"type": "report"})) == (422, "invalid_request", ["type"])
    assert (await http.post("/task-configs/report:resume")).json()["enabled"]
    ran = await http.post("/task-configs/report:trigger", json={"payload": {"n": 1}})
    assert (ran.status_code, ran.json()["payload"], ran.json()["priority"]) == (201, {"n": 1}, 9)
    listed = (await http.get("/task-configs?limit=1")).json()
    assert [config["type"] for config in listed["items"]] == ["email"]
    following = (await http.get("/task-configs", params={"cursor": listed["next_cursor"]})).json()
    assert [config["type"] for config in following["items"]] == ["report"]
    assert (await http.delete("/task-configs/report")).status_code == 204
    assert problem(await http.delete("/task-configs/report")) == (404, "task_config_not_found", [])
    assert problem(await http.post("/task-configs/report:trigger")) == (404, "task_config_not_found", [])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"executor": {}}, "executor.type"),
        ({"executor": {"type": "no such thing"}}, "executor.type"),
        ({"schedule": {"cron": "61 * * * *"}}, "schedule.cron"),
        ({"schedule": {"cron": "0 9 * * *", "overlap": "sometimes"}}, "schedule.overlap"),
        ({"schedule": {"cron": "0 9 * * *", "exclude": ["holidays"]}}, "schedule.exclude"),
        ({"schedule": {"crn": "0 9 * * *"}}, "schedule.crn"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": 1e308}, "timeout_seconds"),
        ({"priority": 10}, "priority"),
        ({"max_concurrent": 0}, "max_concurrent"),
        ({"rate_per_second": -1}, "rate_per_second"),
        ({"retry": {"jitter": 2}}, "retry.jitter"),
        ({"retry": {"retry_on": ["5xx", "6xx"]}}, "retry.retry_on[1]"),
        ({"retry": {"give_up_on": ["a b"]}}, "retry.give_up_on[0]"),
        ({"retry": {"retry_on": ["UNAVALABLE"]}}, "retry.retry_on[0]"),
        ({"retry": {"give_up_on": ["htpp_500"]}}, "retry.give_up_on[0]"),
        ({"retry": {"total_timeout_seconds": 0}}, "retry.total_timeout_seconds"),
        ({"revision": -1}, "revision"),
        ({"payload": {"text": "x" * 300_000}}, "payload"),
        ({"payload": ["a"]}, "payload"),
    ],
)
async def test_a_bad_config_is_refused_with_its_field(
    http: httpx2.AsyncClient, body: dict[str, Any], field: str
) -> None:
    assert problem(await http.put("/task-configs/bad", json=body)) == (422, "invalid_request", [field])
    assert (await http.get("/task-configs/bad")).status_code == 404


async def test_the_rules_of_a_retry_policy_come_back_and_bound_a_task(http: httpx2.AsyncClient) -> None:
    rules = {"retry_on": ["5xx", "ConnectionError"], "give_up_on": ["501"], "total_timeout_seconds": 90.5}
    put = await http.put("/task-configs/ruled", json={"retry": rules})
    assert put.status_code in (200, 201), put.text
    kept = (await http.get("/task-configs/ruled")).json()["retry"]
    assert {name: kept[name] for name in rules} == rules
    made = await create(http, type="ruled")
    late = await http.patch(f"/tasks/{made['id']}", json={"scheduled_at": "2099-01-01T00:00:00Z", "priority": 9})
    assert problem(late) == (422, "invalid_request", ["scheduled_at"])
    assert (await http.get(f"/tasks/{made['id']}")).json() == made


async def test_tasks_of_another_tenant_are_neither_seen_nor_touched(api: Api, http: httpx2.AsyncClient) -> None:
    made = await create(http)
    async with api.client(tenant_id=STRANGER) as stranger:
        assert (await stranger.get("/tasks")).json()["items"] == []
        counted = (await stranger.post("/tasks:cancel", json={"ids": [made["id"]]})).json()
        assert counted["matched"] == 0
    assert (await http.get(f"/tasks/{made['id']}")).json()["status"] == "PENDING"


async def test_what_was_changed_is_on_record(http: httpx2.AsyncClient) -> None:
    made = await create(http)
    await http.post(f"/tasks/{made['id']}:cancel")
    await http.put("/task-configs/report", json={})
    entries = (await http.get("/audit")).json()["items"]
    assert [entry["action"] for entry in entries] == ["config.put", "task.cancel", "task.create"]
    assert {entry["actor"] for entry in entries} == {"admin of default"}
    token_ids = [token["id"] for token in (await http.get("/tokens")).json()["items"]]
    assert {entry["token_id"] for entry in entries} == set(token_ids)
    assert entries[1]["object"] == made["id"]
    assert entries[1]["address"] == "127.0.0.1"
    first = (await http.get("/audit?limit=2")).json()
    rest = (await http.get("/audit", params={"cursor": first["next_cursor"]})).json()
    assert [entry["id"] for entry in [*first["items"], *rest["items"]]] == [entry["id"] for entry in entries]


async def test_the_whole_way_from_request_to_result(tmp_path: Path) -> None:
    async with an_api(Role.SCHEDULER, store={"url": f"sqlite:///{tmp_path}/rota.db"}) as api, api.client() as http:
        made = await create(http)
        assert (await http.get("/cluster")).status_code == 200
        assert (await http.get("/queues")).status_code == 200
        stats = (await http.get("/stats")).json()
        assert stats["tasks"]["PENDING"] == 1
        assert (await http.get(f"/tasks/{made['id']}/explain")).json()["reason"] in ("no_worker_for_type", "no_leader")


async def test_a_task_config_for_the_http_executor_is_checked_when_it_is_put(http: httpx2.AsyncClient) -> None:
    executor = {"type": "http", "url": "ftp://example.com", "method": "POST"}
    refused = await http.put("/task-configs/webhook", json={"executor": executor})
    assert problem(refused) == (422, "invalid_request", ["executor.url"])
    assert (await http.get("/task-configs/webhook")).status_code == 404

    put = await http.put("/task-configs/webhook", json={"executor": executor | {"url": "https://example.com/"}})
    assert put.status_code == 201
