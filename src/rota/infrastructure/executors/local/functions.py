"""Which function runs a task: by its type among the decorated ones, or by the `function` its config names.

A config can be changed through the API, and naming a function is naming code. So only functions of the app, and of
packages that the settings list, can be named: `os:system` cannot.
"""

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rota.domain.errors import InvalidError, NotFoundError
from rota.domain.task_config import TaskConfig
from rota.infrastructure.executors.local.reference import read_reference
from rota.sdk.app import load_function
from rota.sdk.handler import Handler
from rota.sdk.tasks import Isolation, TaskFunction, TaskRegistry

MAX_KNOWN = 10_000  # configs that name a function; more are found anew each time


@dataclass(frozen=True, slots=True)
class Target:
    """A function, and how to run it."""

    reference: str
    handler: Handler
    is_async: bool
    isolation: Isolation


class Functions:
    def __init__(self, registry: TaskRegistry, modules: Sequence[str]) -> None:
        self._registry = registry
        self._modules = tuple(modules)
        self._targets: dict[str, Target] = {}
        self._decorated: dict[str, tuple[TaskFunction[..., Any], Target]] = {}  # by type
        self._named: dict[str, str | None] = {}

    def supports(self, config: TaskConfig) -> bool:
        """Whether the function is here; that its module can be imported is seen when it runs."""
        try:
            reference = self._find_reference(config)
        except InvalidError:
            return False
        return reference is not None or self._registry.find(config.type) is not None

    def find(self, config: TaskConfig) -> Target | None:
        """The function if it is known already; None: `load` it."""
        reference = self._find_reference(config)
        if reference is not None:
            return self._targets.get(reference)
        function = self._registry.find(config.type)
        if function is None:
            return None
        known = self._decorated.get(config.type)
        if known is None or known[0] is not function:  # its module may have been loaded anew
            known = self._decorated[config.type] = (function, self._keep(function.reference, function))
        return known[1]

    def load(self, config: TaskConfig) -> Target:
        """Import what the config names; this may take its time. Raises `NotFoundError`, or what the import raises."""
        reference = self._find_reference(config)
        if reference is None:
            raise NotFoundError("function", f"for type {config.type!r}")
        return self._keep(reference, load_function(reference))

    def has_processes(self) -> bool:
        return any(not function.is_async and function.definition.isolation == "process" for function in self._registry)

    def _keep(self, reference: str, function: Callable[..., Any]) -> Target:
        known = self._targets.get(reference)
        if known is not None and known.handler.function is _inner(function):
            return known
        made = _target(reference, function)
        if len(self._targets) < MAX_KNOWN:
            self._targets[reference] = made
        return made

    def _find_reference(self, config: TaskConfig) -> str | None:
        text = config.executor_config
        if text == "{}":
            return None
        if text not in self._named:
            reference = read_reference(json.loads(text))
            if reference is not None:
                self._check(reference)
            if len(self._named) < MAX_KNOWN:
                self._named[text] = reference
            return reference
        return self._named[text]

    def _check(self, reference: str) -> None:
        module = reference.partition(":")[0]
        if not any(module == allowed or module.startswith(f"{allowed}.") for allowed in self._modules):
            allowed = ", ".join(self._modules) or "none"
            raise InvalidError("executor.function", f"{module!r} is not among the modules allowed here: {allowed}")


def _target(reference: str, function: Callable[..., Any]) -> Target:
    made = function if isinstance(function, TaskFunction) else None
    inner = _inner(function)
    is_async = inspect.iscoroutinefunction(inner) if made is None else made.is_async
    return Target(reference, Handler(inner), is_async, "process" if made is None else made.definition.isolation)


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    return function.function if isinstance(function, TaskFunction) else function
