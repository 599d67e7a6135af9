"""What `docs/guides/writing-tasks.md` says about its tasks is so."""

from typing import Any

import pytest

import rota
from examples.writing_tasks import charge, crawl, poll, resize, ship
from rota.domain.retry import RetryPolicy
from rota.testing import run


def end_of(task_type: str, payload: dict[str, Any], **options: Any) -> rota.TaskView:
    async def scenario(app: rota.Rota) -> rota.TaskView:
        return await (await app.submit(task_type, payload, **options)).wait("1d")

    return run(scenario, [ship, resize, poll, charge, crawl])


def test_a_payload_becomes_typed_arguments_and_the_return_value_the_result() -> None:
    address = {"street": "1 Main St", "city": "Turin"}
    task = end_of("guide.ship", {"to": address, "due": "2026-02-01T12:00:00Z", "colour": "blue"})
    assert task.result is not None
    assert task.result.data == {"city": "Turin", "colour": "blue", "year": "2026"}
    assert (task.priority, task.max_retries, task.timeout.total_seconds()) == (5, 5, 60)


def test_what_does_not_fit_is_refused_with_the_name_of_the_argument() -> None:
    task = end_of("guide.ship", {"to": {"street": "x"}, "due": "2026-02-01T12:00:00Z"})
    assert task.error is not None
    assert (task.status, task.error.code, task.attempt) == ("FAILED", "bad_payload", 1)
    assert "to" in task.error.message


PLAIN: list[tuple[str, dict[str, Any]]] = [
    ("guide.resize", {"width": 10}),
    ("guide.poll", {"times": 3}),
    ("guide.crawl", {"url": "https://example.com"}),
]


def test_plain_functions_and_threads_return_their_results() -> None:
    assert [end_of(name, payload).status for name, payload in PLAIN] == ["SUCCESS"] * 3


@pytest.mark.parametrize(
    ("state", "status", "code", "attempt", "retries"),
    [
        ("fine", "SUCCESS", None, 1, 0),
        ("no such card", "FAILED", "failed", 1, 0),
        ("busy", "SUCCESS", None, 2, 1),
        ("closed", "SUCCESS", None, 2, 0),
        ("broken", "FAILED", "ConnectionError", 4, 3),
    ],
)
def test_a_task_says_how_to_go_on(state: str, status: str, code: str | None, *, attempt: int, retries: int) -> None:
    task = end_of("guide.charge", {"card": "4711", "state": state})
    assert (task.status, task.error and task.error.code) == (status, code)
    assert (task.attempt, task.retry_count) == (attempt, retries)


def test_an_option_of_the_submission_goes_before_that_of_the_decorator() -> None:
    once = RetryPolicy(max_retries=1)
    task = end_of("guide.charge", {"card": "1", "state": "broken"}, retry=once, priority="urgent")
    assert (task.attempt, task.priority) == (2, 9)
