"""What can be said of a task when it is submitted, embedded or over HTTP."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from rota.domain.retry import RetryPolicy
from rota.domain.spelling import hint
from rota.sdk.control import Duration


class SubmitOptions(TypedDict, total=False):
    """What `submit` takes beside type and payload; what is left out comes from the task config."""

    name: str
    priority: int | str
    metadata: Mapping[str, str]
    scheduled_at: datetime
    delay: Duration
    timeout: Duration
    retry: RetryPolicy
    idempotency_key: str


def check_known(given: Mapping[str, Any], kind: type) -> None:
    """As Python itself refuses an argument that a function does not have."""
    known = [*kind.__annotations__]
    for name in given:
        if name not in known:
            raise TypeError(f"{name!r} is not known; {hint(name, known)}")
