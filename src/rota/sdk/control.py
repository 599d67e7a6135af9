"""What a task may raise to say how it wants to go on. Any other exception is a failure by the task's retry policy."""

from datetime import timedelta

from rota.domain.durations import parse_duration

Duration = str | int | float | timedelta


class Retry(Exception):  # noqa: N818 - reads as a sentence: raise rota.Retry(after="30s")
    """Try again, after this pause in place of the policy's. A retry is spent."""

    def __init__(self, message: str = "the task asked to be tried again", *, after: Duration | None = None) -> None:
        super().__init__(message)
        self.after = None if after is None else parse_duration("after", after)


class Fail(Exception):  # noqa: N818 - reads as a sentence: raise rota.Fail("no such customer")
    """The end: the task has failed, and trying again would not help."""

    def __init__(self, message: str = "the task gave up") -> None:
        super().__init__(message)


class Snooze(Exception):  # noqa: N818 - reads as a sentence: raise rota.Snooze("5m")
    """Not now: run it again after this pause. No retry is spent."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = parse_duration("delay", delay)


class Defer(Exception):  # noqa: N818 - reads as a sentence: raise rota.Defer()
    """The work goes on elsewhere: the attempt stays open, without a worker, until `ctx.callback` says how it ended."""

    def __init__(self, message: str = "the task is finished later, by a callback") -> None:
        super().__init__(message)


class StopError(BaseException):
    """The attempt must end now. It is raised inside the running function, so that its `finally` blocks run.

    Not an `Exception`: a function that catches those must not swallow it.
    """
