"""Services that receive tasks: the examples, each by its framework's own test client, called as Rota calls."""

import importlib.util
import io
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from starlette.testclient import TestClient

import rota
from rota.infrastructure.system import SystemClock
from rota.receive import LATER, MAX_BODY, ReceivedTask, Receiver, RefusedError
from rota.sdk.signing import key_of, sign

EXAMPLES = Path(__file__).parents[2] / "examples" / "http_service"
SECRET, OLD = "whsec_" + "A" * 43 + "=", "whsec_" + "B" * 43 + "="
TASK = {"task_id": "7", "attempt": 2, "type": "email", "payload": {"to": "ada@example.com"}, "metadata": {"a": "b"},
        "deadline": "2026-01-01T12:00:00.000001Z", "callback_url": "https://rota/x", "added_later": 1}  # fmt: skip

Answer = tuple[int, Any]
Call = Callable[[bytes, dict[str, str]], Answer]


def headers_for(body: bytes, *, secret: str = SECRET) -> dict[str, str]:
    now = int(SystemClock().now().timestamp())
    signature = sign([key_of(secret)], "7", timestamp=now, body=body)
    return {
        "Webhook-Id": "7",
        "Webhook-Timestamp": str(now),
        "Webhook-Signature": signature,
        "Content-Type": "application/json",
    }


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_asgi(app: Any) -> Call:
    def call(body: bytes, headers: dict[str, str]) -> Answer:
        answer = TestClient(app).post("/tasks", content=body, headers=headers)
        return answer.status_code, json.loads(answer.content or b"null")

    return call


def by_flask(app: Any) -> Call:
    def call(body: bytes, headers: dict[str, str]) -> Answer:
        answer = app.test_client().post("/tasks", data=body, headers=headers)
        return answer.status_code, json.loads(answer.data or b"null")

    return call


def by_wsgi(app: Any) -> Call:
    def call(body: bytes, headers: dict[str, str]) -> Answer:
        started: list[str] = []
        environ = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        environ |= {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
        content = b"".join(app(environ, lambda status, _: started.append(status)))
        return int(started[0].split()[0]), json.loads(content or b"null")

    return call


@pytest.fixture(
    params=[("with_fastapi", by_asgi), ("with_flask", by_flask), ("plain_asgi", by_asgi), ("plain_wsgi", by_wsgi)],
    ids=lambda param: param[0],
)
def call(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("ROTA_SECRET", SECRET)
    name, by = request.param
    made: Call = by(load(name).app)
    return made


def test_a_task_is_done_and_its_result_answered(call: Call) -> None:
    body = json.dumps(TASK).encode()

    assert call(body, headers_for(body)) == (200, {"sent": True, "to": "ada@example.com", "message_id": "7"})


def test_what_is_final_is_told_as_final(call: Call) -> None:
    body = json.dumps(TASK | {"payload": {"to": "nobody"}}).encode()

    assert call(body, headers_for(body)) == (422, {"error": "nobody is no address"})


def test_what_breaks_is_told_as_a_failure_to_be_tried_again(call: Call) -> None:
    body = json.dumps(TASK | {"payload": {}}).encode()

    assert call(body, headers_for(body)) == (500, {"error": "KeyError: 'to'"})


def test_who_does_not_have_the_secret_is_refused(call: Call) -> None:
    body = json.dumps(TASK).encode()

    assert call(body, headers_for(body, secret=OLD)) == (401, {"error": "no signature fits"})
    assert call(body, {})[0] == 401


def test_what_is_signed_but_no_task_is_refused(call: Call) -> None:
    assert call(b"[]", headers_for(b"[]"))[0] == 400


@pytest.mark.parametrize("name", ["plain_asgi", "plain_wsgi"])
def test_what_is_larger_than_any_task_is_not_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_SECRET", SECRET)
    app = load(name).app
    call = by_asgi(app) if name == "plain_asgi" else by_wsgi(app)

    assert call(b" " * (MAX_BODY + 1), {})[0] == 413


def reply_to(function: Callable[[ReceivedTask], Any], **changes: Any) -> tuple[int, bytes, dict[str, str]]:
    body = json.dumps(TASK | changes).encode()
    reply = Receiver(SECRET).handle(function, headers=headers_for(body), body=body)
    return reply.status, reply.body, dict(reply.headers)


def raising(error: Exception) -> Callable[[ReceivedTask], Any]:
    def function(task: ReceivedTask) -> Any:
        raise error

    return function


def test_work_that_goes_on_is_accepted() -> None:
    assert reply_to(lambda _: LATER)[0] == 202


def test_no_result_is_an_empty_answer() -> None:
    assert reply_to(lambda _: None) == (204, b"", {})


@pytest.mark.parametrize("error", [rota.Retry("busy", after="1500ms"), rota.Snooze("1500ms")])
def test_another_attempt_is_asked_for_with_its_pause(error: Exception) -> None:
    status, _, headers = reply_to(raising(error))

    assert (status, headers["retry-after"]) == (429, "2")
    assert headers.get("rota-snooze") == ("2" if isinstance(error, rota.Snooze) else None)


def test_another_attempt_without_a_pause_leaves_it_to_the_policy() -> None:
    status, _, headers = reply_to(raising(rota.Retry()))

    assert (status, "retry-after" in headers) == (429, False)


def test_a_result_that_is_no_json_is_a_failure() -> None:
    assert reply_to(lambda _: object())[0] == 500


def test_the_task_has_all_that_was_sent() -> None:
    body = json.dumps(TASK).encode()
    task = Receiver([OLD, SECRET]).open(headers_for(body).items(), body)

    assert (task.task_id, task.attempt, task.type, task.metadata) == ("7", 2, "email", {"a": "b"})
    assert task.deadline is not None
    assert task.deadline.microsecond == 1


@pytest.mark.parametrize("length", ["-1", "ten", "1.5", "²"])
def test_a_length_that_is_none_reads_nothing(length: str) -> None:
    statuses: list[str] = []
    app = Receiver(SECRET).wsgi(lambda _: None)
    app({"CONTENT_LENGTH": length}, lambda status, _headers: statuses.append(status))

    assert statuses == ["400 Rota"]


async def test_a_body_in_many_pieces_is_read_in_the_time_of_its_size() -> None:
    left = 200_000

    async def receive() -> dict[str, Any]:
        nonlocal left
        left -= 1
        return {"body": b"x", "more_body": left > 0}

    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def never(task: ReceivedTask) -> None:
        raise AssertionError

    await Receiver(SECRET).asgi(never)({"type": "http", "headers": []}, receive, send)

    assert (sent[0]["status"], left) == (401, 0)


def test_an_old_request_is_refused() -> None:
    body = json.dumps(TASK).encode()
    late = Receiver(SECRET, now=lambda: SystemClock().now() + timedelta(hours=1))

    with pytest.raises(RefusedError) as caught:
        late.open(headers_for(body), body)
    assert caught.value.reply.status == 401


@pytest.mark.parametrize("secrets", [[], "short", ["whsec_"]])
def test_a_receiver_without_a_good_secret_cannot_be_made(secrets: Any) -> None:
    with pytest.raises(ValueError, match="secret"):
        Receiver(secrets)


async def test_an_application_is_for_http_only() -> None:
    async def work(task: ReceivedTask) -> None: ...

    with pytest.raises(ValueError, match="websocket"):
        await Receiver(SECRET).asgi(work)({"type": "websocket"}, None, None)
