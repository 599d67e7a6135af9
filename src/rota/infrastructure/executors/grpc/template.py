"""The request of a service that knows nothing of Rota, made of a task.

In the JSON of `executor.request`, `{payload.customer.id}` stands for a value of the task; there are `payload`,
`metadata`, `task_id`, `attempt` and `type`. A text that is one placeholder becomes the value itself, one with more
around it becomes text. `{{` and `}}` are braces.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from rota.domain.errors import InvalidError

BRANCHES = ("payload", "metadata")
PLAIN = ("task_id", "attempt", "type")
_PIECE = re.compile(r"(?P<brace>\{\{|\}\})|\{(?P<path>[^{}]*)\}|(?P<text>[^{}]+)|(?P<stray>.)", re.DOTALL)


def check(field: str, pattern: Any) -> None:
    """Refuse a placeholder that stands for nothing."""
    if isinstance(pattern, str):
        for piece in _PIECE.finditer(pattern):
            if piece["stray"] is not None:
                raise InvalidError(field, "has a brace that belongs to no placeholder; write {{ or }} for a plain one")
            if piece["path"] is not None:
                _check_path(field, piece["path"])
    elif isinstance(pattern, dict):
        for key, value in pattern.items():
            check(f"{field}.{key[:100]}", value)
    elif isinstance(pattern, list):
        for place, value in enumerate(pattern):
            check(f"{field}[{place}]", value)


def _check_path(field: str, path: str) -> None:
    head, *rest = path.split(".")
    if (head not in BRANCHES and (head not in PLAIN or rest)) or "" in rest:
        known = ", ".join(f"{{{name}}}" for name in (*BRANCHES, *PLAIN))
        raise InvalidError(field, f"{{{path[:80]}}} stands for nothing; there are {known}")


def fill(pattern: Any, values: Mapping[str, Any]) -> Any:
    """The request; `InvalidError` names what the task does not have."""
    if isinstance(pattern, str):
        pieces = list(_PIECE.finditer(pattern))
        if len(pieces) == 1 and pieces[0]["path"] is not None:
            return _look_up(pieces[0]["path"], values)
        return "".join(_spell(piece, values) for piece in pieces)
    if isinstance(pattern, dict):
        return {key: fill(value, values) for key, value in pattern.items()}
    if isinstance(pattern, list):
        return [fill(value, values) for value in pattern]
    return pattern


def _spell(piece: re.Match[str], values: Mapping[str, Any]) -> str:
    if piece["path"] is None:
        return piece["brace"][0] if piece["brace"] is not None else piece[0]
    found = _look_up(piece["path"], values)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _look_up(path: str, values: Mapping[str, Any]) -> Any:
    found: Any = values
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            raise InvalidError(path[:100], "is not in this task, and the request of its config needs it")
        found = found[part]
    return found
