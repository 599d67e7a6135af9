"""What the clients send, and what they make of the answers."""

import inspect
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import msgspec
import pytest

from rota.client import asynchronous, blocking
from rota.domain.errors import InvalidError, NotFoundError, UnavailableError
from rota.domain.retry import RetryPolicy
from tests.unit.client.dial import TASK, Dial, problem, task

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)


def body_of(request: httpx2.Request) -> Any:
    return msgspec.json.decode(request.content)


def test_both_clients_have_the_same_methods() -> None:
    for name, kind in inspect.getmembers(blocking, inspect.isclass):
        if kind.__module__ == blocking.__name__:
            twin = getattr(asynchronous, f"Async{name}")
            own, other = (
                {
                    method: [*inspect.signature(made).parameters]
                    for method, made in inspect.getmembers(some, inspect.isfunction)
                    if not method.startswith("_")
                }
                for some in (kind, twin)
            )
            assert own == other, name


def test_a_submission_has_all_its_options(dial: Dial) -> None:
    options: dict[str, Any] = {
        "name": "greeting",
        "priority": "high",
        "metadata": {"order": "7"},
        "delay": "5m",
        "timeout": 90,
        "retry": RetryPolicy(
            max_retries=1, delay=timedelta(seconds=2), retry_on=("5xx",), total_timeout=timedelta(hours=1)
        ),
    }
    dial.ask(lambda client: client.submit("email", [1], **options), task())
    sent = body_of(dial.sent[0])
    assert dial.sent[0].headers["authorization"] == "Bearer rota_x"
    assert (sent["priority"], sent["delay_seconds"], sent["timeout_seconds"]) == ("high", 300, 90)
    assert (sent["retry"]["max_retries"], sent["retry"]["delay_seconds"]) == (1, 2)
    assert (sent["retry"]["retry_on"], sent["retry"]["give_up_on"]) == (["5xx"], [])
    assert sent["retry"]["total_timeout_seconds"] == 3600
    assert (sent["payload"], sent["metadata"]) == ([1], {"order": "7"})


def test_a_task_is_the_view_that_embedded_programs_get(dial: Dial) -> None:
    done = task(
        status="SUCCESS",
        completed_at="2030-06-01T12:00:01Z",
        result={"code": 0, "message": "", "data": {"sent": True}},
        error={"code": "ValueError", "message": "m", "detail": "d", "retryable": True},
        a_field_of_a_later_release=1,
    )
    found = dial.ask(lambda client: client.tasks.get("7"), done)
    assert found.timeout == timedelta(minutes=1)
    assert found.result.data == {"sent": True}
    assert (found.error.code, found.created_at) == ("ValueError", NOON)


def test_many_are_submitted_in_batches_and_the_progress_is_told(dial: Dial) -> None:
    told: list[tuple[int, int]] = []

    def accept(request: httpx2.Request) -> httpx2.Response:
        tasks = body_of(request)["tasks"]
        return httpx2.Response(201, json={"ids": [wish["payload"]["n"] for wish in tasks]})

    payloads = [{"n": str(number)} for number in range(2500)]
    handles = dial.ask(
        lambda client: client.submit_many("email", payloads, progress=lambda *counts: told.append(counts)),
        *[accept] * 3,
    )
    assert [handle.id for handle in handles] == [payload["n"] for payload in payloads]
    assert told == [(1000, 2500), (2000, 2500), (2500, 2500)]
    keys = [wish["idempotency_key"] for request in dial.sent for wish in body_of(request)["tasks"]]
    assert len(set(keys)) == 2500


def test_large_payloads_make_smaller_batches(dial: Dial) -> None:
    sizes: list[int] = []

    def accept(request: httpx2.Request) -> httpx2.Response:
        sizes.append(len(request.content))
        return httpx2.Response(201, json={"ids": ["1"] * len(body_of(request)["tasks"])})

    handles = dial.ask(lambda client: client.submit_many("email", ["x" * 200_000] * 100), *[accept] * 3)
    assert len(handles) == 100
    assert len(sizes) == 3
    assert max(sizes) < 9_000_000


def test_nothing_to_submit_asks_nothing(dial: Dial) -> None:
    assert dial.ask(lambda client: client.submit_many("email", [])) == []


def test_a_list_is_read_page_by_page(dial: Dial) -> None:
    first = httpx2.Response(200, json={"items": [TASK, TASK], "next_cursor": "abc"})
    last = httpx2.Response(200, json={"items": [{**TASK, "id": "1"}], "next_cursor": None})
    found = dial.ask(
        lambda client: client.tasks.list(
            status=["failed", "TIMEOUT"],
            type="email",
            priority=5,
            worker="9",
            q="ada",
            created_after=NOON,
            created_before=NOON,
            metadata={"order": "7"},
            page_size=2,
        ),
        first,
        last,
    )
    assert [one.id for one in found] == ["7", "7", "1"]
    query = dial.sent[1].url.params.multi_items()
    assert ("cursor", "abc") in query
    assert [value for key, value in query if key == "status"] == ["FAILED", "TIMEOUT"]
    assert {"limit", "type", "priority", "worker", "q", "created_after", "created_before", "metadata.order"} <= {
        key for key, _ in query
    }


def test_a_cursor_that_does_not_move_ends_the_list(dial: Dial) -> None:
    page = httpx2.Response(200, json={"items": [TASK], "next_cursor": "abc"})
    assert len(dial.ask(lambda client: client.tasks.list(), page, page)) == 2


def test_waiting_asks_until_the_task_has_ended(dial: Dial) -> None:
    def later(_request: httpx2.Request) -> httpx2.Response:
        dial.clock.passed += 30
        return task()

    found = dial.ask(lambda client: client.tasks.wait("7", "70s"), later, later, task(status="FAILED"))
    assert found.status == "FAILED"
    assert [request.url.params["wait"] for request in dial.sent] == ["30.000", "30.000", "10.000"]


def test_waiting_has_an_end(dial: Dial) -> None:
    def later(_request: httpx2.Request) -> httpx2.Response:
        dial.clock.passed += 10
        return task()

    with pytest.raises(TimeoutError, match="task 7 is still PENDING after 0:00:10"):
        dial.ask(lambda client: client.tasks.wait("7", 10), later)


def test_names_in_paths_are_escaped(dial: Dial) -> None:
    dial.ask(lambda client: client.tasks.get("../tokens?x=1"), task())
    assert dial.sent[0].url.raw_path == b"/api/v1/tasks/..%2Ftokens%3Fx%3D1"


def test_a_bulk_action_goes_on_until_it_is_over(dial: Dial) -> None:
    some = {"matched": 10, "changed": 9, "skipped": 1}
    told: list[int] = []
    total = dial.ask(
        lambda client: client.tasks.cancel_all(
            type="email", reason="wrong", progress=lambda count: told.append(count.changed)
        ),
        httpx2.Response(200, json={**some, "has_more": True, "next_cursor": "abc"}),
        httpx2.Response(200, json={**some, "has_more": False}),
    )
    assert (total.matched, total.changed, total.skipped, told) == (20, 18, 2, [9, 18])
    assert body_of(dial.sent[0]) == {"type": ["email"], "reason": "wrong"}
    assert body_of(dial.sent[1]) == {"type": ["email"], "reason": "wrong", "cursor": "abc"}


def test_tasks_of_a_level_are_moved_to_another(dial: Dial) -> None:
    done = {"matched": 1, "changed": 1, "skipped": 0, "has_more": False}
    dial.ask(lambda client: client.tasks.reprioritise_all("high", priority=0), httpx2.Response(200, json=done))
    assert body_of(dial.sent[0]) == {"priority": [0], "new_priority": "high"}


def test_an_action_without_an_answer_reads_none(dial: Dial) -> None:
    assert dial.ask(lambda client: client.configs.delete("email"), httpx2.Response(204)) is None
    assert dial.sent[0].method == "DELETE"


def events(*texts: str) -> httpx2.Response:
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text="".join(texts))


def line(seq: int, message: str = "hello") -> str:
    entry = {
        "seq": str(seq),
        "kind": "INFO",
        "at": "2030-06-01T12:00:00Z",
        "from_status": None,
        "to_status": None,
        "attempt": 1,
        "worker_id": None,
        "message": message,
        "detail": "",
    }
    return f"id: {seq}\nevent: log\ndata: {msgspec.json.encode(entry).decode()}\n\n"


END = "event: end\ndata: {}\n\n"


def test_a_stream_goes_on_after_a_break_where_it_was(dial: Dial) -> None:
    found = dial.ask(
        lambda client: client.tasks.follow("7"),
        events(": hello\n\n", line(1), line(2)),
        httpx2.ConnectError("refused"),
        problem(503, "unavailable"),
        events(line(3), END),
    )
    assert [entry.seq for entry in found] == ["1", "2", "3"]
    assert [request.headers.get("last-event-id") for request in dial.sent] == [None, "2", "2", "2"]
    assert dial.clock.pauses == [0.1, 0.2, 0.4]


def test_a_stream_that_ends_at_once_again_and_again_is_not_hammered(dial: Dial) -> None:
    assert dial.ask(lambda client: client.tasks.follow("7"), *[events()] * 10, events(END)) == []
    assert dial.clock.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5, 5]


def test_a_stream_that_is_refused_is_not_asked_for_again(dial: Dial) -> None:
    with pytest.raises(NotFoundError):
        dial.ask(lambda client: client.tasks.follow("7"), problem(404, "task_not_found"))


def test_a_stream_gives_up_after_a_minute_without_a_connection(dial: Dial) -> None:
    with pytest.raises(UnavailableError, match="the stream broke off: refused"):
        dial.ask(lambda client: client.events(), *[httpx2.ConnectError("refused")] * 100)
    assert 60 <= sum(dial.clock.pauses) <= 70


def test_events_that_were_missed_are_told(dial: Dial) -> None:
    told: list[str] = []
    found = dial.ask(
        lambda client: client.events("3", types=["email"], kinds=["task.failed"], on_missed=lambda: told.append("!")),
        events('id: 9\nevent: missed\ndata: {"id": "9"}\n\n', END),
    )
    assert (found, told) == ([], ["!"])
    assert dial.sent[0].headers["last-event-id"] == "3"
    assert dict(dial.sent[0].url.params) == {"type": "email", "kind": "task.failed"}


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.submit("email", prioritty=9),
        lambda client: client.submit_many("email", [1], prioritty=9),
        lambda client: client.tasks.list(prioritty=9),
        lambda client: client.tasks.cancel_all(prioritty=9),
        lambda client: client.tasks.retry_all(prioritty=9),
        lambda client: client.tasks.reprioritise_all(5, prioritty=9),
    ],
)
def test_an_option_that_nobody_knows_is_refused_before_anything_is_sent(dial: Dial, ask: Any) -> None:
    with pytest.raises(TypeError, match=r"'prioritty' is not known; did you mean priority\?"):
        dial.ask(ask, task())
    assert not dial.sent


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "is NaN"),
        (float("inf"), "is infinite or too large"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(dial: Dial, value: Any, problem: str) -> None:
    with pytest.raises(InvalidError, match=problem) as one:
        dial.ask(lambda client: client.submit("email", {"to": [None, value]}), task())
    with pytest.raises(InvalidError, match=problem) as many:
        dial.ask(lambda client: client.submit_many("email", [{}, {"to": value}]), task())
    assert (one.value.field, many.value.field) == ("payload.to[1]", "tasks[1].payload.to")
    assert not dial.sent
