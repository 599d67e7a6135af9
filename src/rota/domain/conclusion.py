"""What follows from an attempt's outcome: success, another try, or the end."""

from datetime import datetime, timedelta
from typing import assert_never

from rota.domain.attempt import Cancelled, Failed, Outcome, Snoozed, Succeeded, TaskError, TimedOut
from rota.domain.checks import MAX_DURATION
from rota.domain.retry import RetryPolicy
from rota.domain.task import TaskState, Transition


def conclude(state: TaskState, outcome: Outcome, *, policy: RetryPolicy, at: datetime, chance: float) -> Transition:
    """The transition that an outcome causes; `chance` in [0, 1) spreads the pause before a retry."""
    match outcome:
        case Succeeded(result):
            return state.succeeded(result, at=at)
        case Snoozed(delay):
            return state.released("snoozed", at=at, due_at=at + _within_reason(delay))
        case Cancelled(message):
            return state.cancelled(message, at=at)
        case Failed(error, retry_after):
            if not error.retryable or not policy.allows(state.retry_count):
                return state.failed(error, at=at)
            if retry_after is None:
                retry_after = policy.delay_before(state.retry_count + 1, chance=chance)
            return state.retried(error, at=at, due_at=at + _within_reason(retry_after))
        case TimedOut(message):
            error = TaskError("timeout", message)
            if not policy.allows(state.retry_count):
                return state.timed_out(error, at=at)
            return state.retried(error, at=at, due_at=at + policy.delay_before(state.retry_count + 1, chance=chance))
        case _:
            assert_never(outcome)


def _within_reason(pause: timedelta) -> timedelta:
    # What an executor asks for comes from outside (a Retry-After of the year 9999, or of yesterday).
    return min(max(pause, timedelta(0)), MAX_DURATION)
