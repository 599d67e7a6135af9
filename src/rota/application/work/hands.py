"""What this worker has in its hands: every attempt from its take until it is acknowledged.

An attempt is in exactly one of three places: taken (its row was not read yet), running, or ended (its end is being
recorded). One that is known here is never begun a second time, however often it is handed over.
"""

from collections.abc import Iterable
from enum import StrEnum

from rota.application.ports.executor import Begun, Job, LogLevel
from rota.application.work.logs import AttemptBook, LogBook
from rota.application.work.nudge import Nudge
from rota.domain.attempt import Attempt
from rota.domain.ids import WorkerId
from rota.domain.task import TaskState


class Stop(StrEnum):
    """Why this worker ends an attempt that would go on."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"  # the task has ended, or moved on, without this attempt
    DRAIN = "drain"
    UNHEARD = "unheard"  # nobody has heard of this worker for a lease: it may belong to somebody else
    FENCED = "fenced"  # it belongs to somebody else now: nothing is reported


class Holding:
    """One running attempt, and its executor's `Reports`. Plain slots: one is made for every task."""

    __slots__ = (
        "_logs",
        "attempt",
        "begun_at",
        "book",
        "deadline",
        "job",
        "runner",
        "state",
        "stop",
        "stopped_at",
        "type",
    )

    def __init__(self, job: Job, *, begun_at: float, logs: LogBook) -> None:
        self._logs = logs
        self.job = job
        self.attempt = job.attempt
        self.state: TaskState = job.task.state
        self.type: str = job.task.spec.type
        self.deadline = job.deadline
        self.begun_at = begun_at
        self.book: AttemptBook | None = None  # None: it has said nothing yet
        self.runner: Begun | None = None  # None: it has ended
        self.stop: Stop | None = None
        self.stopped_at = 0.0

    def log(self, message: str, *, level: LogLevel = LogLevel.INFO, detail: str = "") -> None:
        self._open_book().log(message, level=level, detail=detail)

    def progress(self, fraction: float, message: str = "") -> None:
        self._open_book().progress(fraction, message)

    def _open_book(self) -> AttemptBook:
        if self.book is None:
            self.book = self._logs.open(self.state, self.type)
        return self.book


class Hands:
    def __init__(self, freed: Nudge) -> None:
        self.taken: dict[Attempt, None] = {}
        self.running: dict[Attempt, Holding] = {}
        self.begun = Nudge()  # something runs where nothing ran
        self._ended: set[Attempt] = set()
        self._freed = freed

    def __contains__(self, attempt: Attempt) -> bool:
        return attempt in self.running or attempt in self._ended or attempt in self.taken

    @property
    def load(self) -> int:
        """How many attempts are held; those whose end is not acknowledged still fill their slot."""
        return len(self.taken) + len(self.running) + len(self._ended)

    def take(self, attempts: Iterable[Attempt], worker_id: WorkerId) -> None:
        """Hold what is new here; what was taken for an incarnation of the past is nobody's."""
        for attempt in attempts:
            if attempt.worker_id == worker_id and attempt not in self:
                self.taken[attempt] = None

    def note_ended(self, attempt: Attempt) -> None:
        """It does not run any more; its slot is free once that is acknowledged."""
        if self.running.pop(attempt, None) is None:
            self.taken.pop(attempt, None)
        self._ended.add(attempt)

    def settle(self, attempts: Iterable[Attempt]) -> None:
        """The ends of these are recorded: their slots are free."""
        self._ended.difference_update(attempts)
        self._freed.give()

    def drop(self, attempt: Attempt) -> None:
        """It has ended, and nobody is to hear of it: its slot is free."""
        del self.running[attempt]
        self._freed.give()

    def list_held(self, worker_id: WorkerId) -> list[Attempt]:
        """Everything that this incarnation holds."""
        return [
            attempt
            for place in (self.taken, self.running, self._ended)
            for attempt in place
            if attempt.worker_id == worker_id
        ]
