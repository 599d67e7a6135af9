"""A worker: takes the attempts that were granted to it, runs them, and reports how they ended.

It is a handful of loops on one event loop, which never runs user code itself. Each does one thing and survives its own
failures; they share what is in hand (`hands.py`) and who this worker is (`standing.py`). In the order in which an
attempt meets them: `beat` (be known), `intake` (take, read the row, begin), `running` (run, deadline), `cancel`,
`logs`, `report` (write the end), `settle` (tell the coordinator). `drain` ends it all in good order, `watchdog` when it
is stuck, `lease` what runs when nobody knows of this worker any more. `deputy` is the one part in another thread: it
says that the worker lives while this event loop is held up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any

import structlog

from rota.application.loop import Loops
from rota.application.work import watchdog
from rota.application.work.beat import Presence
from rota.application.work.cancel import StopCancelled
from rota.application.work.deputy import NOTHING, Deputy, DeputyPlan
from rota.application.work.drain import Departure
from rota.application.work.hands import Hands, Stop
from rota.application.work.intake import Desk, Intake
from rota.application.work.lease import Lease, StopUnheard
from rota.application.work.logs import LogBook, LogBounds
from rota.application.work.nudge import Nudge
from rota.application.work.registry import ExecutorRegistry
from rota.application.work.report import Reporter
from rota.application.work.running import Deadlines, Running
from rota.application.work.settings import WorkerPorts, WorkerSettings
from rota.application.work.settle import Settler
from rota.application.work.standing import Standing
from rota.application.work.watchdog import Watchdog
from rota.domain.ids import WorkerId

CANCEL_EVERY = timedelta(milliseconds=500)
LOOK_AT_ALL_EVERY = timedelta(seconds=10)  # for cancellations whose signal was lost

log = structlog.get_logger(__name__)

Step = Callable[[], Awaitable[object]]


class WorkerService:
    """Put together once, run once. `stop` lets it finish; a second `stop`, or cancelling `run`, ends it at once."""

    def __init__(
        self,
        ports: WorkerPorts,
        settings: WorkerSettings,
        *,
        executors: ExecutorRegistry,
        deputy: DeputyPlan | None = None,  # None: whoever would miss this worker shares its event loop
    ) -> None:
        clock = ports.clock
        freed, pool, registry = Nudge(), Nudge(), Nudge()
        bounds = LogBounds(settings.log_bytes_per_attempt, settings.log_bytes)
        batch = settings.batch_size
        self._executors = executors
        self._standing = standing = Standing(settings, nudges=(pool, registry, freed), on_capacity=executors.resize)
        self._hands = hands = Hands(freed)
        self._settler = settler = Settler(ports, hands)
        self._logs = logs = LogBook(ports, bounds, tell=settler.tell)
        self._reporter = reporter = Reporter(ports, logs=logs, hands=hands, settler=settler, batch_size=batch)
        deadlines = Deadlines(hands, clock, idle=ports.idle)
        self._running = running = Running(clock, ports.collector, hands, logs, reporter, deadlines)
        lease = Lease(clock, lasts=settings.trusted_for)
        self._loops = loops = Loops(clock, ports.random, ports.collector, ports.guard_every)
        self._unheard = StopUnheard(lease, hands, running, loops, (pool, registry))
        desk = Desk(ports, standing, hands, executors, running, reporter, settler, lease)
        self._intake = intake = Intake(ports.coordinator.deliveries, standing, desk, freed, batch)
        self._presence = Presence(
            ports,
            standing,
            hands,
            running,
            intake,
            settler,
            loops=loops,
            lease=lease,
            lasts=settings.lease,
            every=loops.guard(settings.heartbeat_every),
            pool_nudge=pool,
            registry_nudge=registry,
            sign=self._sign,
        )
        self._cancelled = StopCancelled(
            ports.coordinator.signals, ports.store.tasks, hands, running, standing, registry, ports.guard_every
        )
        self._departure = Departure(ports, standing, hands, running, reporter, settler, settings)
        self._watchdog = Watchdog(clock, hands, standing)
        self._deputy = None if deputy is None else Deputy(deputy, loops, settings=settings, lease=lease)
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()

    @property
    def worker_id(self) -> WorkerId | None:
        """The present incarnation; None while it is not registered."""
        return None if self._standing.worker is None else self._standing.worker.id

    @property
    def load(self) -> int:
        """Attempts in hand, from take to acknowledgement."""
        return self._hands.load

    @property
    def completed(self) -> int:
        """Attempts that ended since the start, in whatever way."""
        return self._running.completed

    @property
    def capacity(self) -> int:
        return self._standing.capacity

    @property
    def is_draining(self) -> bool:
        return self._standing.is_draining

    def set_capacity(self, capacity: int) -> None:
        """By its settings it may hold up to this many from now on; what is beyond a smaller one runs to its end."""
        self._standing.set_capacity(capacity)

    def stop(self) -> None:
        """Drain, then end. A second time: end at once."""
        if self._stopping.is_set():
            self._stopped.set()
        self._stopping.set()

    async def run(self) -> None:
        """Work until stopped. Raises `FatalError` when this process must be started anew."""
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._executors.start()
            await self._reporter.restore()
            if self._deputy is not None:
                self._deputy.start()
            tasks = [asyncio.create_task(loop) for loop in self._list_loops()]
            tasks += [asyncio.create_task(self._depart()), asyncio.create_task(self._await_stopped())]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self._end(tasks)

    def _list_loops(self) -> list[Coroutine[Any, Any, None]]:
        loops = self._loops
        steps: list[tuple[str, Step, timedelta | None]] = [
            ("worker.registry", self._presence.beat_registry, None),
            ("worker.heartbeat", self._presence.beat_pool, None),
            ("worker.lease", self._unheard, None),
            ("worker.intake", self._intake, None),
            ("worker.deadlines", self._running.enforce_deadlines, None),
            ("worker.cancel", self._cancelled, CANCEL_EVERY),
            ("worker.compare", self._cancelled.look_at_all, loops.guard(LOOK_AT_ALL_EVERY)),
            ("worker.logs", self._logs, None),
            ("worker.report", self._reporter, None),
            ("worker.settle", self._settler, None),
        ]
        if self._deputy is not None:
            steps.append(("worker.sign", self._make_sign, self._deputy.sign_every))
        watched = [loops.keep(name, self._watchdog.watch(name, step), every=every) for name, step, every in steps]
        return [*watched, loops.keep("worker.watchdog", self._watchdog.look, every=loops.guard(watchdog.LOOK_EVERY))]

    async def _make_sign(self) -> None:
        self._sign()

    def _sign(self) -> None:
        if self._deputy is not None:
            worker_id = self._presence.incarnation
            beat = NOTHING if worker_id is None else self._presence.compose_beat(worker_id)
            self._deputy.note(worker_id, beat)

    async def _depart(self) -> None:
        await self._stopping.wait()
        await self._departure()

    async def _await_stopped(self) -> None:
        await self._stopped.wait()
        log.warning("worker.stopped_at_once", running=len(self._hands.running))

    async def _end(self, tasks: list["asyncio.Task[None]"]) -> None:
        """Whatever the reason: no loop, no attempt and no executor is left behind, and no result that can be kept."""
        if self._deputy is not None:
            self._deputy.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            self._running.stop_all(Stop.DRAIN)
            await self._departure.until(lambda: not self._hands.running, self._departure.settings.ending)
            await self._reporter.save()
        finally:
            await self._executors.close()
