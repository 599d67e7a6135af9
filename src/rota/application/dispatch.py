"""Dispatch: the leader takes what waits and grants it to workers, batch by batch.

One loop: wait until something is ready, make ready what is due, then rounds until there is nothing left to do. A round
looks at the workers' room, picks as many tasks (of those parked earlier and of the queue, most pressing first), reads
them from the store, and grants those that still wait, are due, and whose type has a worker and is within its limits.

A task that cannot go now is parked, so that it holds up nobody behind it. What was taken from the queue is *in hand*
until it is settled: granted, parked, put back, or found to wait no longer. A failure at any point, a cancellation too,
leaves it in hand for the next round; at the end of a reign what was granted is handed over, and the rest is put back
with what is parked. What a crash takes with it is found by reconciliation: the store knows every task that waits.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

import structlog

from rota.application import metrics
from rota.application.admit import admit, room_of
from rota.application.aging import Heads
from rota.application.config_cache import ConfigCache
from rota.application.crew import Crew
from rota.application.grant import Grants
from rota.application.loop import Loops
from rota.application.muster import Muster
from rota.application.parking import MOST_PARKED, Key, Parking, key_of, level_of, rank_of
from rota.application.places import Places
from rota.application.ports.coordinator import NO_WAIT, Coordinator
from rota.application.ports.store import TaskStore
from rota.application.reign import Reign
from rota.application.store_time import CLOCK_SLACK, StoreTime
from rota.application.taking import Taking
from rota.application.throttle import Throttle
from rota.domain.balancing import LoadBalancer, Need, draws_from, least_task, spread
from rota.domain.checks import check_number, check_rate
from rota.domain.errors import RotaError, StoreUnavailableError, UnavailableError
from rota.domain.ids import TaskId, WorkerId
from rota.domain.priority import NORMAL
from rota.domain.queue import QueueEntry
from rota.domain.task import WAITING, LiveTask
from rota.domain.waiting import Reason

MAX_BATCH = 10_000
LONGEST_WAIT = timedelta(seconds=1)  # the net below every wake that gets lost
SHORTEST_WAIT = timedelta(milliseconds=1)
RATE_PAUSE = timedelta(milliseconds=20)  # what a rate lets go is granted in small batches, not one by one
DUE_EVERY = timedelta(milliseconds=25)  # how old the answer to "what is due next?" may be
ROUNDS_PER_LOOK = 10  # then what became due meanwhile has its turn
MOST_LEARNT = 100  # configs of parked types that are read anew in one round
MOST_MOVED = 2_000  # due entries at once: one atomic step of the coordinator
RETURN_AFTER = timedelta(seconds=5)  # what found no place to park …
RETURN_PACE = timedelta(microseconds=250)  # … comes back in a trickle, or it would be all that dispatch does
PUSH_BATCH = 1_000
LOOK_OVER_EVERY = 30.0  # seconds between two looks at what is parked, whether it still waits …
MOST_LOOKED_OVER = 5_000  # … and at how many of it

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """What may be changed while dispatch runs."""

    batch_size: int = 500
    balancer: LoadBalancer = least_task
    global_rate: float | None = None  # grants per second, all types together

    def __post_init__(self) -> None:
        check_number("batch_size", self.batch_size, least=1, most=MAX_BATCH)
        if self.global_rate is not None:
            check_rate("global_rate", self.global_rate)


def _say_nothing() -> None: ...


class Dispatcher:
    """Made once for a node; runs during each of its reigns."""

    def __init__(
        self, tasks: TaskStore, coordinator: Coordinator, *, configs: ConfigCache, time: StoreTime, loops: Loops
    ) -> None:
        self._tasks = tasks
        self._queue = coordinator.queue
        self._configs = configs
        self._time = time
        self._loops = loops
        self._settings = DispatchSettings()
        self._grants = Grants(tasks, coordinator, time=time, collector=loops.collector)
        self._muster = Muster(coordinator, loops.clock)
        self._places: Places | None = None
        self._parking = Parking(MOST_PARKED)
        # Taken from the queue and not settled yet; with a task that brought itself along, until it is to be granted.
        self._hand: dict[TaskId, LiveTask | None] = {}
        self._taking = Taking(coordinator.queue)
        self._draws = draws_from(0, loops.random.chance)
        self._forget()

    def tune(self, settings: DispatchSettings) -> None:
        """Change the settings; they count from the next round on."""
        self._settings = settings

    def share(self, places: Places) -> None:
        """Others dispatch at the same time: places at workers are reserved, and what they pass on is taken over."""
        self._places = self._grants.places = self._muster.places = places

    def is_parked(self, task_id: TaskId) -> bool:
        """Whether this leader holds a waiting task in its memory, so that its absence from the queue means nothing."""
        return task_id in self._parking or task_id in self._hand or self._taking.holds(task_id)

    def distrust_loads(self, period: timedelta) -> None:
        """For a while the coordinator may not know what the workers run: what they report counts too."""
        self._muster.distrust_loads(period)

    async def run(self, reign: Reign, *, on_look: Callable[[], None] = _say_nothing) -> None:
        """Dispatch until cancelled; each time all has been granted that can go now, say so."""
        self._forget()

        async def step() -> None:
            try:
                await self._look(reign)
            except RotaError:
                self._loops.collector.add(metrics.DISPATCH_FAILURES)
                raise
            on_look()

        await self._loops.keep("dispatch", step)

    async def hand_back(self) -> None:
        """Queue again what this leader holds. Asks for no term: an entry too many in the queue does no harm."""
        self._hand.update(dict.fromkeys(await self._taking.catch()))
        with suppress(UnavailableError):  # what is in doubt then, the next leader finds
            await self._grants.settle()
        await self._return_hand()
        while entries := self._parking.entries(PUSH_BATCH):
            await self._queue.push(entries)
            for entry in entries:
                self._parking.discard(entry.task_id)
        self._report_parked()

    def _forget(self) -> None:
        """Begin anew: what an earlier reign knew of limits and heads may have changed since."""
        is_shared = self._places is not None
        self._throttle = Throttle(self._tasks, self._configs, clock=self._loops.clock, do_others_grant=is_shared)
        self._heads = Heads(self._loops.clock)
        self._barren = 0  # rounds in a row that granted nothing
        self._has_more = True  # whether the last take left something in the queue
        self._next_due_at: datetime | None = None
        self._ask_due_at = 0.0  # by the monotonic clock
        self._is_due_known = False  # whether it was asked since the last wake
        self._changes: int | None = None  # of the workers' pool, as the last take told
        self._muster.forget()
        self._room_seen = 0  # what the last round left of the workers' room
        self._wait = timedelta(0)
        self._has_taken = False  # whether the wait has brought what there was to take
        self._pause: float | None = None  # seconds until a limit may let something go
        self._return_at: datetime | None = None
        self._look_over_at = self._loops.clock.monotonic() + LOOK_OVER_EVERY

    async def _look(self, reign: Reign) -> None:
        wait, self._wait = self._wait, timedelta(0)  # after a failure: no waiting, the pause has been long enough
        self._has_taken = False
        if wait:
            await self._wait_for_work(wait, reign=reign)
        self._is_due_known = False
        is_done = await self._serve_ready(reign)  # most wakes are for what is ready: it goes first
        if await self._move_due(reign):
            is_done = await self._serve_all(reign)
        if is_done:
            self._wait = self._until_due()
        await self._look_over_parked()
        self._report_parked()

    async def _wait_for_work(self, wait: timedelta, *, reign: Reign) -> None:
        """Wait; where nothing else is to be looked at first, what comes is taken in the same call."""
        room = self._plain_room() if self._is_plain and not self._hand else 0
        if room > 0:
            await self._take(reign, room, wait=wait)
            self._has_taken = True
        else:
            await self._queue.wait_for_work(wait)

    @property
    def _is_plain(self) -> bool:
        """Whether nothing is parked, and there was room a moment ago."""
        return not self._parking and self._room_seen > 0

    def _plain_room(self) -> int:
        return min(self._room_seen, self._throttle.whole_room(self._settings.global_rate))

    async def _serve_ready(self, reign: Reign) -> bool:
        """What is in hand goes first, then what others passed on: that was taken from the queue before all that is
        there now. Rounds until nothing is left that can go now (True), or it is time to look around."""
        has_served = False
        for _ in range(ROUNDS_PER_LOOK):
            has_some = bool(self._hand) or await self._receive(reign)
            if has_served and not has_some:
                return True
            if not await self._serve_all(reign):
                return False
            if self._hand or not has_some:  # what is still in hand finds no room
                return True
            has_served = True
        return False

    async def _receive(self, reign: Reign) -> bool:
        """Take over what others passed on; whether there was something. Nothing may be in hand."""
        if self._places is None:
            return False
        reign.check()
        self._hand = dict.fromkeys(await self._places.take_passed(self._settings.batch_size))
        self._has_more = self._has_more or bool(self._hand)  # the queue is looked at after these
        return bool(self._hand)

    async def _serve_all(self, reign: Reign) -> bool:
        """Rounds until nothing is left that can go now (True), or it is time to look around."""
        for _ in range(ROUNDS_PER_LOOK):
            if not await self._round(reign):
                return True
        return False

    async def _move_due(self, reign: Reign) -> bool:
        """Make ready what is due; whether there was something. Not asked for at each wake: a cluster at work wakes its
        leader hundreds of times a second."""
        now = self._time.now()
        is_early = self._next_due_at is None or self._next_due_at > now
        if is_early and self._loops.clock.monotonic() < self._ask_due_at:
            return False
        self._is_due_known = True
        reign.check()
        due = await self._queue.move_due(now, MOST_MOVED)
        self._next_due_at = due.next_due_at
        self._ask_due_at = self._loops.clock.monotonic() + DUE_EVERY.total_seconds()
        return due.moved > 0

    async def _round(self, reign: Reign) -> bool:
        """Whether another round may find more to do."""
        began_at = self._loops.clock.monotonic()
        self._pause = None
        await self._grants.settle()
        is_plain = self._is_plain
        found = await (self._find_plainly(reign) if is_plain else self._find_carefully(reign))
        if found is None:
            return False
        crew, waiting = found
        granted = await self._serve(waiting, crew, reign=reign)
        left = crew.room - granted
        # Where an estimate leaves too little for a whole batch, the workers are asked before anything is taken.
        self._room_seen = 0 if crew.is_estimate and left < self._settings.batch_size else left
        self._barren = 0 if granted else self._barren + 1
        if granted:
            self._loops.collector.observe(metrics.DISPATCH_SECONDS, value=self._loops.clock.monotonic() - began_at)
        return self._has_more or not is_plain or bool(self._hand or self._parking)

    async def _find_plainly(self, reign: Reign) -> tuple[Crew, list[LiveTask]] | None:
        """Nothing is parked and there was room a moment ago: take first, and ask for the workers while reading.

        Should there be less room than there was, what does not fit is parked. When there is nothing to do, the workers
        are asked for in advance: the next task that comes alone need not wait for that."""
        if not self._has_taken:
            room = self._plain_room()
            if room <= 0:
                self._note_pause(self._throttle.wait_for_whole())
                return None
            await self._take(reign, room)
        self._has_taken = False
        if not self._hand:
            await self._muster.ask_ahead(self._changes)
            return None
        kept = self._muster.use_kept(self._changes, wanted=len(self._hand))
        if kept is not None:
            return kept, await self._read((), reign=reign)
        crew, waiting = await asyncio.gather(self._muster(self._changes), self._read((), reign=reign))
        return crew, waiting

    async def _find_carefully(self, reign: Reign) -> tuple[Crew, list[LiveTask]] | None:
        """The workers first, then what is parked and may go, then what is more pressing in the queue."""
        crew = await self._muster(self._changes)
        self._room_seen = crew.room
        room = min(crew.room, self._throttle.whole_room(self._settings.global_rate))
        if room <= 0:
            self._note_pause(self._throttle.wait_for_whole() if crew.room else None)
            return None
        parked = await self._pick_parked(crew, room)
        await self._take(reign, room, parked=parked)
        if not self._hand and not parked:
            return None
        return crew, await self._read([task_id for _, task_id in parked], reign=reign)

    async def _pick_parked(self, crew: Crew, room: int) -> list[tuple[float, TaskId]]:
        """The parked tasks that may go now, with their ranks, most pressing first."""
        throttle = self._throttle
        await self._learn_anew(crew)
        keys = [key for key in self._parking.keys() if crew.room_for(key[1], throttle.executor_of(key))]  # noqa: SIM118 not a dict
        if not keys:
            return []
        await throttle.learn(keys)
        places: dict[Key, int] = {}
        for key in keys:
            number, reason = room_of(key, crew, throttle=self._throttle)
            if number:
                places[key] = number
            else:
                self._note_pause(self._throttle.wait_for(key, reason))
        batch = self._settings.batch_size
        return self._parking.first(places, min(room, batch), most=batch)

    async def _learn_anew(self, crew: Crew) -> None:
        """Types that nobody can run may have got another executor: their configs are read again, some in each round."""
        throttle = self._throttle
        stuck = (key for key in self._parking.keys() if not crew.room_for(key[1], throttle.executor_of(key)))  # noqa: SIM118 not a dict
        if stale := list(islice(filter(throttle.is_stale, stuck), MOST_LEARNT)):
            await throttle.learn(stale)

    async def _take(
        self, reign: Reign, room: int, *, parked: Sequence[tuple[float, TaskId]] = (), wait: timedelta = NO_WAIT
    ) -> None:
        """Take from the queue what is more pressing than the parked tasks that fill the room already.

        While rounds grant nothing, each takes twice as many as the one before: a long row of tasks that nobody can
        take is soon out of the way of the others.
        """
        if self._hand:  # of a round that failed
            return
        reign.check()
        batch = self._settings.batch_size
        limit = min(room << min(self._barren, 20), batch)
        is_full = len(parked) >= min(room, batch)
        above = level_of(parked[-1][0], self._time.now()) if is_full else float("-inf")
        order = self._heads.order(above)
        if not order:
            return
        taken = await self._taking.ask(limit, order, wait=wait)
        self._hand = {task_id: taken.added.get(task_id) for task_id in taken.task_ids}
        self._doubt_doubles(taken.task_ids)
        self._changes = taken.changes
        self._has_more = bool(taken.heads)
        self._heads.note(taken.heads)
        if len(taken.task_ids) < limit:
            self._barren = 0

    def _doubt_doubles(self, taken: Sequence[TaskId]) -> None:
        """What was queued again has changed since it was added: as it was then, it must not be parked."""
        if len(self._hand) < len(taken):
            doubles = (task_id for task_id, number in Counter(taken).items() if number > 1)
            self._hand.update(dict.fromkeys(doubles))
        if self._parking:
            self._hand.update(dict.fromkeys(task_id for task_id in taken if task_id in self._parking))

    async def _read(self, parked: Iterable[TaskId], *, reign: Reign) -> list[LiveTask]:
        """Those of the tasks in hand and of the parked ones that wait and are due, in the order to serve them."""
        parked_ids = dict.fromkeys(parked)
        ids = list(self._hand | parked_ids)
        found = {task_id: live for task_id, live in self._hand.items() if live is not None}
        unread = [task_id for task_id in ids if task_id not in found]
        found |= {live.state.id: live for live in (await self._tasks.find_live(unread) if unread else ())}
        waiting = [found[task_id] for task_id in ids if task_id in found and found[task_id].state.status in WAITING]
        soon = self._time.now() + CLOCK_SLACK
        due = [live for live in waiting if live.state.due_at <= soon]
        if parked_ids:
            self._parking.note(parked_ids, able={live.state.id for live in due})
        for task_id in set(ids).difference([live.state.id for live in waiting]):
            self._let_go(task_id)
        if len(due) < len(waiting):
            early = [live for live in waiting if live.state.due_at > soon]
            await self._put_back(early, [live.state.due_at for live in early], reign=reign)
        return sorted(due, key=rank_of) if parked_ids else due

    async def _serve(self, waiting: Sequence[LiveTask], crew: Crew, *, reign: Reign) -> int:
        """Grant what may go and park the rest; says how many were granted."""
        if not waiting:
            return 0
        keys = {key_of(live) for live in waiting}
        await self._throttle.learn(keys)
        settings = self._settings
        verdict = admit(waiting, crew, throttle=self._throttle, rate=settings.global_rate)
        executors = {key: self._throttle.executor_of(key) for key in keys}
        needs = [Need(live.state.id, live.type, executors[key_of(live)]) for live in verdict.admitted]
        chosen = spread(needs, crew.workers, balancer=settings.balancer, draws=self._draws, loads=crew.loads)
        unplaced = [(live, Reason.WORKERS_BUSY) for live in verdict.admitted if live.state.id not in chosen]
        await self._park(verdict.refused + unplaced, reign=reign)
        if self._places is not None:
            chosen = await self._places.reserve(chosen, crew)  # what finds others faster stays where it is
        starting = [live for live in verdict.admitted if live.state.id in chosen]
        if not starting:
            return 0
        unread = {live.state.id for live in starting if self._hand.get(live.state.id) is not None}
        for live in starting:
            self._hand[live.state.id] = None  # whatever becomes of this grant, the next look is into the store
        self._unpark(starting)
        reign.check()
        self._throttle.count(starting)
        self._look_ahead(crew, chosen)
        try:
            stale = await self._grants.give(starting, chosen, reign=reign)
        except UnavailableError:
            self._throttle.doubt(starting)
            raise
        self._throttle.settle(starting, stale=stale)
        changed = stale & unread  # these may wait in another shape than that in which they were added
        for live in starting:
            if live.state.id not in changed:
                self._hand.pop(live.state.id, None)
        return len(starting) - len(stale)

    def _look_ahead(self, crew: Crew, chosen: Mapping[TaskId, WorkerId]) -> None:
        """While this grant is written, take and read what the next round is to serve; and it need not ask for the
        workers. Where there is more in the queue, and room for a whole batch of it."""
        batch = self._settings.batch_size
        room = min(crew.room - len(chosen), self._throttle.whole_room(self._settings.global_rate))
        if room < batch or not self._has_more or self._parking or self._places is not None:
            return
        self._muster.estimate(crew.given(chosen))
        self._taking.begin(batch, self._heads.order(float("-inf")), read=self._tasks.find_live)

    def _unpark(self, lives: Iterable[LiveTask]) -> None:
        if self._parking:
            for live in lives:
                self._parking.discard(live.id)

    async def _park(self, refused: Sequence[tuple[LiveTask, Reason]], *, reign: Reign) -> None:
        surplus = []
        for live, reason in refused:
            if self._parking.park(live, reason):
                self._hand.pop(live.id, None)
            else:
                surplus.append(live)
        if surplus:
            first = max(self._time.now() + RETURN_AFTER, self._return_at or self._time.now())
            times = [first + RETURN_PACE * number for number in range(len(surplus))]
            await self._put_back(surplus, times, reign=reign)
            self._return_at = times[-1]
            log.warning("dispatch.parking_full", parked=len(self._parking), put_back=len(surplus))

    async def _put_back(self, lives: Sequence[LiveTask], times: Sequence[datetime], *, reign: Reign) -> None:
        """Queue tasks for later."""
        reign.check()
        await self._queue.push(
            [QueueEntry(live.id, live.state.priority, at) for live, at in zip(lives, times, strict=True)]
        )
        for live in lives:
            self._let_go(live.id)

    async def _return_hand(self) -> None:
        ids = list(self._hand)
        if not ids:
            return
        try:
            lives = await self._tasks.find_live(ids)
            entries = [QueueEntry(live.id, live.state.priority) for live in lives if live.state.status.is_waiting]
        except StoreUnavailableError:
            entries = [QueueEntry(task_id, NORMAL) for task_id in ids]  # better in the wrong place than in none
        await self._queue.push(entries)
        self._hand = {}

    async def _look_over_parked(self) -> None:
        """What was cancelled while it was parked is found out when it may go. Where that never comes, it would take the
        place of others."""
        now = self._loops.clock.monotonic()
        if not self._parking or now < self._look_over_at:
            return
        self._look_over_at = now + LOOK_OVER_EVERY
        ids = self._parking.take_turns(MOST_LOOKED_OVER)
        lives = await self._tasks.find_live(ids)
        for task_id in set(ids).difference([live.id for live in lives if live.state.status in WAITING]):
            self._let_go(task_id)

    def _let_go(self, task_id: TaskId) -> None:
        self._hand.pop(task_id, None)
        self._parking.discard(task_id)

    def _note_pause(self, seconds: float | None) -> None:
        if seconds is not None and (self._pause is None or seconds < self._pause):
            self._pause = seconds

    def _until_due(self) -> timedelta:
        """How long to wait for work: until the next task is due or a limit may let one go.

        The wake may have been for one that is due sooner than those known: if it was not asked, it is in a moment."""
        waits = [self._loops.guard(LONGEST_WAIT) if self._is_due_known else DUE_EVERY]
        if self._next_due_at is not None:
            waits.append(max(self._next_due_at - self._time.now(), SHORTEST_WAIT))
        if self._pause is not None:
            waits.append(max(timedelta(seconds=self._pause), RATE_PAUSE))
        return min(waits)

    def _report_parked(self) -> None:
        for reason, number in self._parking.counts().items():
            self._loops.collector.put(metrics.TASKS_PARKED, reason, value=number)
