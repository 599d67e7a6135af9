"""What whoever works on an attempt outside says of it."""

from datetime import datetime
from typing import Any

from rota.domain.task import TaskStatus
from rota.wire.base import Answer, Request


class AttemptState(Answer):
    """All that the link of an attempt shows of its task; `deadline` while it is worked on."""

    id: str
    status: TaskStatus
    attempt: int
    deadline: datetime | None


class CompleteAttempt(Request):
    """It has succeeded."""

    data: Any = None
    message: str = ""


class FailAttempt(Request):
    """It has failed; the retry policy of the task says what follows."""

    code: str = "failed"
    message: str = ""
    retryable: bool = True
    retry_after_seconds: float | None = None  # in place of the policy's pause


class AttemptHeartbeat(Request):
    """It lives: unless it is heard of again within the lease, the attempt ends as timed out."""

    lease_seconds: float = 60.0


class AttemptProgress(Request):
    """How far it got, 0 to 1."""

    fraction: float
    message: str = ""
