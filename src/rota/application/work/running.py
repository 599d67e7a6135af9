"""Attempts that run: begun, stopped for a reason, and ended into an outcome. And their deadlines.

Each attempt is one task of the event loop at most: no timer, no lock; where its executor can begin it at once, not even
that. When it has ended, the slot is free. Why an attempt was stopped is known here alone: the executor only sees that
it was cancelled. The timeout is a promise to whoever waits: what an attempt returns after it was stopped for that does
not count, though it may clean up.

An executor that raises has failed its attempt, but for `FatalError`: that ends the worker, and costs no task a retry.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any

import structlog

from rota.application import metrics
from rota.application.loop import FatalError
from rota.application.ports.executor import HARD_STOP, Begun, Job, Reports
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.system import Clock
from rota.application.work.hands import Hands, Holding, Stop
from rota.application.work.logs import LogBook
from rota.application.work.nudge import Nudge
from rota.application.work.registry import ExecutorRegistry
from rota.application.work.report import Ended, HandedBack, Reporter
from rota.domain.attempt import Cancelled, Deferred, Failed, Outcome, Snoozed, Succeeded, TaskError, TimedOut

GRAIN = 0.001  # seconds; a deadline nearer than this has come: no wait is exact

UNKNOWN_DELAY = timedelta(seconds=5)  # until a task that cannot run here may be granted again, perhaps elsewhere
UNKNOWN_TYPE = HandedBack("unknown_type", UNKNOWN_DELAY)
RETURNED_TOO_LATE = TimedOut("the attempt returned after its timeout; its result does not count")
EXECUTOR_BROKEN = HandedBack("executor_broken")
CALLBACKS_OFF = Failed(
    TaskError("callbacks_off", "nobody has a link to finish it later: set api.public_url", retryable=False)
)

OUTCOMES = {
    Succeeded: "succeeded",
    Failed: "failed",
    TimedOut: "timed_out",
    Cancelled: "cancelled",
    Snoozed: "snoozed",
    Deferred: "deferred",
    HandedBack: "released",
    type(None): "cancelled",
}

Ending = Outcome | HandedBack
Told = Callable[[Ending | None, BaseException | None], None]  # as `End`, and also of what was not run

log = structlog.get_logger(__name__)


class Deadlines:
    """When running attempts must end. Only the nearest is kept: nearly all end before theirs, and none must be told.

    When it comes, all that run are looked at. That takes less than to stop the one that is late."""

    def __init__(self, hands: Hands, clock: Clock, *, idle: timedelta) -> None:
        self._idle = idle.total_seconds()
        self._hands = hands
        self._clock = clock
        self._nearest = inf
        self.nudge = Nudge()

    def add(self, holding: Holding) -> None:
        if holding.deadline < self._nearest:
            self._nearest = holding.deadline
            self.nudge.give()

    async def wait(self) -> None:
        """Until the nearest one may have come."""
        left = max(self._nearest - self._clock.monotonic(), 0.0)
        await self.nudge.wait(timedelta(seconds=min(left, self._idle)))

    def list_past(self) -> list[Holding]:
        """Those whose deadline has come, and that nobody has stopped yet."""
        now = self._clock.monotonic() + GRAIN
        if now < self._nearest:
            return []
        going = [holding for holding in self._hands.running.values() if holding.stop is None]
        self._nearest = min((holding.deadline for holding in going if holding.deadline > now), default=inf)
        return [holding for holding in going if holding.deadline <= now]


@dataclass(slots=True)
class Running:
    """Begins attempts, stops them, and hands their ends to the reporter."""

    clock: Clock
    collector: MetricsCollector
    hands: Hands
    logs: LogBook
    reporter: Reporter
    deadlines: Deadlines
    completed: int = 0
    broken: FatalError | None = None  # what an executor said that cannot go on

    def begin(self, job: Job, executors: ExecutorRegistry) -> None:
        """Run an attempt. Its end is reported by itself."""
        holding = Holding(job, begun_at=self.clock.monotonic(), logs=self.logs)
        del self.hands.taken[job.attempt]
        if not self.hands.running:
            self.hands.begun.give()
        self.hands.running[job.attempt] = holding
        holding.runner = _start(job, executors, reports=holding, end=partial(self._end, holding))
        self.deadlines.add(holding)

    def stop(self, holding: Holding, reason: Stop, *, is_hard: bool = False) -> None:
        """Ask an attempt to end. The first reason counts, but that a fence silences it."""
        if holding.runner is None:
            return
        if holding.stop is None:
            holding.stop, holding.stopped_at = reason, self.clock.monotonic()
            holding.runner.cancel(HARD_STOP if is_hard else None)
        elif reason is Stop.FENCED:
            holding.stop = reason

    def stop_all(self, reason: Stop) -> None:
        for holding in list(self.hands.running.values()):
            self.stop(holding, reason)

    async def enforce_deadlines(self) -> None:
        """One turn of the loop. Raises `FatalError` when an executor did."""
        await self.deadlines.wait()
        if self.broken is not None:
            raise self.broken
        for holding in self.deadlines.list_past():
            self.stop(holding, Stop.TIMEOUT)

    def _end(  # fixed signature: End
        self, holding: Holding, returned: Ending | None, error: BaseException | None
    ) -> None:
        holding.runner = None
        book = holding.book
        if book is not None:
            book.close()
        self.completed += 1
        self.collector.observe(metrics.ATTEMPT_SECONDS, holding.type, value=self.clock.monotonic() - holding.begun_at)
        if isinstance(error, FatalError):
            self.broken = error
            self.deadlines.nudge.give()
        outcome = _outcome_of(holding, returned, error=error)
        if holding.stop is Stop.FENCED:
            self.collector.add(metrics.ATTEMPTS_ENDED, holding.type, "fenced")
            if book is not None:
                self.logs.discard(book)
            self.hands.drop(holding.attempt)
            return
        self.collector.add(metrics.ATTEMPTS_ENDED, holding.type, OUTCOMES.get(type(outcome), "failed"))
        spec = holding.job.task.spec
        self.reporter.report(Ended(holding.attempt, holding.state, spec.type, outcome, spec.retry, book, spec.end_by))


def _start(job: Job, executors: ExecutorRegistry, *, reports: Reports, end: Told) -> Begun:
    swift = executors.find_swift(job.config)
    try:
        begun = None if swift is None else swift.begin(job, reports, end=end)
    except Exception as exc:  # it must not; but whoever wrote it, it must not stop the intake of others
        return _follow(_fail(exc), end)
    return begun if begun is not None else _follow(_execute(executors, job, reports=reports), end)


def _follow(running: Coroutine[Any, Any, Ending], end: Told) -> "asyncio.Task[Ending]":
    runner = asyncio.create_task(running)
    runner.add_done_callback(partial(_tell_end, end))
    return runner


async def _fail(error: Exception) -> Ending:
    raise error


def _tell_end(end: Told, runner: "asyncio.Task[Ending]") -> None:
    if runner.cancelled():
        end(None, None)
    elif (error := runner.exception()) is not None:  # which must not be left alone
        end(None, error)
    elif not isinstance(outcome := runner.result(), Outcome | HandedBack):
        end(None, TypeError(f"{outcome!r:.100} is no outcome"))
    else:
        end(outcome, None)


async def _execute(executors: ExecutorRegistry, job: Job, *, reports: Reports) -> Ending:
    # Also the search is the attempt's own: a config that makes an executor raise must not stop the intake of others.
    executor = executors.find(job.config)
    if executor is None:
        return UNKNOWN_TYPE
    return await executor.execute(job, reports)


def _outcome_of(holding: Holding, outcome: Ending | None, *, error: BaseException | None) -> Ending | None:
    if type(outcome) is Deferred and not holding.job.callback:
        outcome = CALLBACKS_OFF
    stop = holding.stop
    if outcome is not None and stop is None:
        return outcome
    if stop is Stop.TIMEOUT and isinstance(outcome, Succeeded | Snoozed):
        return RETURNED_TOO_LATE
    if stop is not None:  # how it took being stopped is not why it ended
        return _stopped(stop) if outcome is None or isinstance(outcome, Failed | Cancelled) else outcome
    if isinstance(error, FatalError):
        return EXECUTOR_BROKEN
    text = "it cancelled itself" if error is None else f"{type(error).__name__}: {error}"
    log.warning("worker.executor_failed", task_id=holding.state.id, type=holding.type, exc_info=error)
    return Failed(TaskError("executor_error", f"the executor failed: {text}"))


def _stopped(reason: Stop) -> Ending | None:
    match reason:
        case Stop.TIMEOUT:
            return TimedOut()
        case Stop.DRAIN:
            return HandedBack("drained")
        case Stop.UNHEARD:
            return HandedBack("lease_lost")
        case _:
            return None
