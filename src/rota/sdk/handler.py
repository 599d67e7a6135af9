"""A function made ready to run: payload in, outcome out. Whatever the function does, running it does not raise."""

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
    """Runs one function. Only `StopError` passes through: it stops the attempt."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._arguments: Arguments | None = None

    @property
    def wants_context(self) -> bool:
        """Whether the function may take a context; none need be made for one that does not."""
        return self._arguments is None or self._arguments.context_name is not None

    def run(self, payload: str, context: Context) -> Outcome:
        """Run a plain function here and now."""
        bound = self.bind(payload, context)
        if not isinstance(bound, dict):
            return bound
        try:
            value = self.function(**bound)
        except StopError:
            raise
        except BaseException as exc:  # SystemExit too: a task that calls sys.exit has failed, its process goes on
            return outcome_of_exception(exc)
        if inspect.iscoroutine(value):
            value.close()
            return _broken("it returned a coroutine; declare it with async def, below every other decorator")
        return outcome_of_value(value)

    def bind(self, payload: str, context: Context | None) -> dict[str, Any] | Outcome:
        """The keyword arguments for this payload, or why it does not fit."""
        if self._arguments is None:
            try:
                self._arguments = read_arguments(self.function)
            except (InvalidError, ValueError, TypeError) as exc:
                return _broken(str(exc))
        try:
            return self._arguments.bind(payload, context)
        except InvalidError as exc:
            return Failed(TaskError("bad_payload", f"argument {exc}", retryable=False))
        except Exception as exc:  # making an argument may run user code, such as __post_init__
            return outcome_of_exception(exc)


def _broken(problem: str) -> Failed:
    return Failed(TaskError("bad_function", f"the function cannot be run as a task: {problem}"))
