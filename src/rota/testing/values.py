"""Domain values in tests: some are dataclasses, those that every task needs are structs of msgspec."""

import dataclasses
from typing import Any, TypeVar

import msgspec

V = TypeVar("V")


def replace(value: V, **changes: Any) -> V:
    """The value with some of its fields changed, whichever kind it is."""
    change: Any = msgspec.structs.replace if isinstance(value, msgspec.Struct) else dataclasses.replace
    changed: V = change(value, **changes)
    return changed
