"""What a leader does, all of it at once and each part supervised.

Every duty is a loop of its own: one that fails is logged, counted, and tried again, and the others do not notice. They
begin when dispatch has looked once, so that a new leader grants before it does anything else. A duty that learns that
the reign is over (`FencedError`), or that it cannot be fulfilled (`BlindError`), ends them all, and so does one that is
cancelled, so that nobody leads by halves.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import structlog

from rota.application.chronicle import Chronicle
from rota.application.fire import FireSchedules
from rota.application.loop import Loops
from rota.application.observe import Observe
from rota.application.ports.coordinator import Assistance
from rota.application.rebuild import RebuildQueues
from rota.application.reconcile import SETTLED, ReconcileDeliveries, ReconcileQueue
from rota.application.recover import HEARTBEAT_EVERY, BlindError, EndSilentAttempts, RecoverLostWorkers, Sight
from rota.application.reign import Reign
from rota.application.retain import Retain
from rota.application.roll_up import RollUp
from rota.domain.errors import FencedError, UnavailableError
from rota.domain.ids import NodeId, TaskId

SOON = timedelta(seconds=1)
# What a call without an answer did may be done so much later than it was given up, and shows when it has settled.
UNSETTLED_FOR = (2 * SETTLED + 2 * SOON).total_seconds()
OBSERVE_EVERY = timedelta(seconds=5)
ROLL_UP_EVERY = timedelta(seconds=5)
NOTE_EVERY = timedelta(seconds=5)  # until it has gone well
RETAIN_EVERY = timedelta(seconds=60)
HAND_BACK_WITHIN = timedelta(seconds=2)
HEAD_START = timedelta(milliseconds=500)  # of dispatch, at most: others find what a leader that died has left

log = structlog.get_logger(__name__)


class Dispatcher(Protocol):
    """Grants waiting tasks to workers."""

    async def run(self, reign: Reign, *, on_look: Callable[[], None]) -> None:
        """Dispatch until cancelled; each time all has been granted that can go now, say so."""
        ...

    def is_parked(self, task_id: TaskId) -> bool:
        """Whether the task was taken from the queue and is kept, because it cannot be granted now."""
        ...

    def distrust_loads(self, period: timedelta) -> None:
        """For so long the loads may be less than what the workers hold."""
        ...

    async def hand_back(self) -> None:
        """Put what is parked back into the queue, for the next leader. Called when `run` has ended."""
        ...


@dataclass(slots=True)
class Pace:
    """How often things happen; changeable while they do."""

    heartbeat_every: timedelta = HEARTBEAT_EVERY  # of the workers: how long the leader is blind after a failure
    reconcile_every: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Duty:
    """Something that a leader does every so often."""

    name: str
    step: Callable[[], Awaitable[None]]
    every: timedelta | Callable[[], timedelta]  # asked anew each time where it may change


@dataclass(slots=True)
class Watchfulness:
    """How often store and coordinator are compared: every second for a while after the reign began, after a duty was
    given up for want of an answer, and after a worker was given up or the queues were rebuilt, because then something
    may have been taken, written or granted that nobody knows of; seldom otherwise. A call without an answer whose duty
    goes on, because it knows what it owes (a hand-over) or loses a mere hint (an event), is no reason; nor is that of a
    renewal, which ends the reign. Where there is no backlog the next look costs little, and finds sooner what others
    failed to queue."""

    loops: Loops
    pace: Pace
    _alarmed_at: float

    def alarm(self) -> None:
        self._alarmed_at = self.loops.clock.monotonic()

    def seldom(self, compare: Callable[[], Awaitable[bool | None]]) -> Callable[[], Awaitable[None]]:
        """A step, to be taken every second, that compares when it is time to; sooner again where it costs little."""
        next_at = float("-inf")

        async def step() -> None:
            nonlocal next_at
            now = self.loops.clock.monotonic()
            if now >= next_at or now < max(self._alarmed_at, self.loops.unanswered_at) + UNSETTLED_FOR:
                pause = self.pace.reconcile_every
                next_at = now + (min(pause, SETTLED) if await compare() else pause).total_seconds()

        return step


@dataclass(slots=True)
class Mend:
    """Rebuilds a lost memory. It has lost what was handed over and not yet taken, too: comparisons find that. Until
    then, and until every worker has reported, a worker that is busy looks idle by its load, and dispatch is told so:
    before the rebuild, because it grants from the first page on, and after it, because that may have taken a while."""

    duties: "SchedulerDuties"
    reign: Reign
    watch: Watchfulness

    async def __call__(self) -> None:
        rebuild = self.duties.rebuild
        if await rebuild.queue.find_generation() is None:
            self._distrust_loads()
            await rebuild.if_lost(self.reign)
            self._distrust_loads()
            self.watch.alarm()

    def _distrust_loads(self) -> None:
        self.duties.dispatcher.distrust_loads(self.duties.recover.lease + self.duties.pace.heartbeat_every)


@dataclass(slots=True)
class MissOthers:
    """Notices when another scheduler that dispatches is gone: what it had taken, or had granted and not handed over, is
    to be looked for."""

    assistance: Assistance
    watch: Watchfulness
    _present: frozenset[NodeId] = frozenset()

    async def __call__(self) -> None:
        present = frozenset(await self.assistance.list_present())
        if missing := self._present - present:
            log.info("assistants.gone", nodes=sorted(missing))
            self.watch.alarm()
        self._present = present


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerDuties:
    """All duties of a leader. Calling it leads, until the reign is over or the call is cancelled."""

    loops: Loops
    pace: Pace
    dispatcher: Dispatcher
    rebuild: RebuildQueues
    recover: RecoverLostWorkers
    end_silent: EndSilentAttempts
    reconcile_queue: ReconcileQueue
    reconcile_deliveries: ReconcileDeliveries
    fire: FireSchedules
    retain: Retain
    observe: Observe
    roll_up: RollUp
    chronicle: Chronicle
    assistance: Assistance | None = None  # where others dispatch as well

    async def __call__(self, reign: Reign) -> None:
        try:
            await self._fulfil(reign)
        except ExceptionGroup as failures:  # the loops let nothing but a `FatalError` through
            raise failures.exceptions[0] from failures
        finally:
            self.observe.clear()
            await self._hand_back()

    async def _fulfil(self, reign: Reign) -> None:
        """Dispatch first: what waits has waited for a leader, and all duties at once would be in each other's way."""
        over, has_looked = asyncio.Event(), asyncio.Event()

        async def dispatch() -> None:
            await self.dispatcher.run(reign, on_look=has_looked.set)

        async def follow(duty: Duty) -> None:
            await has_looked.wait()
            await self._keep(duty, over)

        async def end_head_start() -> None:
            await self.loops.clock.sleep(HEAD_START)
            has_looked.set()

        async with asyncio.TaskGroup() as group:
            first = self._keep(Duty("dispatch", dispatch, every=SOON), over)
            running = [group.create_task(first, name="dispatch"), group.create_task(end_head_start())]
            running += [group.create_task(follow(duty), name=duty.name) for duty in self._list(reign)]
            await over.wait()
            for one in running:
                one.cancel()

    def _list(self, reign: Reign) -> list[Duty]:
        """All but dispatch."""
        settles_in = 2 * self.pace.heartbeat_every
        workers, attempts = (Sight(self.loops.clock, settles_in=settles_in) for _ in range(2))
        watch = Watchfulness(self.loops, self.pace, self.loops.clock.monotonic())

        async def recover() -> None:
            if await self.recover(reign, workers):
                watch.alarm()

        compare_queue = watch.seldom(lambda: self.reconcile_queue(reign, self.dispatcher.is_parked))
        compare_deliveries = watch.seldom(lambda: self.reconcile_deliveries(reign))
        others = [] if self.assistance is None else [Duty("others", MissOthers(self.assistance, watch), every=SOON)]
        return [
            *others,
            Duty("rebuild", Mend(self, reign, watch), every=SOON),
            Duty("recover", recover, every=SOON),
            Duty("end_silent", lambda: self.end_silent(reign, attempts), every=SOON),
            Duty("reconcile_queue", compare_queue, every=SOON),
            Duty("reconcile_deliveries", compare_deliveries, every=SOON),
            Duty("fire", lambda: self.fire(reign), every=self.fire.pause),
            Duty("retain", lambda: self.retain(reign), every=RETAIN_EVERY),
            Duty("observe", self.observe, every=OBSERVE_EVERY),
            Duty("roll_up", lambda: self.roll_up(reign), every=ROLL_UP_EVERY),
            Duty("chronicle", self.chronicle.beginning(reign), every=NOTE_EVERY),
        ]

    async def _keep(self, duty: Duty, over: asyncio.Event) -> None:
        async def step() -> None:
            try:
                await duty.step()
            except FencedError as exc:
                log.info("leader.fenced", duty=duty.name, error=str(exc))
                over.set()
            except BlindError as exc:
                log.warning("leader.blind", duty=duty.name, error=str(exc))
                over.set()

            if callable(duty.every):
                await self.loops.clock.sleep(duty.every())

        every = None if callable(duty.every) else self.loops.guard(duty.every)
        try:
            await self.loops.keep(duty.name, step, every=every)
        except asyncio.CancelledError:
            over.set()  # whoever cancelled it: one that is left out would not be missed
            raise

    async def _hand_back(self) -> None:
        try:
            async with asyncio.timeout(HAND_BACK_WITHIN.total_seconds()):
                await self.dispatcher.hand_back()
        except (UnavailableError, TimeoutError) as exc:  # the next leader's reconciliation finds them
            log.warning("leader.hand_back_failed", error=str(exc))
