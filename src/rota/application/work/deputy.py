"""Signs of life while the control loop is held up.

The loops of a worker share an event loop with whatever else the program does on it: the API, or the code of the program
that Rota is embedded in. A call that blocks it for longer than a lease would silence the heartbeats, and the worker
would be declared dead while its tasks run on. So a thread with an event loop and a connection of its own watches the
control loop, which makes a sign several times in a heartbeat. When the sign stays away the deputy says that this
incarnation lives, until the next sign. Joining, leaving and following orders stay on the control loop; the deputy only
repeats what that said last. It hears of an incarnation before that is registered: work may be given to it from then on,
and the loop may be stopped right after.

It tells the store's registry, which is enough not to be given up. The coordinator's pool also says who can be given
work, and a process that is held up cannot take any; so the pool is told only while the store cannot be: it may be away,
or the loop may have been stopped in the middle of its own write, whose lock nobody gets past.

A loop that makes no sign for as long as the watchdog grants is stuck. The deputy falls silent then, so that the worker
is found dead, and ends the process where that is ours to end.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import structlog

from rota.application.loop import Loops
from rota.application.ports.coordinator import WorkerPool
from rota.application.ports.store import WorkerRegistry
from rota.application.work.lease import Lease, Witness
from rota.application.work.settings import WorkerSettings
from rota.application.work.watchdog import LOOK_EVERY, PAUSE
from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import WorkerId
from rota.domain.worker import Heartbeat

SIGNS = 3  # in each heartbeat
MISSED = 2  # of them in a row: the loop is held up. With the shortest lease, two heartbeats, there is time left to tell

NOTHING = Heartbeat(load=0)

log = structlog.get_logger(__name__)


class Aside(Protocol):
    """A thread with an event loop of its own."""

    def start(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine there until it ends or is closed."""
        ...

    def close(self) -> None:
        """Cancel it, and wait a moment for its end."""
        ...

    def read_stack(self) -> str:
        """Where the thread that called `start` is now."""
        ...


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Who must hear of a worker, or else it is dead."""

    registry: WorkerRegistry
    pool: WorkerPool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeputyPlan:
    """What a deputy is made from."""

    aside: Aside
    open_witnesses: Callable[[], AbstractAsyncContextManager[Witnesses]]  # with new connections, on the deputy's loop
    end_process: Callable[[], None] | None  # None: the process belongs to somebody else
    stuck_after: float  # seconds


@dataclass(frozen=True, slots=True)
class _Sign:
    at: float
    worker_id: WorkerId | None = None
    beat: Heartbeat = NOTHING


class Deputy:
    """`start`, `note` and `close` belong to the control loop, everything else to the thread."""

    def __init__(self, plan: DeputyPlan, loops: Loops, *, settings: WorkerSettings, lease: Lease) -> None:
        self._plan = plan
        self._held = lease
        self._loops = loops
        self._clock = loops.clock
        self._every = settings.heartbeat_every
        self._lease = settings.lease
        self._patience = self._every.total_seconds() * MISSED / SIGNS
        now = self._clock.monotonic()
        self._sign = _Sign(now)  # replaced as a whole: the other thread sees the old one or the new one
        self._blocked_since: _Sign | None = None  # the last one before a silence that was told of
        self._stuck_since: _Sign | None = None
        self._looked_at = now
        self._stood_still_until = now

    @property
    def sign_every(self) -> timedelta:
        """How often the control loop is to `note`."""
        return self._every / SIGNS

    def start(self) -> None:
        self.note(None)
        self._plan.aside.start(lambda: self._loops.keep("worker.deputy", self._turn))

    def close(self) -> None:
        self._plan.aside.close()

    def note(self, worker_id: WorkerId | None, beat: Heartbeat = NOTHING) -> None:
        """A sign of the control loop: it gets its turns, and this is the worker's incarnation now."""
        self._sign = _Sign(self._clock.monotonic(), worker_id, beat)

    async def _turn(self) -> None:
        silence = self._measure()
        if silence < self._patience:
            await self._pause(timedelta(seconds=self._patience - silence))
        elif silence <= self._plan.stuck_after:
            await self._stand_in(silence)
        else:
            self._give_up(silence)
            await self._pause(self._every)

    def _measure(self) -> float:
        """How long the control loop has made no sign. Time in which this thread stood still as well does not count."""
        now = self._clock.monotonic()
        if now - self._looked_at > PAUSE:
            self._stood_still_until = now
        self._looked_at = now
        return now - max(self._sign.at, self._stood_still_until)

    async def _stand_in(self, silence: float) -> None:
        if self._blocked_since is not self._sign:
            self._blocked_since = self._sign
            stack = self._plan.aside.read_stack()
            log.warning("worker.loop_blocked", seconds=round(silence, 1), stack=stack)
        async with self._plan.open_witnesses() as witnesses:
            while self._patience <= self._measure() <= self._plan.stuck_after:
                sign = self._sign  # read once: the control loop may replace it meanwhile
                worker_id, beat = sign.worker_id, sign.beat
                if worker_id is None or await self._tell_registry(witnesses.registry, worker_id, load=beat.load):
                    await self._pause(self._every)
                else:
                    await self._tell_pool(witnesses.pool, worker_id, beat=beat)
                    await self._pause(self.sign_every)

    async def _tell_registry(self, registry: WorkerRegistry, worker_id: WorkerId, *, load: int) -> bool:
        """Whether the store has heard of it in time. It is not waited for: a call may take long to be cancelled."""
        sent_at = self._clock.monotonic()
        telling = asyncio.ensure_future(registry.seen({worker_id: load}))
        try:
            done, _ = await asyncio.wait({telling}, timeout=self._every.total_seconds())
            if done:
                telling.result()
                self._held.renew(Witness.DEPUTY, sent_at)
                return True
            log.warning("worker.deputy_unheard", worker_id=worker_id, error="no answer in time")
        except StoreUnavailableError as exc:
            log.warning("worker.deputy_unheard", worker_id=worker_id, error=str(exc))
        finally:
            telling.cancel()
        return False

    async def _tell_pool(self, pool: WorkerPool, worker_id: WorkerId, *, beat: Heartbeat) -> None:
        sent_at = self._clock.monotonic()
        if await pool.heartbeat(worker_id, beat, lease=self._lease):
            self._held.renew(Witness.DEPUTY, sent_at)

    async def _pause(self, duration: timedelta) -> None:
        await self._clock.sleep(min(duration, LOOK_EVERY))

    def _give_up(self, silence: float) -> None:
        if self._stuck_since is self._sign:
            return  # it was said
        self._stuck_since = self._sign
        log.error("worker.loop_stuck", seconds=round(silence, 1), stack=self._plan.aside.read_stack())
        if self._plan.end_process is not None:
            self._plan.end_process()
