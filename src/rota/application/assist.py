"""Dispatching beside the leader, where schedulers share that work.

The leader does all that there is to do; its assistants take from the same queue and grant what is simple: tasks of
types without limits for which there is a place at a worker now. Nobody divides the queue: a take removes what it
brings, so each has a share of its own, as large as it can serve. Whatever else an assistant has taken is passed on to
the leader, which alone counts limits and keeps what must wait.

What each failure does:

- An assistant dies: its seat runs out, and the places it had reserved are free again. What it had taken, or granted and
  not handed over, the leader finds by comparing, which it does often when it misses somebody.
- It is paused and goes on later: its trust has ended on its own clock. What it still writes is under a condition each:
  a task is granted once, a place is filled once.
- The leader dies: assistants go on under the last term until there is another one. What was passed on waits for that.
- The coordinator has lost its memory: nobody assists until the leader has rebuilt the queues, and for a while what the
  workers report counts too.
- This node becomes leader: it assists no more, and gives back what it has taken.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta

import structlog

from rota.application import metrics
from rota.application.aging import Heads
from rota.application.crew import Crew
from rota.application.dispatch import LONGEST_WAIT, DispatchSettings
from rota.application.grant import Grants
from rota.application.muster import Muster
from rota.application.node import Node
from rota.application.parking import key_of
from rota.application.places import Places
from rota.application.ports.coordinator import NO_WAIT
from rota.application.reign import Reign
from rota.application.seat import Seat
from rota.application.store_time import CLOCK_SLACK
from rota.application.taking import Taking
from rota.application.throttle import Throttle
from rota.domain.balancing import Need, draws_from, spread
from rota.domain.errors import FencedError, RotaError, UnavailableError
from rota.domain.ids import TaskId
from rota.domain.queue import QueueEntry
from rota.domain.task import WAITING, LiveTask

REST = timedelta(seconds=1)
HAND_BACK_WITHIN = timedelta(seconds=2)
ANY_LEVEL = float("-inf")

log = structlog.get_logger(__name__)


class Assistant:
    """One for a process; idle while its node leads."""

    def __init__(self, node: Node, seat: Seat, *, distrust_for: timedelta) -> None:
        self._node = node
        self._seat = seat
        self._queue = node.coordinator.queue
        self._distrust_for = distrust_for  # after the coordinator lost its memory: until every worker has reported
        self.settings = DispatchSettings()  # may be changed at any time
        places = Places(seat, node.collector, f"{node.id}+")
        self._places = places
        self._muster = Muster(node.coordinator, node.clock, places)
        self._grants = Grants(node.store.tasks, node.coordinator, time=node.time, collector=node.collector)
        self._grants.places = places
        self._throttle = Throttle(node.store.tasks, node.configs, clock=node.clock)
        self._taking = Taking(self._queue)
        self._heads = Heads(node.clock)
        self._draws = draws_from(0, node.random.chance)
        # Taken from the queue and not settled yet; with a task that brought itself along, until it is to be granted.
        self._hand: dict[TaskId, LiveTask | None] = {}
        self._room = 0  # of the workers, as far as it is known
        self._generation: str | None = None
        self._is_leading = False

    @contextmanager
    def resting(self) -> Iterator[None]:
        """This node leads meanwhile."""
        self._is_leading = True
        try:
            yield
        finally:
            self._is_leading = False

    async def run(self) -> None:
        """Until cancelled; what is in hand then is given back."""
        try:
            await self._node.loops.keep("assist", self._step)
        finally:
            await self._leave()

    async def _step(self) -> None:
        try:
            reign = self._find_reign()
            if reign is None:
                await self._hand_back()
                await self._node.clock.sleep(REST)
            elif not await self._look(reign):
                await self._seat.assistance.wait_for_work(LONGEST_WAIT)
        except FencedError as exc:  # a term ended, or a later one began: the seat learns which
            log.info("assist.fenced", node_id=self._node.id, error=str(exc))
            await self._node.clock.sleep(REST)
        except RotaError:
            self._node.collector.add(metrics.DISPATCH_FAILURES)
            raise

    def _find_reign(self) -> Reign | None:
        """Under whose term to act. A rate over all types is kept by the leader, which then has to grant everything."""
        if self._is_leading or self.settings.global_rate is not None or self._seat.generation is None:
            return None
        if self._seat.generation != self._generation:
            self._generation = self._seat.generation
            self._muster.distrust_loads(self._distrust_for)
        return self._seat.find_reign()

    async def _look(self, reign: Reign) -> bool:
        """Whether another look may find more to do."""
        began_at = self._node.clock.monotonic()
        await self._grants.settle()
        if not self._hand and not await self._take(reign):
            return False
        crew, found = await asyncio.gather(self._muster(), self._read())
        granted = await self._serve(await self._keep_due(found), crew, reign=reign)
        self._room = crew.room - granted
        if granted:
            self._node.collector.observe(metrics.DISPATCH_SECONDS, value=self._node.clock.monotonic() - began_at)
        return True

    async def _take(self, reign: Reign) -> bool:
        """As many tasks as there is room for; whether there were any."""
        if self._room <= 0:
            self._room = (await self._muster()).room
        if self._room <= 0:
            return False
        reign.check()
        limit = min(self._room, self.settings.batch_size)
        taken = await self._taking.ask(limit, self._heads.order(ANY_LEVEL), wait=NO_WAIT)
        self._hand = {task_id: taken.added.get(task_id) for task_id in taken.task_ids}
        self._heads.note(taken.heads)
        if not self._hand:
            self._room = 0  # so that it is asked for anew
        return bool(self._hand)

    async def _read(self) -> list[LiveTask]:
        """The tasks in hand. Changes nothing: if the workers cannot be asked for, nobody waits for its answer, which
        comes when other tasks may be in hand."""
        brought = [live for live in self._hand.values() if live is not None]
        unread = [task_id for task_id, live in self._hand.items() if live is None]
        return brought + (await self._node.store.tasks.find_live(unread) if unread else [])

    async def _keep_due(self, found: Sequence[LiveTask]) -> list[LiveTask]:
        """Those of the tasks in hand that wait and are due, in its order; the others are let go."""
        waiting = [live for live in found if live.state.status in WAITING]
        soon = self._node.time.now() + CLOCK_SLACK
        due = {live.id: live for live in waiting if live.state.due_at <= soon}
        if len(due) < len(waiting):
            early = [live.state for live in waiting if live.id not in due]
            await self._queue.push([QueueEntry(state.id, state.priority, state.due_at) for state in early])
        self._hand = {task_id: live for task_id, live in self._hand.items() if task_id in due}
        return [due[task_id] for task_id in self._hand]

    async def _serve(self, waiting: Sequence[LiveTask], crew: Crew, *, reign: Reign) -> int:
        """Grant what may go at once and pass on the rest; says how many were granted."""
        await self._throttle.learn_limits({key_of(live) for live in waiting})
        free = [live for live in waiting if self._throttle.is_free(key_of(live))]
        needs = [Need(live.id, live.type, self._throttle.executor_of(key_of(live))) for live in free]
        wanted = spread(needs, crew.workers, balancer=self.settings.balancer, draws=self._draws, loads=crew.loads)
        await self._pass_on([live.id for live in waiting if live.id not in wanted])
        reign.check()
        chosen = await self._places.reserve(wanted, crew)
        starting = [live for live in free if live.id in chosen]
        if not starting:
            return 0
        unread = {live.id for live in starting if self._hand[live.id] is not None}
        for live in starting:
            self._hand[live.id] = None  # whatever becomes of this grant, the next look is into the store
        reign.check()
        stale = await self._grants.give(starting, chosen, reign=reign)
        changed = stale & unread  # these may wait in another shape than that in which they were added
        for live in starting:
            if live.id not in changed:
                del self._hand[live.id]
        return len(starting) - len(stale)

    async def _pass_on(self, task_ids: Sequence[TaskId]) -> None:
        if task_ids:
            await self._seat.assistance.pass_on(task_ids)
            for task_id in task_ids:
                del self._hand[task_id]
            self._node.collector.add(metrics.TASKS_PASSED_ON, amount=len(task_ids))

    async def _hand_back(self) -> None:
        """The leader decides about what is in hand."""
        self._hand.update(dict.fromkeys(await self._taking.catch()))
        with suppress(UnavailableError):  # that may be the store alone, which passing on does not need
            await self._grants.settle()
        await self._pass_on(list(self._hand))
        self._room = 0

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(HAND_BACK_WITHIN.total_seconds()):
                await self._hand_back()
        except (UnavailableError, TimeoutError) as exc:  # the leader's reconciliation finds them
            log.warning("assist.hand_back_failed", node_id=self._node.id, error=str(exc))
