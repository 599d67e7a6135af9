"""What follows from an attempt's outcome: success, another try, or the end."""

from datetime import datetime, timedelta
from typing import assert_never

from msgspec.structs import replace

from rota.domain.attempt import Cancelled, Deferred, Failed, Outcome, Snoozed, Succeeded, TaskError, TimedOut
from rota.domain.checks import MAX_DURATION, MAX_RESULT_BYTES, check_json
from rota.domain.errors import InvalidError
from rota.domain.retry import RetryPolicy
from rota.domain.task import FAILED, PROCESSING, RETRYING, SUCCESS, TIMEOUT, Task, TaskState, Transition

TOTAL_TIMEOUT = "total_timeout"  # the code of the error
SHORTEST_SNOOZE = timedelta(milliseconds=100)  # a task that snoozes for nothing must not spin


def conclude(state: TaskState, outcome: Outcome, *, policy: RetryPolicy, at: datetime, chance: float) -> Transition:
    """The transition that an outcome causes; `chance` in [0, 1) spreads the pause before a retry."""
    match outcome:
        case Succeeded(result):
            problem = None if result.data is None else _find_problem(result.data)
            return state.succeeded(result, at=at) if problem is None else state.failed(problem, at=at)
        case Snoozed(delay):
            return state.released("snoozed", at=at, due_at=at + max(_within_reason(delay), SHORTEST_SNOOZE))
        case Deferred():
            return state.deferred(at=at)
        case Cancelled(message):
            return state.cancelled(message, at=at)
        case Failed(error, retry_after):
            is_wanted = policy.wants(error.code, is_retryable=error.retryable)
            if not is_wanted or not policy.allows(state.retry_count):
                return state.failed(error, at=at)
            if retry_after is None:
                retry_after = policy.delay_before(state.retry_count + 1, chance=chance)
            return state.retried(error, at=at, due_at=at + _within_reason(retry_after))
        case TimedOut(message):
            error = TaskError("timeout", message)
            if not policy.wants(error.code, is_retryable=True) or not policy.allows(state.retry_count):
                return state.timed_out(error, at=at)
            return state.retried(error, at=at, due_at=at + policy.delay_before(state.retry_count + 1, chance=chance))
        case _:
            assert_never(outcome)


def is_outcome_of(task: Task, outcome: Succeeded | Failed) -> bool:
    """Whether the task stands as this outcome of its last attempt has left it, whatever followed from it then."""
    status = task.state.status
    if isinstance(outcome, Succeeded):
        problem = None if outcome.result.data is None else _find_problem(outcome.result.data)
        if problem is not None:
            return status is FAILED and task.error == problem.tidied()
        return status is SUCCESS and task.result == outcome.result.tidied()
    cause, end_by = outcome.error.tidied(), task.spec.end_by
    if status is TIMEOUT and end_by is not None:
        return task.error == _too_late(cause, f"{cause.code}: {cause.message}", end_by=end_by).tidied()
    return status in (RETRYING, FAILED) and task.error == cause


def bounded(step: Transition, end_by: datetime | None) -> Transition:
    """The same step, unless the time for all attempts together is over before the next one could start.

    A deferred attempt is not to last longer than that time either.
    """
    after = step.after
    if end_by is None or after.due_at <= end_by or after.status.is_final:
        return step
    if after.status is PROCESSING:
        return replace(step, after=replace(after, due_at=end_by))
    cause = step.error
    why = step.message if cause is None else f"{cause.code}: {cause.message}"
    return step.before.timed_out(_too_late(cause, why, end_by=end_by), at=step.at)


def _too_late(cause: TaskError | None, why: str, *, end_by: datetime) -> TaskError:
    message = (
        f"its total timeout ended at {end_by.isoformat()}, before another attempt could start; the last one: {why}"
    )
    return TaskError(TOTAL_TIMEOUT, message, cause.detail if cause is not None else "", retryable=False)


def _within_reason(pause: timedelta) -> timedelta:
    # What an executor asks for comes from outside (a Retry-After of the year 9999, or of yesterday).
    return min(max(pause, timedelta(0)), MAX_DURATION)


def _find_problem(data: object) -> TaskError | None:
    # The work is done and would come out the same: to run it again helps nobody, to lose the result in silence neither.
    size = len(data.encode("utf-8", "surrogatepass")) if isinstance(data, str) else 0
    if size > MAX_RESULT_BYTES:
        problem = f"is {size} bytes of JSON, at most {MAX_RESULT_BYTES} are allowed"
        return TaskError("result_too_large", f"the task ran, but its result {problem}", retryable=False)
    try:
        check_json("result", data, most_bytes=MAX_RESULT_BYTES)
    except InvalidError as exc:
        return TaskError("bad_result", f"the task ran, but its result {exc.problem}", retryable=False)
    return None
