"""What one process does: the base that every node needs, and the roles it plays, from start to a stop in good order.

Stopping: leadership is given up at once, so that another node goes on within a second; the worker finishes what it
runs, the API what it was asked; then the base ends. A role that cannot go on (`FatalError`) ends the process, for its
supervisor to start it anew.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from rota.application.assist import Assistant
from rota.application.attend import ATTEND_EVERY, Attendance
from rota.application.elect import Lead, Leadership
from rota.application.ids import RENEW_EVERY
from rota.application.lead import SchedulerDuties
from rota.application.loop import FatalError
from rota.application.node import Node
from rota.application.plugins import PluginHost, PluginPlan
from rota.application.reign import Reign
from rota.application.seat import Seat
from rota.application.store_time import RESYNC_EVERY
from rota.application.watch import TaskWatch
from rota.application.work.worker import WorkerService

log = structlog.get_logger(__name__)

Part = Coroutine[Any, Any, None]


@dataclass(frozen=True, slots=True)
class SharedDispatch:
    """What a scheduler that dispatches beside the leader has more than one that stands by."""

    seat: Seat
    assistant: Assistant

    async def run(self, leadership: Leadership, duties: Lead) -> None:
        async def lead(reign: Reign) -> None:
            with self.assistant.resting(), self.seat.leading():
                await duties(reign)

        async with AsyncExitStack() as ending:  # the last one first: what they hold they give back with their seat
            parts = [_start(part) for part in (self.seat.run(), self.assistant.run(), leadership.run(lead))]
            for part in parts:
                ending.push_async_callback(_end, [part])
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            ended = done.pop()
            ended.result()
            raise FatalError(f"{ended.get_name()} ended by itself")


@dataclass(frozen=True, slots=True)
class SchedulerRole:
    """Campaigns, and leads when it has won; until then it stands by, or assists."""

    leadership: Leadership
    duties: SchedulerDuties
    shared: SharedDispatch | None = None

    async def run(self) -> None:
        if self.shared is None:
            await self.leadership.run(self.duties)
        else:
            await self.shared.run(self.leadership, self.duties)


class Front(Protocol):
    """What people and programs outside talk to."""

    def stop(self) -> None:
        """Take nothing new, and end what is under way in good order."""
        ...

    async def run(self) -> None:
        """Until it is stopped."""
        ...


@dataclass(slots=True)
class Roles:
    """Run once. `stop` ends it in good order, a second `stop` at once."""

    node: Node
    watch: TaskWatch
    plugins: PluginHost
    guests: Sequence[PluginPlan] = ()
    attendance: Attendance = field(kw_only=True)
    scheduler: SchedulerRole | None = None
    worker: WorkerService | None = None
    front: Front | None = None
    others: list[Callable[[], Part]] = field(default_factory=list)
    servers: Mapping[str, str] = field(default_factory=dict)  # the addresses of store and coordinator, secrets covered
    _stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def is_open(self) -> bool:
        """Whether it does what it is there for: it does not stop, and its worker, if it has one, is in the cluster."""
        return not self._stopping.is_set() and (self.worker is None or self.worker.worker_id is not None)

    def stop(self) -> None:
        if self.worker is not None:
            self.worker.stop()
        if self.front is not None:
            self.front.stop()
        self._stopping.set()

    async def run(self) -> None:
        """Until stopped. Raises `FatalError` when the process must be started anew."""
        await self.plugins.start(self.guests)
        base = [_start(part) for part in self._list_base()]
        scheduler = _start(self.scheduler.run()) if self.scheduler is not None else None
        worker = _start(self.worker.run()) if self.worker is not None else None
        front = _start(self.front.run()) if self.front is not None else None
        log.info("node.ready", node_id=self.node.id, **self.servers)
        try:
            await self._wait([part for part in (*base, scheduler, worker, front) if part is not None])
            await _end([scheduler])
            await asyncio.gather(*(part for part in (worker, front) if part is not None))
        finally:
            await _end([scheduler, worker, front, *base])
            await self.plugins.stop()
            await self.attendance.leave()
            log.info("node.stopped", node_id=self.node.id)

    async def _wait(self, running: Sequence["asyncio.Task[None]"]) -> None:
        """Until asked to stop. Whatever ends before, unasked, ends the process."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            done, _ = await asyncio.wait([stopping, *running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        for part in done - {stopping}:
            part.result()
            if not self._stopping.is_set():
                raise FatalError(f"{part.get_name()} ended by itself")

    def _list_base(self) -> list[Part]:
        node = self.node
        keep, guard = node.loops.keep, node.loops.guard
        return [
            keep("node.time", node.time.sync, every=guard(RESYNC_EVERY)),
            keep("node.ids", node.ids.keep, every=guard(RENEW_EVERY)),
            keep("node.attend", self.attendance.attend, every=guard(ATTEND_EVERY)),
            keep("watch.listen", self.watch.listen),
            keep("watch.look", self.watch.look),
            self.plugins.run(),
            *(other() for other in self.others),
        ]


def _start(part: Part) -> "asyncio.Task[None]":
    return asyncio.create_task(part, name=getattr(part, "__qualname__", None))  # a part that ends unasked is named


async def _end(parts: Sequence["asyncio.Task[None] | None"]) -> None:
    running = [part for part in parts if part is not None and not part.done()]
    for part in running:
        part.cancel()
    await asyncio.gather(*running, return_exceptions=True)
