"""What a task config says to the local executor, checked when it is defined: a function, as `module:function`.

Whether the function is there is known by the workers that have the code, not here.
"""

from collections.abc import Mapping
from typing import Any

from rota.domain.errors import InvalidError


def check_config(settings: Mapping[str, Any]) -> None:
    """Raises `InvalidError` for a function that no worker could ever find."""
    read_reference(settings)


def read_reference(settings: object) -> str | None:
    """The `function` of an executor config, well formed; None where the type alone says which one it is."""
    reference = settings.get("function") if isinstance(settings, dict) else None
    if reference is None:
        return None
    parts = reference.split(":") if isinstance(reference, str) else []
    if len(parts) != 2 or not all(name.isidentifier() for part in parts for name in part.split(".")):
        raise InvalidError("executor.function", f"{reference!r} must be written module:function")
    return str(reference)
