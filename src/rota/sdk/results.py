"""How a function ended, as an `Outcome`: its return value or its exception."""

import json
import traceback
from typing import Any

import msgspec

from rota.domain.attempt import Deferred, Failed, Outcome, Snoozed, Succeeded, TaskError, TaskResult
from rota.domain.checks import MAX_DETAIL, MAX_MESSAGE, MAX_RESULT_BYTES, tidy_text
from rota.sdk.control import Defer, Fail, Retry, Snooze

_PLAIN = Succeeded()
_STRICT = json.JSONEncoder(allow_nan=False)
_CUT = "\n… cut …\n"


def outcome_of_value(value: Any) -> Outcome:
    """Success with the value as JSON text; a value that JSON cannot hold is an error, not a silent loss."""
    if value is None:
        return _PLAIN
    try:
        data = msgspec.json.encode(value)
        if b"null" in data:  # which is also what becomes of NaN
            _STRICT.encode(msgspec.to_builtins(value, str_keys=True))
    except Exception as exc:  # the value is the user's: anything may come out
        return _refused("bad_result", f"cannot be written as JSON: {exc}")
    if len(data) > MAX_RESULT_BYTES:  # refused here, before megabytes travel
        return _refused("result_too_large", f"is {len(data)} bytes of JSON, at most {MAX_RESULT_BYTES} are allowed")
    return Succeeded(TaskResult(data=data.decode("utf-8")))


def outcome_of_exception(exc: BaseException) -> Outcome:
    """What an exception of user code means."""
    match exc:
        case Snooze():
            return Snoozed(exc.delay)
        case Defer():
            return Deferred()
        case Retry():
            return Failed(TaskError("retry", _text(exc), _detail_of_cause(exc)), exc.after)
        case Fail():
            return Failed(TaskError("failed", _text(exc), _detail_of_cause(exc), retryable=False))
        case _:
            return Failed(TaskError(_name(exc), _text(exc), traceback_of(exc)))


def traceback_of(exc: BaseException) -> str:
    """The traceback within bounds: where it began and where it ended are what one looks for."""
    text = "".join(traceback.format_exception(exc))
    if len(text) > MAX_DETAIL:
        half = (MAX_DETAIL - len(_CUT)) // 2
        text = f"{text[:half]}{_CUT}{text[-half:]}"
    return tidy_text(text, longest=MAX_DETAIL)


def _refused(code: str, problem: str) -> Failed:
    # The work is done and would come out the same: trying again helps nobody.
    return Failed(TaskError(code, f"the task ran, but its result {problem}", retryable=False))


def _detail_of_cause(exc: BaseException) -> str:
    return "" if exc.__cause__ is None and exc.__context__ is None else traceback_of(exc)


def _name(exc: BaseException) -> str:
    kind = type(exc)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text(exc: BaseException) -> str:
    try:
        text = str(exc)
    except Exception as inner:  # user code: an exception whose __str__ raises is still a failure
        text = f"(its text cannot be read: {type(inner).__name__})"
    return tidy_text(text, longest=MAX_MESSAGE)
