"""One grant of a task to a worker, and how it can end.

The attempt number is the fence: it grows by one with every grant, travels with the work, and a result that carries an
older one is refused.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from rota.domain.checks import MAX_DETAIL, MAX_MESSAGE, tidy_text
from rota.domain.ids import TaskId, WorkerId

MAX_CODE = 200  # characters


@dataclass(frozen=True, slots=True)
class Attempt:
    """The right of one worker incarnation to run one task once."""

    task_id: TaskId
    number: int
    worker_id: WorkerId


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a successful task returned."""

    code: int = 0
    message: str = ""
    data: str | None = None  # JSON text

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to tell beyond the success itself."""
        return self.data is None and not self.message and not self.code

    def tidied(self) -> "TaskResult":
        """With a message that every store can hold; what `data` may be is decided by `conclude`."""
        return replace(self, message=tidy_text(self.message, longest=MAX_MESSAGE)) if self.message else self


@dataclass(frozen=True, slots=True)
class TaskError:
    """Why an attempt did not succeed."""

    code: str
    message: str = ""
    detail: str = ""
    retryable: bool = True

    def tidied(self) -> "TaskError":
        """With text that every store can hold: one character must not keep a whole batch out of the store."""
        return replace(
            self,
            code=tidy_text(self.code, longest=MAX_CODE),
            message=tidy_text(self.message, longest=MAX_MESSAGE),
            detail=tidy_text(self.detail, longest=MAX_DETAIL),
        )


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: TaskResult = TaskResult()


@dataclass(frozen=True, slots=True)
class Failed:
    error: TaskError
    retry_after: timedelta | None = None  # the executor's own wish, in place of the policy's pause


@dataclass(frozen=True, slots=True)
class TimedOut:
    message: str = "the attempt ran into its timeout"


@dataclass(frozen=True, slots=True)
class Cancelled:
    message: str = "cancelled"


@dataclass(frozen=True, slots=True)
class Snoozed:
    """Not now: try again later, without spending a retry."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class Deferred:
    """The service has taken the work and will say by a callback how it ended."""


Outcome = Succeeded | Failed | TimedOut | Cancelled | Snoozed | Deferred
