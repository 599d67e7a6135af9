"""Attempts finished over HTTP: by their link without a token, by an operator, and by nobody else."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from structlog.testing import capture_logs

from rota.application.submit import SubmitTasks
from rota.config.wiring import Role
from rota.domain import access
from rota.domain.callback import AttemptKey, spell_link
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.retry import RetryPolicy
from rota.domain.submission import Submission
from tests.support.api import STRANGER, Api, an_api, defer_first_attempt


@pytest.fixture(params=["memory", "sqlite"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/rota.db"
    async with an_api(store={"url": url}) as made:
        yield made


@pytest.fixture
async def nobody(api: Api) -> AsyncIterator[httpx2.AsyncClient]:
    async with api.nobody() as client:
        yield client


async def deferred(api: Api, *, retries: int = 3) -> tuple[str, str]:
    """The id and the callback of a task whose first attempt is deferred."""
    node = api.services.node
    wish = Submission(type="email", retry=RetryPolicy(max_retries=retries))
    added = await SubmitTasks(node).submit(wish)
    await defer_first_attempt(node, added.task_id)
    return str(added.task_id), link_of(api, added.task_id)


def link_of(api: Api, task_id: TaskId, *, number: int = 1) -> str:
    return f"/api/v1{spell_link(api.services.node.callback_key, AttemptKey(DEFAULT_TENANT, task_id, number))}"


async def read(api: Api, task_id: str) -> Any:
    async with api.client() as http:
        return (await http.get(f"/tasks/{task_id}")).json()


def problem(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def test_whoever_has_the_link_finishes_the_attempt(api: Api, nobody: httpx2.AsyncClient) -> None:
    task_id, link = await deferred(api)
    body = {"data": {"sent": True}, "message": "done"}
    for _ in range(2):  # the second one after an answer that got lost
        answer = await nobody.post(f"{link}:complete", json=body)
        assert answer.status_code == 200, answer.text
        task = answer.json()
        assert task == {"id": task_id, "status": "SUCCESS", "attempt": 1, "deadline": None}
    assert (await read(api, task_id))["result"] == {"code": 0, "message": "done", "data": {"sent": True}}
    assert problem(await nobody.post(f"{link}:complete", json={"data": 1})) == (409, "stale_attempt")
    assert problem(await nobody.post(f"{link}:fail")) == (409, "stale_attempt")


async def test_a_body_may_be_left_out(api: Api, nobody: httpx2.AsyncClient) -> None:
    task_id, done = await deferred(api)
    assert (await nobody.post(f"{done}:complete")).status_code == 200
    assert (await read(api, task_id))["result"]["data"] is None
    task_id, failed = await deferred(api)
    assert (await nobody.post(f"{failed}:fail")).status_code == 200
    assert (await read(api, task_id))["error"] | {"message": ""} == {
        "code": "failed",
        "message": "",
        "detail": "",
        "retryable": True,
    }


async def test_a_failure_carries_what_the_retry_policy_needs(api: Api, nobody: httpx2.AsyncClient) -> None:
    task_id, link = await deferred(api)
    body = {"code": "http_503", "message": "busy", "retry_after_seconds": 90}
    assert (await nobody.post(f"{link}:fail", json=body)).json()["status"] == "RETRYING"
    task = await read(api, task_id)
    assert (task["status"], task["error"]["code"], task["retry_count"]) == ("RETRYING", "http_503", 1)
    task_id, other = await deferred(api)
    await nobody.post(f"{other}:fail", json={"code": "no_such_customer", "retryable": False})
    final = await read(api, task_id)
    assert (final["status"], final["error"]["retryable"]) == ("FAILED", False)


async def test_heartbeats_and_progress_are_heard(api: Api, nobody: httpx2.AsyncClient) -> None:
    task_id, link = await deferred(api)
    for body in (None, {"lease_seconds": 30}):
        heard = (await nobody.post(f"{link}:heartbeat", json=body)).json()
        assert (heard["status"], set(heard)) == ("PROCESSING", {"id", "status", "attempt", "deadline"})
        assert heard["deadline"] is not None
    noted = await nobody.post(f"{link}:progress", json={"fraction": 0.5, "message": "half"})
    assert set(noted.json()) == {"id", "status", "attempt", "deadline"}
    async with api.client() as http:
        lines = (await http.get(f"/tasks/{task_id}/logs")).json()["items"]
        why = (await http.get(f"/tasks/{task_id}/explain")).json()
    assert [line["message"] for line in lines if line["detail"]] == ["half"]
    assert why["reason"] == "callback"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("complete", {"result": 1}, "result"),
    ("complete", {"data": "x" * 70_000}, "data"),
    ("complete", {"message": "x" * 2001}, "message"),
    ("fail", {"code": "x" * 201}, "code"),
    ("fail", {"retry_after_seconds": -1}, "retry_after_seconds"),
    ("fail", {"retryable": "no"}, "retryable"),
    ("heartbeat", {"lease_seconds": 1.9}, "lease_seconds"),
    ("heartbeat", {"lease_seconds": 86_401}, "lease_seconds"),
    ("progress", {}, "fraction"),
    ("progress", {"fraction": 1.5}, "fraction"),
    ("progress", {"fraction": 1, "message": "x" * 2001}, "message"),
]


@pytest.mark.parametrize(("verb", "body", "field"), WRONG)
async def test_a_wrong_body_is_refused_by_its_field_and_changes_nothing(
    api: Api, nobody: httpx2.AsyncClient, verb: str, body: dict[str, Any], field: str
) -> None:
    _, link = await deferred(api)
    answer = await nobody.post(f"{link}:{verb}", json=body)
    assert problem(answer) == (422, "invalid_request")
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert (await nobody.post(f"{link}:complete")).status_code == 200


async def test_a_body_has_its_bound(api: Api, nobody: httpx2.AsyncClient) -> None:
    _, link = await deferred(api)
    answer = await nobody.post(f"{link}:complete", content=b"x" * 300_000, headers={"Content-Type": "application/json"})
    assert problem(answer) == (413, "body_too_large")


async def test_a_forged_link_is_nobodys(api: Api, nobody: httpx2.AsyncClient) -> None:
    task_id, link = await deferred(api)
    other_id, other = await deferred(api)
    proof, path = link.rpartition(".")[2], link.rpartition(".")[0]
    turned = proof[:-2] + ("A" if proof[-2] != "A" else "B") + proof[-1]
    forged = [
        f"{path}.{turned}",
        f"{path}.{'A' * 43}",
        path,
        link.replace(task_id, other_id),
        link.replace("/attempts/1.", "/attempts/2."),
        link.replace(".default.", ".stranger."),
        f"/api/v1/tasks/{task_id}/attempts/1",
    ]
    for wrong in forged:
        for verb in ("complete", "fail", "heartbeat", "progress"):
            answer = await nobody.post(f"{wrong}:{verb}", json={})
            assert problem(answer) == (401, "unauthenticated"), wrong
    assert (await nobody.post(f"{other}:complete")).status_code == 200
    assert (await nobody.post(f"{link}:complete")).status_code == 200


async def test_whoever_spoils_a_link_is_told_what_is_wrong_with_it(api: Api, nobody: httpx2.AsyncClient) -> None:
    _, link = await deferred(api)
    spoilt = f"{link[:-1]}{'A' if link[-1] != 'A' else 'B'}"
    for path, told in ((f"{spoilt}:complete", "the signature of this link does not fit"), (link, "append :complete")):
        answer = await nobody.post(path)
        assert problem(answer) == (401, "unauthenticated")
        assert told in answer.json()["detail"]


async def test_a_link_opens_nothing_else(api: Api, nobody: httpx2.AsyncClient) -> None:
    task_id, link = await deferred(api)
    assert (await nobody.post(f"{link}:cancel")).status_code == 404
    assert (await nobody.get(f"{link}:complete")).status_code == 405
    assert (await nobody.get(link)).status_code == 401
    assert (await nobody.get(f"/api/v1/tasks/{task_id}")).status_code == 401


async def test_the_link_of_an_attempt_that_was_never_granted_is_stale(api: Api, nobody: httpx2.AsyncClient) -> None:
    task_id, _ = await deferred(api)
    ahead = link_of(api, TaskId(int(task_id)), number=2)
    assert problem(await nobody.post(f"{ahead}:complete")) == (409, "stale_attempt")


async def test_an_operator_may_finish_an_attempt_a_viewer_may_not(api: Api) -> None:
    task_id, link = await deferred(api)
    async with api.client(access.Role.VIEWER) as viewer:
        assert problem(await viewer.post(f"/tasks/{task_id}/attempts/1:complete")) == (403, "permission_denied")
        assert problem(await viewer.post(f"{link.removeprefix('/api/v1')}:complete")) == (403, "permission_denied")
    async with api.client(tenant_id=STRANGER) as stranger:
        assert problem(await stranger.post(f"/tasks/{task_id}/attempts/1:complete")) == (404, "task_not_found")
    async with api.client(access.Role.OPERATOR) as operator:
        assert (await operator.post(f"/tasks/{task_id}/attempts/nine:complete")).status_code == 422
        assert (await operator.post(f"/tasks/{task_id}/attempts/1:complete")).json()["status"] == "SUCCESS"
    [entry, *_] = await api.services.node.store.audit.list_page(DEFAULT_TENANT)
    assert (entry.action, entry.object) == ("task.complete", task_id)


async def test_no_log_has_the_proof(api: Api, nobody: httpx2.AsyncClient) -> None:
    _, link = await deferred(api)
    wrong = f"{link[:-1]}{'A' if link[-1] != 'A' else 'B'}"
    with capture_logs() as lines:
        assert (await nobody.post(f"{wrong}:complete")).status_code == 401
    [denied] = [line for line in lines if line["event"] == "api.denied"]
    assert denied["path"].endswith("/attempts/1:complete")
    assert wrong.rpartition(".")[2] not in str(lines)


@pytest.mark.parametrize(
    "tail", ["", ":Complete", "/", ":complete/", "/complete", ":complete:complete", ":", ".:", "\n"]
)
async def test_no_log_has_the_proof_of_a_good_link_that_is_misspelt(
    api: Api, nobody: httpx2.AsyncClient, tail: str
) -> None:
    _, link = await deferred(api)
    with capture_logs() as lines:
        assert (await nobody.post(f"{link}{quote(tail)}")).status_code == 401
    [denied] = [line for line in lines if line["event"] == "api.denied"]
    assert "/attempts/1" in denied["path"]
    assert link.rpartition(".")[2] not in str(lines)


async def test_forgers_and_those_with_a_link_have_their_rate() -> None:
    async with an_api(api={"rate": 1}) as api, api.nobody() as nobody:
        _, link = await deferred(api)
        forged = [(await nobody.post(f"{link[:-3]}AAA:heartbeat")).status_code for _ in range(6)]
        assert (forged[0], forged[-1]) == (401, 429)
        heard = [(await nobody.post(f"{link}:heartbeat")).status_code for _ in range(6)]
        assert (heard[0], heard[-1]) == (200, 429)


async def test_its_public_name_is_answered_to() -> None:
    async with an_api(api={"public_url": "https://rota.example.com/base/"}) as api, api.nobody() as nobody:
        _, link = await deferred(api)
        answer = await nobody.post(f"{link}:complete", headers={"Host": "rota.example.com"})
        assert answer.status_code == 200


async def test_a_worker_gives_its_attempts_the_public_address(tmp_path: Path) -> None:
    for public, expected in (
        (None, "http://127.0.0.1:"),
        ("https://rota.example.com/base/", "https://rota.example.com/base/api/v1/tasks/7/"),
    ):
        sections: dict[str, Any] = {"api": {"public_url": public}} if public else {}
        async with an_api(Role.WORKER, **sections) as api:
            assert api.built.roles.worker is not None
            link = api.built.roles.worker._presence.ports.link(AttemptKey(DEFAULT_TENANT, TaskId(7), 1))
        assert link.startswith(expected)
        assert "/api/v1/tasks/7/attempts/1.default." in link
