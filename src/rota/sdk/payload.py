"""A task's payload becomes the arguments of its function.

The keys of the JSON object are the names of the arguments, and their annotations say what the values become: numbers,
times, enums, dataclasses, msgspec structs. What does not fit is refused with the name of the argument.
"""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rota.domain.errors import InvalidError
from rota.sdk.context import Context

CONTEXT_NAME = "ctx"
_AS_IT_IS = frozenset({str, int, float, bool})  # a value of these types is what it is to become


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function takes, read once from its signature."""

    types: Mapping[str, Any]
    required: frozenset[str]
    context_name: str | None
    extra_type: Any  # of **kwargs; None: there is none

    def bind(self, payload: str, context: Context | None) -> dict[str, Any]:
        """The keyword arguments for this payload. Raises `InvalidError` whose field is the argument."""
        values = _parse(payload)
        bound = {name: self._convert(name, value) for name, value in values.items()}
        for name in self.required:
            if name not in bound:
                raise InvalidError(name, "is missing in the payload")
        if self.context_name is not None:
            bound[self.context_name] = context
        return bound

    def _convert(self, name: str, value: Any) -> Any:
        wanted = self.types.get(name, self.extra_type)
        if wanted is None or name == self.context_name:
            known = ", ".join(self.types) or "none"
            raise InvalidError(name, f"is not one that the function takes; it takes: {known}")
        if wanted is Any or (type(value) is wanted and wanted in _AS_IT_IS):
            return value
        try:
            return msgspec.convert(value, wanted, str_keys=True)
        except (msgspec.ValidationError, TypeError) as exc:  # TypeError: a type that msgspec cannot make
            raise InvalidError(name, str(exc)) from exc


def read_arguments(function: Callable[..., Any]) -> Arguments:
    """Read a signature. Raises `InvalidError` for one that no payload could ever fit."""
    signature = inspect.signature(function)
    hints = _read_hints(function)
    types: dict[str, Any] = {}
    required = set()
    context_name, extra_type = None, None
    for name, parameter in signature.parameters.items():
        wanted = hints.get(name, Any)
        if parameter.kind is parameter.VAR_KEYWORD:
            extra_type = wanted
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            raise InvalidError(name, "is positional-only; a payload is passed by name")
        elif parameter.kind is parameter.VAR_POSITIONAL:
            continue
        elif wanted is Context or (name == CONTEXT_NAME and wanted is Any):
            context_name = name
        else:
            types[name] = type(None) if wanted is None else wanted
            if parameter.default is parameter.empty:
                required.add(name)
    return Arguments(types, frozenset(required), context_name, extra_type)


def _read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, TypeError) as exc:
        raise InvalidError("annotations", f"cannot be read: {exc}; import what they name at run time") from exc


def _parse(payload: str) -> dict[str, Any]:
    if payload == "{}":
        return {}
    try:
        values = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as exc:
        raise InvalidError("payload", f"is not JSON: {exc}") from exc
    if not isinstance(values, dict):
        raise InvalidError("payload", f"must be a JSON object, not {type(values).__name__}: its keys are the arguments")
    return values
