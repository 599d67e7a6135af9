"""Work coming in: attempts are taken while there is room, their rows are read, and what is still ours is begun.

The row decides: an attempt runs only while the store says that this task is at this attempt on this incarnation. While
the worker drains it still takes what was assigned to it before that was known, and hands it back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from rota.application.ports.coordinator import Deliveries
from rota.application.ports.executor import Job
from rota.application.work.hands import Hands
from rota.application.work.lease import Lease
from rota.application.work.nudge import Nudge
from rota.application.work.registry import ExecutorRegistry
from rota.application.work.report import Ended, HandedBack, Reporter
from rota.application.work.running import UNKNOWN_TYPE, Running
from rota.application.work.settings import WorkerPorts
from rota.application.work.settle import Settler
from rota.application.work.standing import Standing
from rota.domain.attempt import Attempt, TimedOut
from rota.domain.ids import TaskId
from rota.domain.log import place
from rota.domain.task import Task, TaskState
from rota.domain.task_config import TaskConfig

LONGEST_WAIT = timedelta(seconds=1)
LATE_DELAY = timedelta(seconds=1)  # what is late again and again must not circle as fast as it can
NEVER_RAN = TimedOut("the time for all attempts was over before this one could begin")
CAME_TOO_LATE = HandedBack("came_too_late", LATE_DELAY)  # it never ran, so its timeout is no fault of the task
MOST_LATE = 3  # in a row; then it is: its timeout is shorter than what this cluster takes to hand it over
ALWAYS_LATE = TimedOut(
    f"the attempt's timeout was over before it could begin, {MOST_LATE} times in a row; make it longer"
)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Desk:
    """Reads the rows of taken attempts, and decides what becomes of each."""

    ports: WorkerPorts
    standing: Standing
    hands: Hands
    executors: ExecutorRegistry
    running: Running
    reporter: Reporter
    settler: Settler
    lease: Lease

    async def begin_taken(self) -> None:
        """Begin what is ours. Raises while the store is away; what was taken then waits in hand.

        So it does while nobody hears of this worker: what the row says of it now may be over the moment it is read."""
        attempts = list(self.hands.taken)
        if not attempts or not self.lease.is_held:
            return
        tasks = await self.ports.store.tasks.load(list({attempt.task_id for attempt in attempts}))
        configs = await self.ports.configs.find_all({(task.spec.tenant_id, task.spec.type) for task in tasks.values()})
        due = self._due_in(tasks)
        always_late = await self._list_always_late(tasks, due)
        stale: list[Attempt] = []
        for attempt in attempts:
            task = tasks.get(attempt.task_id)
            if attempt not in self.hands.taken:
                continue  # the incarnation ended while the row was read
            if task is None or not task.state.is_held_by(attempt):
                stale.append(attempt)
            elif attempt.task_id in always_late:
                self._end(task, attempt, outcome=ALWAYS_LATE)
            else:
                config = configs.get((task.spec.tenant_id, task.spec.type))
                self._begin(task, attempt, config=config, deadline=due[attempt.task_id])
        self._forget(stale)

    def _due_in(self, tasks: Mapping[TaskId, Task]) -> dict[TaskId, float]:
        """The deadlines, from the store's clock to this node's own."""
        now, told = self.ports.clock.monotonic(), self.ports.store_time.now()
        return {task_id: now + (task.attempt_until - told).total_seconds() for task_id, task in tasks.items()}

    async def _list_always_late(self, tasks: Mapping[TaskId, Task], due: Mapping[TaskId, float]) -> set[TaskId]:
        """Those that are late now and were so the last times. Only what went back before is looked up: hardly any."""
        now = self.ports.clock.monotonic()
        late = [task_id for task_id, deadline in due.items() if deadline <= now]
        return {task_id for task_id in late if await self._was_late(tasks[task_id].state)}

    async def _was_late(self, state: TaskState) -> bool:
        """Whether the attempts right before this one came too late as well: their releases say so."""
        if state.attempt - state.retry_count < MOST_LATE:
            return False
        for version in range(state.version - 1, state.version - 2 * MOST_LATE + 2, -2):
            found = await self.ports.store.logs.read(state.id, after=place(version) - 1, limit=1)
            if not found or found[0].message != CAME_TOO_LATE.reason:
                return False
        return True

    def _begin(self, task: Task, attempt: Attempt, *, config: TaskConfig | None, deadline: float) -> None:
        if self.standing.is_draining:
            self.standing.complain()
            self._end(task, attempt, outcome=HandedBack("drained"))
        elif config is None:
            self.executors.complain(task.spec.type)
            self._end(task, attempt, outcome=UNKNOWN_TYPE)
        elif task.spec.end_by is not None and task.spec.end_by <= self.ports.store_time.now():
            self._end(task, attempt, outcome=NEVER_RAN)
        elif deadline <= self.ports.clock.monotonic():
            self._end(task, attempt, outcome=CAME_TOO_LATE)
        else:
            self.running.begin(Job(task, attempt, config, deadline, self.ports.link), self.executors)

    def _end(self, task: Task, attempt: Attempt, *, outcome: HandedBack | TimedOut) -> None:
        spec = task.spec
        self.reporter.report(Ended(attempt, task.state, spec.type, outcome, spec.retry, end_by=spec.end_by))

    def _forget(self, attempts: Sequence[Attempt]) -> None:
        """The store says that these are over, or somebody else's."""
        if attempts:
            log.info("worker.stale_attempts", attempts=len(attempts), first_task_id=attempts[0].task_id)
            for attempt in attempts:
                self.hands.note_ended(attempt)
            self.settler.acknowledge(attempts)


@dataclass(slots=True)
class Intake:
    """The loop that takes work in."""

    deliveries: Deliveries
    standing: Standing
    desk: Desk
    freed: Nudge
    batch_size: int

    @property
    def room(self) -> int:
        """How many more attempts may be held."""
        if self.standing.worker is None or not self.desk.lease.is_held or not self.desk.reporter.has_room:
            return 0
        return max(self.standing.capacity - self.desk.hands.load, 0)

    @property
    def longest_wait(self) -> timedelta:
        """For work, or for room."""
        return max(LONGEST_WAIT, self.desk.ports.guard_every)

    async def __call__(self) -> None:
        """One turn of the loop. What was taken while the store was away is read first."""
        await self.desk.begin_taken()
        worker, room = self.standing.worker, min(self.room, self.batch_size)
        if worker is None or not room:
            await self.freed.wait(self.longest_wait)
            return
        self._take(await self.deliveries.take(worker.id, room, wait=self.longest_wait))
        await self.desk.begin_taken()
        await self.desk.ports.clock.sleep(timedelta(0))  # what was begun starts, before more is asked for

    def adopt(self, in_flight: Iterable[Attempt]) -> None:
        """Hold what was handed over by a take whose answer was lost; if its end is recorded, its row will say so."""
        unknown = [attempt for attempt in in_flight if attempt not in self.desk.hands][: self.room]
        if unknown:
            log.info("worker.adopted", attempts=len(unknown), first_task_id=unknown[0].task_id)
            self._take(unknown)
            self.freed.give()

    def _take(self, attempts: Sequence[Attempt]) -> None:
        worker = self.standing.worker
        if worker is not None:  # else the incarnation that they were meant for ended during the call
            self.desk.hands.take(attempts, worker.id)
