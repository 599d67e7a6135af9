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
from rota.domain.conclusion import SHORTEST_SNOOZE, bounded, conclude
from rota.domain.retry import RetryPolicy
from rota.domain.task import (
    CANCELLED,
    FAILED,
    PENDING,
    PROCESSING,
    RETRYING,
    SUCCESS,
    TIMEOUT,
    TaskState,
    TaskStatus,
    Transition,
)
from tests.support.builders import HOUR, MINUTE, NOW, SECOND, a_running_state, a_spec, a_task, an_error

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


def test_a_deferred_attempt_stays_open_without_a_worker_and_keeps_its_number_and_deadline() -> None:
    step = concluded(Deferred())

    assert step.after.status is PROCESSING
    assert (step.after.worker_id, step.after.attempt, step.after.due_at) == (None, 1, step.before.due_at)
    assert step.message == "waits for a callback"


@pytest.mark.parametrize(
    ("code", "is_retryable", "status"),
    [
        ("http_503", True, RETRYING),
        ("http_503", False, RETRYING),  # the policy knows better than the executor
        ("http_429", True, FAILED),
        ("timeout", True, FAILED),
        ("retry", True, RETRYING),  # the task itself asks for it
    ],
)
def test_only_the_failures_that_the_policy_names_are_tried_again(
    code: str, is_retryable: bool, status: TaskStatus
) -> None:
    policy = RetryPolicy(retry_on=("503",))
    failed = Failed(an_error(code, retryable=is_retryable))

    assert conclude(a_running_state(), failed, policy=policy, at=NOW, chance=0.5).after.status is status


def test_a_timeout_that_the_policy_gives_up_on_is_the_end() -> None:
    policy = RetryPolicy(give_up_on=("timeout",))

    assert conclude(a_running_state(), TimedOut(), policy=policy, at=NOW, chance=0.5).after.status is TIMEOUT


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (Failed(an_error()), "boom: it did not work"),
        (TimedOut(), "timeout: the attempt ran into its timeout"),
        (Failed(an_error(), retry_after=HOUR), "boom: it did not work"),
        (Snoozed(HOUR), "snoozed"),
    ],
)
def test_what_would_go_on_after_its_total_timeout_ends_there_and_says_why(outcome: Outcome, why: str) -> None:
    step = bounded(concluded(outcome), NOW + 5 * SECOND)

    assert step.after.status is TIMEOUT
    assert step.error is not None
    assert (step.error.code, step.error.retryable) == ("total_timeout", False)
    assert step.message.endswith(f"before another attempt could start; the last one: {why}")
    assert step.before == concluded(outcome).before


@pytest.mark.parametrize("outcome", [Failed(an_error()), TimedOut(), Snoozed(5 * SECOND), Succeeded(), Cancelled()])
def test_what_ends_or_goes_on_in_time_is_left_alone(outcome: Outcome) -> None:
    step = concluded(outcome)

    assert bounded(step, NOW + 10 * SECOND) is step
    assert bounded(step, None) is step


def test_a_deferred_attempt_ends_with_the_total_timeout_at_the_latest() -> None:
    step = concluded(Deferred())

    assert bounded(step, NOW + SECOND).after.due_at == NOW + SECOND
    assert bounded(step, NOW + HOUR) is step


def test_the_total_timeout_counts_from_when_the_task_was_to_start() -> None:
    total = RetryPolicy(total_timeout=MINUTE)

    assert a_spec(retry=total).end_by == NOW + MINUTE
    assert a_spec(retry=total, scheduled_at=NOW + HOUR).end_by == NOW + HOUR + MINUTE
    assert a_spec(retry=total, scheduled_at=NOW - HOUR).end_by == NOW + MINUTE
    assert a_spec().end_by is None


def test_an_attempt_ends_with_the_time_for_all_of_them() -> None:
    task = a_task(state=a_running_state())
    assert task.attempt_until == NOW + MINUTE
    for seconds, until in ((30, NOW + 30 * SECOND), (90, NOW + MINUTE)):
        retry = RetryPolicy(total_timeout=timedelta(seconds=seconds))
        assert a_task(state=a_running_state(), retry=retry).attempt_until == until
