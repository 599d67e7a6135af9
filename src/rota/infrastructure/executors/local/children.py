"""The child processes of a worker: started when needed, reused, replaced when worn, stopped for good."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, NoReturn

import structlog

from rota.application.ports.executor import HARD_STOP, Reports
from rota.domain.attempt import Cancelled, Failed, Outcome
from rota.infrastructure.executors.local.frames import Ended, Hello, Run
from rota.infrastructure.executors.local.process import ChildDiedError, ChildProcess
from rota.infrastructure.executors.local.settings import LocalSettings
from rota.infrastructure.executors.local.waiting import Slots, wait_out
from rota.sdk.app import AppRef

KEPT_WARM = 1
REMINDED_AFTER = timedelta(milliseconds=100)  # soon, so that a function which missed its stop has most of the grace

log = structlog.get_logger(__name__)


class Children:
    """A pool of processes, one job each at a time. Lives on the control loop."""

    def __init__(self, app: AppRef | None, settings: LocalSettings) -> None:
        self._app = app
        self._settings = settings
        self._slots = Slots(settings.capacity)
        self._idle: list[ChildProcess] = []  # the last used at the end: it is taken first, the others grow cold
        self._alive: set[ChildProcess] = set()
        self._asides: set[asyncio.Task[None]] = set()
        self._pruning: asyncio.TimerHandle | None = None
        self._warming: asyncio.Task[None] | None = None
        self._is_closed = False
        # A start takes a core for a while. All at once they would all take long, and short jobs need few of them.
        self._starts = asyncio.Semaphore(os.cpu_count() or 1)

    def list_pids(self) -> list[int]:
        return sorted(child.pid for child in self._alive)

    def warm_up(self) -> None:
        """Start one, so that the first task does not wait for it."""
        self._warming = asyncio.create_task(self._warm_up())
        self._keep(self._warming)

    def resize(self, capacity: int) -> None:
        self._slots.resize(capacity)

    async def run(self, job: Run, reports: Reports) -> Outcome:
        async with self._slots:
            try:
                child = await self._obtain()
            except ChildDiedError as exc:
                return Failed(exc.error)
            try:
                ended = await child.run(job, reports)
            except ChildDiedError as exc:
                return Failed(exc.error)
            except asyncio.CancelledError as exc:
                return await self._stop(child, is_hard=HARD_STOP in exc.args)
            self._give_back(child, ended)
            return ended.outcome()

    async def close(self) -> None:
        self._is_closed = True
        if self._pruning is not None:
            self._pruning.cancel()
        for aside in list(self._asides):
            aside.cancel()  # a start stops; an end goes on, and its process is among those below
            await wait_out(aside, self._settings.start_timeout)
        await asyncio.gather(*(child.end(self._settings.grace) for child in list(self._alive)))

    async def _obtain(self) -> ChildProcess:
        warming, self._warming = self._warming, None
        if warming is not None and not self._idle:
            await asyncio.wait({warming})  # it is meant for the first who comes
        if self._idle:
            return self._idle.pop()
        async with self._starts:
            # Meanwhile another may have become free.
            return self._idle.pop() if self._idle else await self._start()

    async def _start(self) -> ChildProcess:
        app = None if self._app is None else self._app.text
        hello = Hello(path=sys.path, app=app, memory_limit=self._settings.memory_limit, parent=os.getpid())
        started_at = asyncio.get_running_loop().time()
        child = await ChildProcess.start(hello, within=self._settings.start_timeout, on_death=self._forget)
        if child.is_alive:  # it may have died right after it was ready; its job will tell
            self._alive.add(child)
        took = asyncio.get_running_loop().time() - started_at
        log.debug("child.started", pid=child.pid, took_s=round(took, 3))
        return child

    async def _warm_up(self) -> None:
        try:
            child = await self._start()
        except ChildDiedError as exc:
            log.warning("child.not_started", error=str(exc), detail=exc.error.detail)
        else:
            self._rest(child)

    async def _stop(self, child: ChildProcess, *, is_hard: bool) -> Outcome:
        """Softly, then hard. The process is not used again: an interrupted function leaves anything behind."""
        if not is_hard:
            await self._stop_softly(child)
        made = child.answer.result() if _has_answer(child) else None
        child.quieten()
        await child.kill()
        outcome = None if made is None else made.outcome()
        if outcome is None or isinstance(outcome, Cancelled):
            _raise_cancelled()
        return outcome

    async def _stop_softly(self, child: ChildProcess) -> None:
        """A signal that comes just before a system call does not interrupt it: a second one does."""
        first = min(REMINDED_AFTER, self._settings.grace)
        child.ask_to_stop()
        if not await wait_out(child.answer, first):
            child.remind_to_stop()
            await wait_out(child.answer, self._settings.grace - first)

    def _give_back(self, child: ChildProcess, ended: Ended) -> None:
        most = self._settings.jobs_per_process
        if ended.is_worn or (most is not None and child.jobs >= most):
            self._aside(child.end(self._settings.grace))
        else:
            self._rest(child)

    def _rest(self, child: ChildProcess) -> None:
        if not child.is_alive:
            return
        loop = asyncio.get_running_loop()
        child.idle_since = loop.time()
        self._idle.append(child)
        if self._pruning is None and len(self._idle) > KEPT_WARM and not self._is_closed:
            self._pruning = loop.call_later(self._settings.idle_after.total_seconds(), self._prune)

    def _prune(self) -> None:
        """End those that nobody needed for a while."""
        self._pruning = None
        loop = asyncio.get_running_loop()
        cold = loop.time() - self._settings.idle_after.total_seconds()
        while len(self._idle) > KEPT_WARM and self._idle[0].idle_since <= cold:
            self._aside(self._idle.pop(0).end(self._settings.grace))
        if len(self._idle) > KEPT_WARM:
            wait = timedelta(seconds=self._idle[0].idle_since - cold)
            self._pruning = loop.call_later(wait.total_seconds(), self._prune)

    def _forget(self, child: ChildProcess) -> None:
        self._alive.discard(child)
        if child in self._idle:
            self._idle.remove(child)

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        self._keep(asyncio.create_task(work))

    def _keep(self, aside: asyncio.Task[None]) -> None:
        self._asides.add(aside)
        aside.add_done_callback(self._asides.discard)


def _has_answer(child: ChildProcess) -> bool:
    return child.answer.done() and not child.answer.cancelled() and child.answer.exception() is None


def _raise_cancelled() -> NoReturn:
    raise asyncio.CancelledError
