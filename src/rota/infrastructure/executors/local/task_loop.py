"""Coroutine functions run on a loop of their own, in a thread of their own: whatever they do, the control loop goes on.

A coroutine that blocks stops its neighbours. It is named in the log when the loop has not answered for a second. When
it is given up on while it still blocks, the loop is lost with everything on it; the next coroutine gets a new one.

A coroutine that does not end when it is cancelled is cancelled again shortly before it is given up, and once more
then. If it runs on all the same, only the end of its loop stops it; too many such are a reason to start the process
anew. What is left when its loop ends stays suspended, and is kept for ever: closed, it might go on without end in the
middle of whatever let go of it, be it the end of the interpreter.

A coroutine can also end the loop: it stops it, or starts another that exits. Then all that ran there have failed, and
the next coroutine gets a new one as well.
"""

import asyncio
import contextlib
import ctypes
import math
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

import structlog
from msgspec import Struct

from rota.application.ports.executor import End, Job, Reports
from rota.domain.attempt import Failed, Outcome, TaskError
from rota.infrastructure.event_loop import new_event_loop
from rota.infrastructure.executors.local.channel import ChannelSetup, Said, ThreadChannel, deliver
from rota.infrastructure.executors.local.facts import facts_of
from rota.infrastructure.executors.local.mailbox import Mailbox
from rota.infrastructure.executors.local.waiting import join_all
from rota.sdk.async_handler import run_async
from rota.sdk.context import Context
from rota.sdk.handler import Handler

BLOCKED_AFTER_S = 1.0
LOOK_EVERY_S = 0.5
JOIN_S = 2.0
MAX_LOST = 8  # loops that still block; each keeps a thread, perhaps for ever
STUBBORN_AFTER_S = BLOCKED_AFTER_S + LOOK_EVERY_S  # since it was told to end: by then a loop that blocks is known to
MAX_STUBBORN = 100  # coroutines that do not end; each may do its work beside the attempt that followed it

log = structlog.get_logger(__name__)


class AsyncJob(Struct, eq=False):
    """One coroutine, as both loops see it."""

    handler: Handler
    job: Job
    reports: Reports
    loop: "TaskLoop"
    end: End
    stop: "Callable[[AsyncJob], None]"  # begins to end it, on the control loop
    is_stopped: bool = False  # it was told to end
    is_over: bool = False  # nobody listens to it any more
    is_begun: bool = False  # on the task loop
    told_at: float = math.inf  # when the task loop first cancelled it
    task: "asyncio.Task[None] | None" = None  # of the task loop
    channel: ThreadChannel | None = None  # made on the task loop, for functions that want a context
    answer: "asyncio.Future[Outcome | None] | None" = None  # of the control loop, for whoever stops it

    @property
    def is_discarded(self) -> bool:
        """Whether a neighbour cancelled it before its first step: then it never has a chance to say so."""
        return self.task is not None and self.task.done() and not self.is_begun

    def cancel(self, msg: Any | None = None) -> None:  # fixed signature: Begun
        """Ask it to end. A coroutine can be ended in one way only, so a hard stop is none."""
        if not self.is_stopped and not self.is_over:
            self.stop(self)


Ended = tuple[AsyncJob, Outcome | None]


class TaskLoop:
    """One thread with one loop. Made and used on the control loop."""

    def __init__(self, setup: ChannelSetup) -> None:
        self._setup = setup
        self._clock = setup.clock
        self._control = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop = new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="rota-task-loop", daemon=True)
        self._inbox: Mailbox[AsyncJob] = Mailbox(self._loop, self._take)
        self.outbox: Mailbox[Said | Ended] = Mailbox(self._control, self._deliver)
        self._running: set[AsyncJob] = set()  # the control loop's view
        self._given_up: set[AsyncJob] = set()  # until they end after all
        self._asked_at: float | None = None
        self._is_watching = False
        self._is_reported = False
        self._is_closing = False
        self._is_over = False  # said by the thread: what comes now would never run
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it takes jobs."""
        return not self._is_over

    @property
    def is_blocked(self) -> bool:
        """Whether it has not answered for a while."""
        return self._asked_at is not None and self._control.time() - self._asked_at > BLOCKED_AFTER_S

    @property
    def is_idle(self) -> bool:
        return not self._running

    def submit(self, job: AsyncJob) -> None:
        self._running.add(job)
        self._inbox.post(job)
        if not self._is_watching:
            self._is_watching = True
            self._control.call_later(LOOK_EVERY_S, self._look)

    def stop(self, job: AsyncJob) -> "asyncio.Future[Outcome | None]":
        """Ask a coroutine to end, by cancelling it. The answer is what it ends with; None: it was stopped."""
        job.is_stopped = True
        job.answer = self._control.create_future()
        if job.channel is not None:
            job.channel.is_stopped = True
        self._inbox.post(job)
        return job.answer

    def remind(self, job: AsyncJob) -> None:
        """Cancel it again: something in it may have swallowed the first time."""
        self._inbox.post(job)

    def give_up(self, job: AsyncJob) -> None:
        """Whatever it still does, nobody waits for it."""
        _silence(job)
        self._running.discard(job)
        self._given_up.add(job)
        self.remind(job)

    def count_stubborn(self) -> int:
        """Those that were given up and run on, though nothing keeps them from ending."""
        since = self._clock.monotonic() - STUBBORN_AFTER_S
        return 0 if self.is_blocked else sum(job.told_at <= since for job in self._given_up)

    def close(self) -> None:
        """End every coroutine and the thread, as soon as nothing blocks it."""
        self._is_closing = True
        with contextlib.suppress(RuntimeError):  # it is gone already
            self._loop.call_soon_threadsafe(self._loop.stop)

    def join(self, seconds: float) -> bool:
        """Wait for its end; whether it is gone."""
        self._thread.join(max(seconds, 0.0))
        return not self._thread.is_alive()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            with contextlib.suppress(SystemExit, KeyboardInterrupt):  # of a coroutine that a handler has started
                self._loop.run_forever()
            self._is_over = True
            with contextlib.suppress(SystemExit, KeyboardInterrupt, RuntimeError):  # it may try once more to end us
                self._wind_down()
        finally:
            self._is_over = True
            asyncio.set_event_loop(None)
            for task in asyncio.all_tasks(self._loop):
                _keep_for_ever(task)
            self._loop.close()
            with contextlib.suppress(RuntimeError):  # the control loop is gone first: nobody waits
                self._control.call_soon_threadsafe(self._bury)

    def _wind_down(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=JOIN_S / 2))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def _bury(self) -> None:
        """On the control loop, when the thread has ended: nobody must wait for what ran there."""
        self.outbox.flush()  # what ended before that has ended
        if not self._is_closing:
            log.error("task_loop.died", unanswered=len(self._running))
        for job in list(self._running):
            self._deliver((job, None if job.is_stopped else _ended_with_its_loop()))
        self._given_up.clear()

    def _take(self, job: AsyncJob) -> None:
        """On the task loop: begin a job, or cancel it whenever it comes again."""
        if not job.is_stopped:
            job.task = self._loop.create_task(self._run(job))
            return
        job.told_at = min(job.told_at, self._clock.monotonic())
        if not job.is_begun:  # then nobody else says so
            self.outbox.post((job, None))
        if job.task is not None:
            job.task.cancel()

    async def _run(self, job: AsyncJob) -> None:
        job.is_begun = True
        outcome: Outcome | None
        try:
            context = self._make_context(job) if job.handler.wants_context else None
            outcome = await run_async(job.handler, job.job.task.spec.payload, context=context)
        except (asyncio.CancelledError, GeneratorExit):
            failure = _ended_with_its_loop if self._is_over else _cancelled_by_itself
            outcome = None if job.is_stopped else failure()
        self.outbox.post((job, outcome))

    def _make_context(self, job: AsyncJob) -> Context:
        job.channel = channel = ThreadChannel(self.outbox, job.reports, setup=self._setup)
        channel.is_stopped = job.is_stopped  # it may have been told while the channel was made
        if job.is_over:
            channel.close()
        return Context(facts_of(job.job), channel)

    def _deliver(self, item: Said | Ended) -> None:
        if len(item) != 2:
            deliver(item)
            return
        job, outcome = item
        self._running.discard(job)
        if job.is_over:
            self._given_up.discard(job)
            return
        _silence(job)
        if job.answer is None:
            job.end(outcome, None)
        elif not job.answer.done():
            job.answer.set_result(outcome)

    def _look(self) -> None:
        """Every half second while something runs: has the loop answered?"""
        self._is_watching = bool(self._running) and not self._loop.is_closed()
        if not self._is_watching:
            return
        for job in [job for job in self._running if job.is_discarded]:
            self._deliver((job, None))
        if self.is_blocked:
            self._report()
        elif self._asked_at is None:
            self._asked_at = self._control.time()
            with contextlib.suppress(RuntimeError):  # it has closed just now
                self._loop.call_soon_threadsafe(self._control.call_soon_threadsafe, self._answered)
        self._control.call_later(LOOK_EVERY_S, self._look)

    def _answered(self) -> None:
        self._asked_at = None
        self._is_reported = False

    def _report(self) -> None:
        if self._is_reported:
            return
        self._is_reported = True
        frame = sys._current_frames().get(self._thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        log.warning("task_loop.blocked", type=_find_type(frame), running=len(self._running), stack=stack)


def _find_type(frame: FrameType | None) -> str:
    """The type of the task whose coroutine is on the stack."""
    while frame is not None:
        if frame.f_code is TaskLoop._run.__code__:
            job = frame.f_locals["job"]
            return str(job.job.task.spec.type)
        frame = frame.f_back
    return ""


def _keep_for_ever(task: "asyncio.Task[Any]") -> None:
    """No list would do: the interpreter empties all of them when it ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


def _silence(job: AsyncJob) -> None:
    job.is_over = True
    if job.channel is not None:
        job.channel.close()


def _cancelled_by_itself() -> Failed:
    return Failed(TaskError("CancelledError", "the task was cancelled from within"))


def _ended_with_its_loop() -> Failed:
    return Failed(TaskError("task_loop_died", "a coroutine of this worker ended the loop that all of them run on"))


class TaskLoops:
    """The current task loop, and those that were lost to something that blocks."""

    def __init__(self, setup: ChannelSetup) -> None:
        self._setup = setup
        self._current: TaskLoop | None = None
        self._lost: list[TaskLoop] = []

    @property
    def is_worn(self) -> bool:
        """Whether so many loops block, or so many coroutines do not end, that only a new process gets rid of them."""
        stubborn = sum(loop.count_stubborn() for loop in self._list())
        return stubborn >= MAX_STUBBORN or sum(loop.is_blocked for loop in self._lost) >= MAX_LOST

    def current(self) -> TaskLoop:
        if self._current is not None and not self._current.is_alive:
            self._put_aside(self._current)
        if self._current is None:
            self._current = TaskLoop(self._setup)
        return self._current

    def lose(self, loop: TaskLoop) -> None:
        """It blocks, and what blocks it was given up on: let the others have a fresh one."""
        if loop is self._current:
            self._put_aside(loop)
            log.error("task_loop.lost", lost=len(self._lost))

    async def close(self) -> None:
        loops = self._list()
        for loop in loops:
            loop.close()
        left = await join_all(loops, within_s=JOIN_S)
        if left:
            log.error("task_loop.left_behind", threads=left)
        self._current, self._lost = None, []

    def _list(self) -> list[TaskLoop]:
        return [*self._lost, *([self._current] if self._current is not None else [])]

    def _put_aside(self, loop: TaskLoop) -> None:
        """Nothing new runs there. Those put aside before that have come back, and have nothing left, may go."""
        for left in self._lost:
            if left.is_idle and not left.is_blocked:
                left.close()
        self._lost = [left for left in self._lost if not left.join(0)]
        self._lost.append(loop)
        self._current = None
