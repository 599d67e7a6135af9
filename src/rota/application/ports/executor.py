"""Executors: how an attempt is run. One per protocol (local function, HTTP, gRPC); other packages add theirs.

A user's failing task is not an error of ours: `execute` answers with an `Outcome`. What it raises is a defect of the
executor itself; the worker then counts the attempt as failed and tries again by the task's retry policy.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from rota.domain.attempt import Attempt, Outcome
from rota.domain.callback import AttemptKey
from rota.domain.task import Task
from rota.domain.task_config import TaskConfig

Link = Callable[[AttemptKey], str]  # from an attempt to the URL that finishes it from outside; empty: there is none


def no_link(_: AttemptKey) -> str:
    """Callbacks are off: nobody outside can reach this cluster."""
    return ""


class Job(Struct, frozen=True, gc=False):
    """One attempt to be run."""

    task: Task
    attempt: Attempt
    config: TaskConfig
    deadline: float  # on this node's monotonic clock; the worker cancels `execute` then
    link: Link = no_link

    @property
    def callback(self) -> str:
        """The URL that finishes it from outside, but for the verb (`:complete`); empty: there is none.

        Made when it is asked for: it is signed, and hardly any attempt needs it."""
        return self.link(AttemptKey(self.task.spec.tenant_id, self.task.id, self.attempt.number))

    def with_callback(self, callback: str) -> "Job":
        """The same with this link, for an executor that asks for it several times, or has none to give."""
        return Job(self.task, self.attempt, self.config, self.deadline, lambda _: callback)


HARD_STOP = "hard stop"  # the message of a cancellation that allows no grace


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Reports(Protocol):
    """What a running attempt may say. Called on the control loop; never blocks, and drops what exceeds its bounds."""

    def log(self, message: str, *, level: LogLevel = LogLevel.INFO, detail: str = "") -> None:
        """A line for the task's log. `detail` is JSON text with the fields, or a traceback."""
        ...

    def progress(self, fraction: float, message: str = "") -> None:
        """How far it got, 0 to 1."""
        ...


class Executor(Protocol):
    """Runs attempts by one protocol. Made once for a worker, used for all its attempts at once."""

    async def start(self) -> None:
        """Get ready: processes, connections. Called once, before the first attempt."""
        ...

    def supports(self, config: TaskConfig) -> bool:
        """Whether this executor could run tasks of this config here. If not, the worker hands the task back."""
        ...

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        """Run one attempt to its end, or to where a callback will end it: then the answer is `Deferred`.

        Cancelling the call asks the attempt to stop: softly, then hard after a short grace; with the message
        `HARD_STOP`, hard at once where that can be done. The call ends only when
        the attempt has truly ended, so that its slot is free. It then either raises `CancelledError` or answers with
        the outcome, should the attempt have made it after all. Which reason (timeout, cancel, drain), and whether such
        an outcome still counts, is the worker's to know.
        """
        ...

    async def close(self) -> None:
        """End everything that `start` began. No attempt runs any more."""
        ...


class Begun(Protocol):
    """An attempt that runs."""

    def cancel(self, msg: Any | None = None) -> object:
        """As cancelling `execute`: ask it to stop. Its end is told when it has truly ended."""
        ...


# Called on the control loop, once: with the outcome; with neither where the attempt was stopped; with what the executor
# would have raised.
End = Callable[[Outcome | None, BaseException | None], None]


@runtime_checkable
class SwiftExecutor(Executor, Protocol):
    """One that can run attempts without a task of the control loop for each: many short ones cost it less."""

    def begin(self, job: Job, reports: Reports, *, end: End) -> Begun | None:
        """Begin an attempt here and now, and tell its end later, never before this returns. Does not raise.

        None: this one is to be run by `execute`."""
        ...
