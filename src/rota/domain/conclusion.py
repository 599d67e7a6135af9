"""What follows from an attempt's outcome: success, another try, or the end."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from rota.domain.attempt import Cancelled, Failed, Outcome, Snoozed, Succeeded, TaskError, TimedOut
from rota.domain.checks import MAX_DURATION, tidy_text
from rota.domain.retry import RetryPolicy
from rota.domain.task import TaskState, Transition

MAX_MESSAGE = 2000  # characters
MAX_DETAIL = 64 * 1024  # characters: a long traceback
SHORTEST_SNOOZE = timedelta(milliseconds=100)  # a task that snoozes for nothing must not spin


def conclude(state: TaskState, outcome: Outcome, *, policy: RetryPolicy, at: datetime, chance: float) -> Transition:
    """The transition that an outcome causes; `chance` in [0, 1) spreads the pause before a retry."""
    match outcome:
        case Succeeded(result):
            return state.succeeded(replace(result, message=tidy_text(result.message, longest=MAX_MESSAGE)), at=at)
        case Snoozed(delay):
            return state.released("snoozed", at=at, due_at=at + max(_within_reason(delay), SHORTEST_SNOOZE))
        case Cancelled(message):
            return state.cancelled(tidy_text(message, longest=MAX_MESSAGE), at=at)
        case Failed(error, retry_after):
            error = _tidy_error(error)
            if not error.retryable or not policy.allows(state.retry_count):
                return state.failed(error, at=at)
            if retry_after is None:
                retry_after = policy.delay_before(state.retry_count + 1, chance=chance)
            return state.retried(error, at=at, due_at=at + _within_reason(retry_after))
        case TimedOut(message):
            error = TaskError("timeout", tidy_text(message, longest=MAX_MESSAGE))
            if not policy.allows(state.retry_count):
                return state.timed_out(error, at=at)
            return state.retried(error, at=at, due_at=at + policy.delay_before(state.retry_count + 1, chance=chance))
        case _:
            assert_never(outcome)


def _within_reason(pause: timedelta) -> timedelta:
    # What an executor asks for comes from outside (a Retry-After of the year 9999, or of yesterday).
    return min(max(pause, timedelta(0)), MAX_DURATION)


def _tidy_error(error: TaskError) -> TaskError:
    # One unholdable character in one traceback must not keep a whole batch of results out of the store.
    return replace(
        error,
        code=tidy_text(error.code, longest=200),
        message=tidy_text(error.message, longest=MAX_MESSAGE),
        detail=tidy_text(error.detail, longest=MAX_DETAIL),
    )
