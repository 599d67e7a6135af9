"""Values of a request that are taken from the task: `{payload.customer.id}`.

A text that is one placeholder becomes the value itself, a number or a list too; one with more around it becomes text.
`{{` and `}}` are braces. The first name is one of `ROOTS`; what follows are keys, and the places of lists.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from rota.application.ports.executor import Job
from rota.domain.errors import InvalidError

ROOTS = ("task_id", "attempt", "type", "payload", "metadata", "deadline", "callback_url")
BRANCHES = ("payload", "metadata")  # the others have nothing below them
_PIECE = re.compile(r"(?P<open>\{\{)|(?P<close>\}\})|\{(?P<path>[^{}]*)\}|(?P<text>[^{}]+)|(?P<stray>.)", re.DOTALL)

Values = Mapping[str, Any]
Template = Callable[[Values], Any]


class MissingValueError(Exception):
    """The task does not have what a placeholder asks for."""


def compile_template(field: str, value: Any) -> Template:
    """A function that makes the value from a task's own; `InvalidError` when a placeholder cannot be understood."""
    if isinstance(value, str):
        return _compile_text(field, value)
    if isinstance(value, Mapping):
        parts = {key: compile_template(f"{field}.{key}", item) for key, item in value.items()}
        return lambda values: {key: part(values) for key, part in parts.items()}
    if isinstance(value, list):
        items = [compile_template(f"{field}[{place}]", item) for place, item in enumerate(value)]
        return lambda values: [item(values) for item in items]
    return lambda _: value


def values_of(job: Job) -> Values:
    """What placeholders can stand for."""
    spec = job.task.spec
    return {
        "task_id": str(spec.id),
        "attempt": job.attempt.number,
        "type": spec.type,
        "payload": json.loads(spec.payload),
        "metadata": dict(spec.metadata),
        "deadline": job.task.attempt_until.isoformat().replace("+00:00", "Z"),
        "callback_url": job.callback,
    }


def to_text(value: Any) -> str:
    """A value inside a text, a query or a header."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _compile_text(field: str, text: str) -> Template:
    parts: list[str | tuple[str, ...]] = []
    for piece in _PIECE.finditer(text):
        if piece["stray"]:
            raise InvalidError(field, "has a brace without its partner; write {{ or }} for a brace itself")
        if piece["path"] is not None:
            parts.append(_read_path(field, piece["path"]))
        else:
            parts.append(piece["text"] or piece[0][0])
    if len(parts) == 1 and isinstance(parts[0], tuple):
        path = parts[0]
        return lambda values: _find(values, path)
    if all(isinstance(part, str) for part in parts):
        plain = "".join(part for part in parts if isinstance(part, str))
        return lambda _: plain
    return lambda values: "".join(part if isinstance(part, str) else to_text(_find(values, part)) for part in parts)


def _read_path(field: str, text: str) -> tuple[str, ...]:
    path = tuple(text.strip().split("."))
    is_deep = len(path) > 1
    if path[0] not in ROOTS or not all(path) or (is_deep and path[0] not in BRANCHES):
        raise InvalidError(field, f"{{{text[:80]}}} must begin with one of {', '.join(ROOTS)}, as {{payload.id}} does")
    return path


def _find(values: Values, path: tuple[str, ...]) -> Any:
    found: Any = values
    for name in path:
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif (
            isinstance(found, list) and name.isascii() and name.isdigit() and len(name) < 10 and int(name) < len(found)
        ):
            found = found[int(name)]
        else:
            raise MissingValueError(f"the task has no {'.'.join(path)}")
    return found
