"""One grant of a task to a worker, and how it can end.

The attempt number is the fence: it grows by one with every grant, travels with the work, and a result that carries an
older one is refused.
"""

from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from rota.domain.checks import MAX_DETAIL, MAX_MESSAGE, tidy_text
from rota.domain.ids import TaskId, WorkerId

MAX_CODE = 200  # characters


class Attempt(Struct, frozen=True, gc=False, cache_hash=True):
    """The right of one worker incarnation to run one task once."""

    task_id: TaskId
    number: int
    worker_id: WorkerId


class TaskResult(Struct, frozen=True, gc=False):
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


class TaskError(Struct, frozen=True, gc=False):
    """Why an attempt did not succeed.

    The code is what retry policies match: `http_503`, `grpc_unavailable`, the name of an exception, or a word that says
    what happened, such as `timeout`.
    """

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


class Succeeded(Struct, frozen=True, gc=False):
    result: TaskResult = TaskResult()


class Failed(Struct, frozen=True, gc=False):
    error: TaskError
    retry_after: timedelta | None = None  # the executor's own wish, in place of the policy's pause


class TimedOut(Struct, frozen=True):
    message: str = "the attempt ran into its timeout"


class Cancelled(Struct, frozen=True):
    message: str = "cancelled"


class Snoozed(Struct, frozen=True):
    """Not now: try again later, without spending a retry."""

    delay: timedelta


class Deferred(Struct, frozen=True):
    """It was begun elsewhere, and a callback will say how it ended: the attempt goes on without its worker."""


Outcome = Succeeded | Failed | TimedOut | Cancelled | Snoozed | Deferred
