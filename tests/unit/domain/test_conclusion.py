from datetime import timedelta
from typing import Any

import pytest

from rota.domain.attempt import (
    Cancelled,
    Deferred,
    Failed,
    Outcome,
    Snoozed,
    Succeeded,
    TaskError,
    TaskResult,
    TimedOut,
)
from rota.domain.checks import MAX_DETAIL, MAX_DURATION, MAX_MESSAGE, MAX_RESULT_BYTES
from rota.domain.conclusion import SHORTEST_SNOOZE, conclude
from rota.domain.retry import RetryPolicy
from rota.domain.task import (
    CANCELLED,
    FAILED,
    PENDING,
    RETRYING,
    SUCCESS,
    TIMEOUT,
    TaskState,
    TaskStatus,
    Transition,
)
from tests.support.builders import HOUR, MINUTE, NOW, SECOND, a_running_state, an_error

POLICY = RetryPolicy(max_retries=2, delay=10 * SECOND, jitter=0.5)


def concluded(outcome: Outcome, *, retries_spent: int = 0, chance: float = 0.0) -> Transition:
    state: TaskState = a_running_state(retry_count=retries_spent)
    return conclude(state, outcome, policy=POLICY, at=NOW, chance=chance)


def test_a_success_keeps_its_result() -> None:
    step = concluded(Succeeded(TaskResult(200, "sent", '{"id":7}')))

    assert (step.after.status, step.result) == (SUCCESS, TaskResult(200, "sent", '{"id":7}'))


@pytest.mark.parametrize(
    "data", ["{not json", '"\x00"', '"\ud800"', '"\\u0000"', "NaN", "[" * 9000 + "]" * 9000, {"a": 1}]
)
def test_a_result_that_no_store_can_hold_is_a_failure_that_says_so_and_is_not_repeated(data: Any) -> None:
    step = concluded(Succeeded(TaskResult(data=data)))

    assert (step.after.status, step.result) == (FAILED, None)
    assert step.error is not None
    assert (step.error.code, step.error.retryable) == ("bad_result", False)
    assert step.message.startswith("the task ran, but its result ")


@pytest.mark.parametrize("letter", ["x", "表"])
def test_64_kib_of_result_are_kept_and_one_byte_more_is_a_failure(letter: str) -> None:
    size = len(letter.encode())
    inside = MAX_RESULT_BYTES - 2
    longest = f'"{letter * (inside // size)}{"x" * (inside % size)}"'

    assert concluded(Succeeded(TaskResult(data=longest))).result == TaskResult(data=longest)
    step = concluded(Succeeded(TaskResult(data=f"{longest} ")))

    assert (step.after.status, step.error and step.error.code) == (FAILED, "result_too_large")
    assert step.message == "the task ran, but its result is 65537 bytes of JSON, at most 65536 are allowed"


@pytest.mark.parametrize("outcome", [Failed(an_error()), TimedOut()])
def test_a_failure_with_retries_left_is_tried_again_after_the_pause(outcome: Outcome) -> None:
    step = concluded(outcome, retries_spent=1)

    assert (step.after.status, step.after.retry_count) == (RETRYING, 2)
    assert step.after.due_at == NOW + 20 * SECOND


@pytest.mark.parametrize("outcome", [Failed(an_error()), TimedOut()])
def test_chance_spreads_the_retries_of_tasks_that_failed_together(outcome: Outcome) -> None:
    assert concluded(outcome, chance=0.5).after.due_at == NOW + 7.5 * SECOND


@pytest.mark.parametrize(("outcome", "end"), [(Failed(an_error()), FAILED), (TimedOut(), TIMEOUT)])
def test_without_a_retry_left_a_failure_is_the_end(outcome: Outcome, end: TaskStatus) -> None:
    assert concluded(outcome, retries_spent=2).after.status is end


def test_a_final_error_is_the_end_although_retries_are_left() -> None:
    assert concluded(Failed(an_error(retryable=False))).after.status is FAILED


def test_a_timeout_is_told_apart_from_other_errors() -> None:
    step = concluded(TimedOut("no answer in 60 s"))

    assert step.error is not None
    assert (step.error.code, step.error.message) == ("timeout", "no answer in 60 s")


def test_an_executor_may_name_the_pause_itself() -> None:
    assert concluded(Failed(an_error(), retry_after=MINUTE)).after.due_at == NOW + MINUTE


@pytest.mark.parametrize(
    ("asked", "granted"),
    [(-HOUR, timedelta(0)), (timedelta(0), timedelta(0)), (HOUR, HOUR), (timedelta.max, MAX_DURATION)],
)
def test_a_pause_from_outside_is_kept_within_reason(asked: timedelta, granted: timedelta) -> None:
    assert concluded(Failed(an_error(), retry_after=asked)).after.due_at == NOW + granted
    assert concluded(Snoozed(asked)).after.due_at == NOW + max(granted, SHORTEST_SNOOZE), "and never spins"


def test_a_snoozed_task_waits_again_and_spends_no_retry() -> None:
    step = concluded(Snoozed(HOUR), retries_spent=2)

    assert (step.after.status, step.after.retry_count, step.message) == (PENDING, 2, "snoozed")


def test_a_cancelled_attempt_ends_its_task() -> None:
    step = concluded(Cancelled("by the operator"))

    assert (step.after.status, step.message) == (CANCELLED, "by the operator")


def test_text_that_no_store_can_hold_is_replaced_so_that_the_result_gets_through() -> None:
    step = concluded(Failed(TaskError("os\x00", "bad \ud800 name", detail="trace\x00back")))
    assert step.error == TaskError("os�", "bad � name", detail="trace�back")
    assert concluded(Succeeded(TaskResult(message="\x00"))).message == "�"
    assert concluded(TimedOut("\x00")).message == "�"
    assert concluded(Cancelled("\x00")).message == "�"


def test_an_endless_traceback_is_cut_and_says_so() -> None:
    step = concluded(Failed(TaskError("boom", "m" * (MAX_MESSAGE + 1), detail="d" * MAX_DETAIL * 2)))
    assert step.error is not None
    assert (len(step.error.message), step.error.message[-1]) == (MAX_MESSAGE, "…")
    assert (len(step.error.detail), step.error.detail[-1]) == (MAX_DETAIL, "…")


def test_work_that_is_finished_elsewhere_cannot_be_waited_for_without_callbacks() -> None:
    step = concluded(Deferred())

    assert (step.after.status, step.error and step.error.code) == (FAILED, "callbacks_off")
