"""The ends of attempts, written to the store in batches, each with its fence.

While one batch is written the next one gathers; a single result that comes when nothing is written goes at once. The
step that an outcome causes is computed once and sent until the store has answered, so an unknown outcome is cleared up
by the repeat. While the store is away results wait here and, for a process that may end, in the spool. What the store
calls stale is counted: somebody else owns the task now. Only what the store has answered is acknowledged.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice

import structlog
from msgspec import Struct

from rota.application import metrics
from rota.application.ports.store import Written
from rota.application.work.hands import Hands
from rota.application.work.logs import AttemptBook, LogBook
from rota.application.work.nudge import Nudge
from rota.application.work.settings import WorkerPorts
from rota.application.work.settle import Settler
from rota.application.work.spool import Result
from rota.domain.attempt import Attempt, Failed, Outcome, Succeeded, TaskError
from rota.domain.checks import check_number
from rota.domain.conclusion import bounded, conclude
from rota.domain.errors import RotaError, StoreUnavailableError, UnavailableError
from rota.domain.events import Event, EventKind
from rota.domain.ids import TaskId
from rota.domain.queue import QueueEntry
from rota.domain.retry import STANDARD_RETRY, RetryPolicy
from rota.domain.task import CANCELLED, FAILED, PENDING, PROCESSING, RETRYING, SUCCESS, TIMEOUT, TaskState, Transition

MAX_RESULT_CODE = 2**31 - 1  # what every store can hold

KINDS = {
    SUCCESS: EventKind.TASK_COMPLETED,
    FAILED: EventKind.TASK_FAILED,
    TIMEOUT: EventKind.TASK_FAILED,
    RETRYING: EventKind.TASK_RETRYING,
    CANCELLED: EventKind.TASK_CANCELLED,
    PENDING: EventKind.TASK_RELEASED,
    PROCESSING: EventKind.TASK_LOGGED,  # deferred: its record says so
}

log = structlog.get_logger(__name__)


class HandedBack(Struct, frozen=True):
    """Not run, or not to its end, and not the task's fault: it waits again, without spending a retry."""

    reason: str
    delay: timedelta = timedelta(0)


class Ended(Struct, gc=False):
    """One attempt that runs no more, and how it ended. None: the task has moved on, there is nothing to write."""

    attempt: Attempt
    state: TaskState
    type: str
    outcome: Outcome | HandedBack | None
    policy: RetryPolicy = STANDARD_RETRY
    book: AttemptBook | None = None
    end_by: datetime | None = None  # of all attempts together


class Reporter:
    """The loop that writes results."""

    def __init__(self, ports: WorkerPorts, *, logs: LogBook, hands: Hands, settler: Settler, batch_size: int) -> None:
        self._ports = ports
        self._logs = logs
        self._hands = hands
        self._settler = settler
        self._batch_size = batch_size
        self._nudge = Nudge()
        self._ended: deque[Ended] = deque()
        self._results: deque[Result] = deque()
        self._books: list[AttemptBook] = []  # to be written before the results
        self._spooled = 0  # how many of the results, from the first on, are in the spool
        self._must_clear = False

    @property
    def is_idle(self) -> bool:
        return not (self._ended or self._results)

    @property
    def has_room(self) -> bool:
        """Whether new work may be taken: what it ends in must find its place."""
        return self._ports.spool.has_room

    def report(self, ended: Ended) -> None:
        """Write this end, as soon as can be."""
        self._hands.note_ended(ended.attempt)
        self._ended.append(ended)
        self._nudge.give()

    async def restore(self) -> None:
        """Deliver first what an earlier process could not; most of it will be stale."""
        left = await self._ports.spool.read()
        self._results.extendleft(reversed(left))
        self._spooled = len(left)
        self._must_clear = True
        if left:
            log.info("worker.spool_found", results=len(left))
        self._nudge.give()

    async def save(self) -> None:
        """Keep what was not delivered: the store is away, or this process ends."""
        self._conclude_all()
        await self._spool()

    async def __call__(self) -> None:
        """One turn of the loop: write one batch."""
        if self.is_idle:
            await self._nudge.wait(self._ports.idle)
        self._conclude_all()
        await self._unspool(0)  # again, should the spool have refused to be cleared
        if self._results:
            try:
                await self._write(self._next_batch())
            except StoreUnavailableError:
                await self.save()
                raise

    def _conclude_all(self) -> None:
        """Turn outcomes into steps. Those without one are only acknowledged."""
        if not self._ended:
            return
        now = self._ports.store_time.now()
        moved_on: list[Attempt] = []
        while self._ended:
            ended = self._ended[0]
            if ended.outcome is None:
                moved_on.append(ended.attempt)
            else:
                self._results.append(Result(ended.attempt, ended.type, self._step(ended, ended.outcome, now=now)))
                if ended.book is not None and ended.book.lines:
                    self._books.append(ended.book)
            self._ended.popleft()
        self._settler.acknowledge(moved_on)

    def _step(self, ended: Ended, outcome: Outcome | HandedBack, *, now: datetime) -> Transition:
        state = ended.state
        at = max(now, state.started_at or now)  # the leader's estimate of the time may be a little ahead of this one
        if isinstance(outcome, HandedBack):
            return state.released(outcome.reason, at=at, due_at=at + outcome.delay)
        chance = self._ports.random.chance()
        try:
            step = conclude(state, _checked(outcome), policy=ended.policy, at=at, chance=chance)
        except (TypeError, ValueError, AttributeError, RotaError) as exc:
            # One outcome that makes no sense must not keep a whole batch out of the store.
            log.warning("worker.bad_outcome", task_id=state.id, attempt=state.attempt, error=str(exc))
            error = TaskError("executor_error", f"the executor's outcome cannot be recorded: {exc}")
            step = conclude(state, Failed(error), policy=ended.policy, at=at, chance=chance)
        return bounded(step, ended.end_by)

    def _next_batch(self) -> list[Result]:
        """The first results, each of another task: two steps of one task are written one after the other."""
        batch: list[Result] = []
        seen: set[TaskId] = set()
        for result in islice(self._results, self._batch_size):
            if result.attempt.task_id in seen:
                break
            seen.add(result.attempt.task_id)
            batch.append(result)
        return batch

    async def _write(self, batch: Sequence[Result]) -> None:
        if self._books:
            await self._logs.flush(self._books)
            self._books.clear()
        written = await self._ports.store.tasks.advance([result.step for result in batch])
        for _ in batch:
            self._results.popleft()
        self._settle(batch, written)
        await self._unspool(len(batch))

    def _settle(self, batch: Sequence[Result], written: Written) -> None:
        stale = [result for result in batch if result.attempt.task_id in written.stale] if written.stale else []
        done = [result for result in batch if result.attempt.task_id not in written.stale] if stale else batch
        for result in stale:
            log.info("worker.stale_result", task_id=result.attempt.task_id, attempt=result.attempt.number)
        self._count(done, stale)
        self._settler.push(entry for entry in map(_entry_for, done) if entry is not None)
        self._settler.tell(map(_event_for, done))
        self._settler.acknowledge([result.attempt for result in batch])

    def _count(self, done: Iterable[Result], stale: Iterable[Result]) -> None:
        collector = self._ports.collector
        for (task_type, status), count in Counter((result.type, result.step.after.status) for result in done).items():
            if status is RETRYING:
                collector.add(metrics.TASKS_RETRIED, task_type, amount=count)
            elif status.is_final:
                collector.add(metrics.TASKS_ENDED, task_type, status.value, amount=count)
        for task_type, count in Counter(result.type for result in stale).items():
            collector.add(metrics.STALE_RESULTS, task_type, amount=count)

    async def _spool(self) -> None:
        """Keep what is not in the spool yet. Without a spool that works it stays in memory."""
        fresh = list(islice(self._results, self._spooled, None))
        if fresh:
            try:
                await self._ports.spool.append(fresh)
            except UnavailableError as exc:
                log.warning("worker.spool_failed", results=len(fresh), error=str(exc))
                return
            self._spooled += len(fresh)
            self._must_clear = True
        self._ports.collector.put(metrics.RESULTS_SPOOLED, value=self._spooled)

    async def _unspool(self, delivered: int) -> None:
        if self._spooled:
            self._spooled = max(self._spooled - delivered, 0)
            self._ports.collector.put(metrics.RESULTS_SPOOLED, value=self._spooled)
        if self._must_clear and not self._spooled:
            try:
                await self._ports.spool.clear()
            except UnavailableError as exc:  # delivered twice they do no harm; not delivering the next ones would
                log.warning("worker.spool_not_cleared", error=str(exc))
                return
            self._must_clear = False


def _checked(outcome: Outcome) -> Outcome:
    """Executors come from other packages: what no store could hold is refused here."""
    if isinstance(outcome, Succeeded) and not outcome.result.is_plain:
        check_number("result.code", outcome.result.code, least=-MAX_RESULT_CODE, most=MAX_RESULT_CODE)
    return outcome


def _entry_for(result: Result) -> QueueEntry | None:
    after = result.step.after
    if not after.status.is_waiting:
        return None
    return QueueEntry(after.id, after.priority, after.due_at if after.due_at > result.step.at else None)


def _event_for(result: Result) -> Event:
    after = result.step.after
    return Event(
        kind=KINDS[after.status],
        at=result.step.at,
        tenant_id=after.tenant_id,
        task_id=after.id,
        task_type=result.type,
        status=after.status,
        attempt=after.attempt,
        worker_id=result.attempt.worker_id,
    )
