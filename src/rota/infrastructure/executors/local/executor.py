"""Runs tasks as Python functions of this machine.

`async def` runs on a task loop in a thread of its own, `def` in a child process, `def` with `isolation="thread"` in a
thread. In all three the control loop, which keeps the worker's promises, never runs a line of user code.
"""

import asyncio
from datetime import timedelta
from typing import NoReturn

import structlog

from rota.application import metrics
from rota.application.loop import FatalError
from rota.application.ports.executor import Job, Reports
from rota.application.ports.metrics import MetricsCollector
from rota.application.ports.system import Clock
from rota.domain.attempt import Failed, Outcome, TaskError
from rota.domain.task_config import TaskConfig
from rota.infrastructure.executors.local.channel import ThreadChannel
from rota.infrastructure.executors.local.children import Children
from rota.infrastructure.executors.local.frames import Run
from rota.infrastructure.executors.local.functions import Functions, Target
from rota.infrastructure.executors.local.settings import LocalSettings
from rota.infrastructure.executors.local.task_loop import AsyncJob, TaskLoops
from rota.infrastructure.executors.local.threads import ThreadJob, Threads
from rota.infrastructure.executors.local.waiting import wait_out
from rota.sdk.app import AppRef
from rota.sdk.context import Facts
from rota.sdk.results import traceback_of
from rota.sdk.tasks import REGISTRY, TaskRegistry

DEFAULTS = LocalSettings()

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
        self._clock = clock
        self._collector = collector
        self._app = app
        self._settings = settings
        modules = settings.modules if app is None else (app.module, *settings.modules)
        self._functions = Functions(registry, modules)
        self._children = Children(app, settings)
        self._loops = TaskLoops()
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
        run = Run(function=target.reference, payload=job.task.spec.payload, facts=_facts(job))
        return await self._children.run(run, reports)

    async def close(self) -> None:
        await self._children.close()
        self._loops.close()
        if self._threads is not None:
            self._threads.close()

    async def _find(self, job: Job) -> Target | Failed:
        try:
            known = self._functions.find(job.config)
            return known if known is not None else await asyncio.to_thread(self._functions.load, job.config)
        except Exception as exc:  # importing is running user code: anything may come out
            return Failed(TaskError("function_not_found", str(exc), traceback_of(exc)))

    async def _run_on_loop(self, target: Target, job: Job, *, reports: Reports) -> Outcome:
        loop = self._loops.current()
        channel = ThreadChannel(loop.outbox, reports, clock=self._clock)
        answer: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        ours = AsyncJob(target.handler, job.task.spec.payload, _facts(job), channel, answer)
        loop.submit(ours)
        try:
            outcome = await asyncio.shield(answer)
        except asyncio.CancelledError:
            loop.stop(ours)
            if not await wait_out(answer, self._settings.async_grace):
                loop.give_up(ours)
                if loop.is_blocked:
                    self._loops.lose(loop)
                self._abandon(job, after=self._settings.async_grace)
            outcome = answer.result()
        return _stopped() if outcome is None else outcome

    async def _run_in_thread(self, target: Target, job: Job, *, reports: Reports) -> Outcome:
        threads = self._threads
        if threads is None:
            raise RuntimeError("the executor was not started")
        async with threads.slots:
            channel = ThreadChannel(threads.outbox, reports, clock=self._clock)
            answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            ours = ThreadJob(target.handler, job.task.spec.payload, _facts(job), channel, answer)
            threads.submit(ours)
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                channel.is_stopped = True
                if not await wait_out(answer, self._settings.grace):
                    threads.give_up(ours)
                    self._abandon(job, after=self._settings.grace)
                return answer.result()

    def _abandon(self, job: Job, *, after: timedelta) -> NoReturn:
        """It does not end. Its slot is free, so that one bad function does not take the worker with it; many do."""
        task = job.task
        self._collector.add(metrics.ATTEMPTS_ABANDONED, task.spec.type)
        log.error("attempt.abandoned", task_id=task.id, type=task.spec.type, grace_s=after.total_seconds())
        if self._loops.is_worn or (self._threads is not None and self._threads.is_worn):
            raise FatalError("too many functions that were given up on do not end; the last was of " + task.spec.type)
        _stopped()


def _stopped() -> NoReturn:
    raise asyncio.CancelledError


def _facts(job: Job) -> Facts:
    spec = job.task.spec
    return Facts(
        task_id=str(spec.id),
        type=spec.type,
        attempt=job.attempt.number,
        retry_count=job.task.state.retry_count,
        metadata=dict(spec.metadata),
        deadline=job.deadline,
        callback=job.callback,
    )
