"""What can be said of a task when it is submitted, embedded or over HTTP."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict

from rota.domain.retry import RetryPolicy
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
