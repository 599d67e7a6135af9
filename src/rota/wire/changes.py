"""What differs between two definitions of a type, field by field."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rota.wire.config import TaskConfig

TOLD_ONLY = frozenset(
    {"type", "tenant", "next_fire_at", "revision", "created_at", "updated_at", "updated_by"}
)  # no part of it
WHOLE = frozenset({"payload"})  # shown as it is: its keys mean nothing here
_ABSENT = object()


class Change(msgspec.Struct, frozen=True):
    """One field, and what it was and is; None where it is not given."""

    field: str
    before: Any = None
    after: Any = None


def changes(before: TaskConfig, after: TaskConfig) -> list[Change]:
    """What the second says differently from the first."""
    old, new = dict(_fields(before)), dict(_fields(after))
    names = [*new, *(name for name in old if name not in new)]
    return [
        Change(name, old.get(name), new.get(name)) for name in names if old.get(name, _ABSENT) != new.get(name, _ABSENT)
    ]


def _fields(config: TaskConfig) -> Iterator[tuple[str, Any]]:
    # By way of JSON, in which a payload may be kept unread.
    for name, value in msgspec.json.decode(msgspec.json.encode(config)).items():
        if name in TOLD_ONLY:
            continue
        if isinstance(value, Mapping) and name not in WHOLE:
            yield from ((f"{name}.{key}", part) for key, part in value.items())
        elif value is not None:
            yield name, value
