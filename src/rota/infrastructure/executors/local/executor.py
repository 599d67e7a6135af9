"""Runs tasks as Python functions of this machine.

`async def` runs on a task loop in a thread of its own, `def` in a child process, `def` with `isolation="thread"` in a
thread. In all three the control loop, which keeps the worker's promises, never runs a line of user code.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta
from functools import partial

import structlog

from rota.application import metrics
from rota.application.loop import FatalError
from rota.application.ports.executor import Begun, End, Job, LogLevel, Reports
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.system import Clock
from rota.domain.attempt import Failed, Outcome, TaskError
from rota.domain.errors import InvalidError
from rota.domain.task_config import TaskConfig
from rota.infrastructure.executors.local.channel import ChannelSetup, ThreadChannel
from rota.infrastructure.executors.local.children import Children
from rota.infrastructure.executors.local.facts import facts_of
from rota.infrastructure.executors.local.frames import Run
from rota.infrastructure.executors.local.functions import Functions, Target
from rota.infrastructure.executors.local.settings import LocalSettings
from rota.infrastructure.executors.local.task_loop import AsyncJob, TaskLoops
from rota.infrastructure.executors.local.threads import ThreadJob, Threads
from rota.infrastructure.executors.local.waiting import wait_out
from rota.sdk.app import AppRef
from rota.sdk.results import traceback_of
from rota.sdk.tasks import REGISTRY, TaskRegistry

DEFAULTS = LocalSettings()
REMINDED_AT = 0.9  # of the grace: what takes its time to clean up has nearly all of it

log = structlog.get_logger(__name__)


class LocalExecutor:
    """The executor of type `local`."""

    def __init__(
        self,
        clock: Clock,
        collector: MetricsCollector,
        *,
        app: AppRef | None = None,
        registry: TaskRegistry = REGISTRY,
        settings: LocalSettings = DEFAULTS,
    ) -> None:
        self._collector = collector
        self._app = app
        self._settings = settings
        modules = settings.modules if app is None else (app.module, *settings.modules)
        self._functions = Functions(registry, modules)
        self._children = Children(app, settings)
        self._channels = ChannelSetup(clock, collector, settings.log_limit)
        self._loops = TaskLoops(self._channels)
        self._stopping: set[asyncio.Task[None]] = set()
        self._threads: Threads | None = None

    async def start(self) -> None:
        """Load the app; where it has plain functions, one process is started for them."""
        if self._app is not None:
            self._app.load()
        self._threads = Threads(self._settings.capacity)
        if self._functions.has_processes():
            self._children.warm_up()

    def supports(self, config: TaskConfig) -> bool:
        return self._functions.supports(config)

    def resize(self, capacity: int) -> None:
        """The worker's capacity has changed."""
        self._children.resize(capacity)
        if self._threads is not None:
            self._threads.slots.resize(capacity)

    def list_pids(self) -> list[int]:
        """The child processes that live now."""
        return self._children.list_pids()

    async def execute(self, job: Job, reports: Reports) -> Outcome:
        target = await self._find(job)
        if isinstance(target, Failed):
            return target
        if target.is_async:
            return await self._run_on_loop(target, job, reports=reports)
        if target.isolation == "thread":
            return await self._run_in_thread(target, job, reports=reports)
        run = Run(function=target.reference, payload=job.task.spec.payload, facts=facts_of(job))
        return await self._children.run(run, reports)

    def begin(self, job: Job, reports: Reports, *, end: End) -> Begun | None:
        """A coroutine function that is known already is handed to its loop at once; all others are not."""
        try:
            target = self._functions.find(job.config)
        except (InvalidError, ValueError):  # `execute` says so
            return None
        if target is None or not target.is_async:
            return None
        return self._begin_on_loop(target, job, reports=reports, end=end)

    async def close(self) -> None:
        await self._children.close()
        await self._loops.close()
        if self._threads is not None:
            await self._threads.close()

    async def _find(self, job: Job) -> Target | Failed:
        try:
            known = self._functions.find(job.config)
            return known if known is not None else await asyncio.to_thread(self._functions.load, job.config)
        except Exception as exc:  # importing is running user code: anything may come out
            return Failed(TaskError("function_not_found", str(exc), traceback_of(exc)))

    def _begin_on_loop(self, target: Target, job: Job, *, reports: Reports, end: End) -> AsyncJob:
        loop = self._loops.current()
        begun = AsyncJob(target.handler, job, reports, loop, end, self._stop)
        loop.submit(begun)
        return begun

    async def _run_on_loop(self, target: Target, job: Job, *, reports: Reports) -> Outcome:
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        begun = self._begin_on_loop(target, job, reports=reports, end=partial(_settle, ended))
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            begun.cancel()
            while not ended.done():  # also when cancelled again; the grace bounds it
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({ended})
            return ended.result()

    def _stop(self, begun: AsyncJob) -> None:
        answer = begun.loop.stop(begun)
        stopping = asyncio.create_task(self._see_off(begun, answer))
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)

    async def _see_off(self, begun: AsyncJob, answer: "asyncio.Future[Outcome | None]") -> None:
        """Wait for the end of a coroutine that was told to, and give it up if it does not come."""
        loop, grace = begun.loop, self._settings.async_grace
        first = grace * REMINDED_AT
        if not await wait_out(answer, first):
            loop.remind(begun)
            await wait_out(answer, grace - first)
        if answer.done():
            begun.end(answer.result(), None)
            return
        loop.give_up(begun)
        if loop.is_blocked:
            self._loops.lose(loop)
        try:
            self._abandon(begun.job, begun.reports, after=grace)
        except FatalError as exc:
            begun.end(None, exc)
        else:
            begun.end(None, None)

    async def _run_in_thread(self, target: Target, job: Job, *, reports: Reports) -> Outcome:
        threads = self._threads
        if threads is None:
            raise RuntimeError("the executor was not started")
        async with threads.slots:
            channel = ThreadChannel(threads.outbox, reports, setup=self._channels)
            answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            ours = ThreadJob(target.handler, job.task.spec.payload, facts_of(job), channel, answer)
            threads.submit(ours)
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                channel.is_stopped = True
                if not await wait_out(answer, self._settings.grace):
                    threads.give_up(ours)
                    self._abandon(job, reports, after=self._settings.grace)
                    raise
                return answer.result()

    def _abandon(self, job: Job, reports: Reports, *, after: timedelta) -> None:
        """It does not end. Its slot is free, so that one bad function does not take the worker with it; many do."""
        task = job.task
        self._collector.add(metrics.ATTEMPTS_ABANDONED, task.spec.type)
        log.error("attempt.abandoned", task_id=task.id, type=task.spec.type, grace_s=after.total_seconds())
        late = f"it did not end within {after.total_seconds():g} s of being told to"
        reports.log(f"{late}; its code was given up, and runs on in this worker", level=LogLevel.ERROR)
        if self._loops.is_worn or (self._threads is not None and self._threads.is_worn):
            raise FatalError("too many functions that were given up on do not end; the last was of " + task.spec.type)


def _settle(  # fixed signature: End
    ended: "asyncio.Future[Outcome]", outcome: Outcome | None, error: BaseException | None
) -> None:
    if error is not None:
        ended.set_exception(error)
    elif outcome is None:
        ended.cancel()
    else:
        ended.set_result(outcome)
