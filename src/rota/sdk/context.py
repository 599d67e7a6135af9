"""What a running task knows about itself and may say."""

import traceback
from collections.abc import Generator, Mapping
from datetime import timedelta
from typing import Any, Protocol

from msgspec import Struct


class Facts(Struct, frozen=True):
    """What is known of an attempt before it runs."""

    task_id: str
    type: str
    attempt: int
    retry_count: int
    metadata: dict[str, str]
    deadline: float  # on this machine's monotonic clock, which all its processes share
    callback: str = ""


class Channel(Protocol):
    """The way from the running function to its executor. May be used from any thread; never waits for an answer."""

    def log(self, level: str, message: str, *, fields: Mapping[str, Any]) -> None: ...

    def progress(self, fraction: float, message: str) -> None: ...

    def is_cancelled(self) -> bool: ...

    def monotonic(self) -> float: ...


class Done:
    """An awaitable that has happened already: `await` it or leave it, it makes no difference."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class TaskLog:
    """Lines for the task's own log: `ctx.log.info("sending", to=to)`."""

    __slots__ = ("_channel", "_fields")

    def __init__(self, channel: Channel, fields: Mapping[str, Any] | None = None) -> None:
        self._channel = channel
        self._fields = dict(fields or {})

    def bind(self, **fields: Any) -> "TaskLog":
        """The same log, with these fields on every line."""
        return TaskLog(self._channel, self._fields | fields)

    def debug(self, event: str, /, **fields: Any) -> None:
        self._channel.log("debug", event, fields=self._fields | fields)

    def info(self, event: str, /, **fields: Any) -> None:
        self._channel.log("info", event, fields=self._fields | fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self._channel.log("warning", event, fields=self._fields | fields)

    def error(self, event: str, /, **fields: Any) -> None:
        self._channel.log("error", event, fields=self._fields | fields)

    def exception(self, event: str, /, **fields: Any) -> None:
        """An error with the traceback of the exception being handled."""
        self._channel.log("error", event, fields=self._fields | fields | {"exception": traceback.format_exc()})


class Context:
    """Given to a task that asks for it: a parameter named `ctx`, or annotated with `rota.Context`."""

    __slots__ = ("_channel", "_facts", "log")

    def __init__(self, facts: Facts, channel: Channel) -> None:
        self._facts = facts
        self._channel = channel
        self.log = TaskLog(channel)

    @property
    def task_id(self) -> str:
        """The id as everybody outside sees it; the same over all attempts, so it makes a good idempotency key."""
        return self._facts.task_id

    @property
    def type(self) -> str:
        return self._facts.type

    @property
    def attempt(self) -> int:
        """Counts every time the task was handed to a worker, from 1."""
        return self._facts.attempt

    @property
    def retry_count(self) -> int:
        """Counts the retries spent, from 0."""
        return self._facts.retry_count

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._facts.metadata

    @property
    def deadline(self) -> timedelta:
        """The time that is left, never less than nothing."""
        return timedelta(seconds=max(self._facts.deadline - self._channel.monotonic(), 0.0))

    @property
    def callback(self) -> str:
        """The URL by which whoever works on a deferred attempt finishes it: append `:complete` or `:fail` and POST.

        It is as good as a password for this attempt. Empty where nobody outside can reach the API.
        """
        return self._facts.callback

    @property
    def cancelled(self) -> bool:
        """Whether the task was told to stop. A task in a thread must look here: nothing else can stop it."""
        return self._channel.is_cancelled()

    def progress(self, fraction: float, message: str = "") -> Done:
        """Say how far it got, 0 to 1. It is said at once; `await ctx.progress(…)` works in a coroutine as well."""
        self._channel.progress(min(max(float(fraction), 0.0), 1.0), str(message))
        return Done()
