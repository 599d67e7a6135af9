"""A function made ready to run: payload in, outcome out. Whatever the function does, running it does not raise."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from rota.domain.attempt import Failed, Outcome, TaskError
from rota.domain.errors import InvalidError
from rota.sdk.context import Context
from rota.sdk.control import StopError
from rota.sdk.payload import Arguments, read_arguments
from rota.sdk.results import outcome_of_exception, outcome_of_value


class Handler:
    """Runs one function. Only what stops an attempt passes through: `StopError`, and `CancelledError` of a loop."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._arguments: Arguments | None = None

    def run(self, payload: str, context: Context) -> Outcome:
        """Run a plain function here and now."""
        bound = self._bind(payload, context)
        if not isinstance(bound, dict):
            return bound
        try:
            value = self._function(**bound)
        except StopError:
            raise
        except BaseException as exc:  # SystemExit too: a task that calls sys.exit has failed, its process goes on
            return outcome_of_exception(exc)
        if inspect.iscoroutine(value):
            value.close()
            return _broken("it returned a coroutine; declare it with async def, below every other decorator")
        return outcome_of_value(value)

    async def run_async(self, payload: str, context: Context) -> Outcome:
        """Run a coroutine function on the running loop."""
        bound = self._bind(payload, context)
        if not isinstance(bound, dict):
            return bound
        try:
            value = await self._function(**bound)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:
            return outcome_of_exception(exc)
        return outcome_of_value(value)

    def _bind(self, payload: str, context: Context) -> dict[str, Any] | Failed:
        if self._arguments is None:
            try:
                self._arguments = read_arguments(self._function)
            except (InvalidError, ValueError, TypeError) as exc:
                return _broken(str(exc))
        try:
            return self._arguments.bind(payload, context)
        except InvalidError as exc:
            return Failed(TaskError("bad_payload", f"argument {exc}", retryable=False))


def _broken(problem: str) -> Failed:
    return Failed(TaskError("bad_function", f"the function cannot be run as a task: {problem}"))
