"""The log lines of running attempts: gathered here, written in batches, and always before the attempt's result.

Each line has its place (`domain/log.py`), so a line sent twice is kept once. While the store is away lines wait, up to
a bound for each attempt and one for all; what is beyond is dropped, counted, and marked by a line where it happened.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.application import metrics
from rota.application.ports.executor import LogLevel
from rota.application.work.nudge import Nudge
from rota.application.work.settings import WorkerPorts
from rota.domain.checks import MAX_DETAIL, MAX_LINE
from rota.domain.events import Event, EventKind
from rota.domain.log import LINE_COST, LogEntry, Progress, place, progress_detail, too_much
from rota.domain.task import LogKind, TaskState

FLUSH_EVERY = timedelta(milliseconds=200)
PROGRESS_EVERY = 1.0  # seconds, for each task
MOST_LINES = 500  # in one write
KIND_OF = {LogLevel.WARNING: LogKind.WARNING, LogLevel.ERROR: LogKind.ERROR}  # any other is kept as INFO


@dataclass(frozen=True, slots=True)
class LogBounds:
    """How much may be written: by one attempt in its life, and by all while the store has not taken it."""

    per_attempt: int
    in_all: int


class AttemptBook:
    """What one attempt says; made with its first word."""

    __slots__ = ("_book", "_late", "_line", "_marked", "_told_at", "_written", "lines", "progressed", "state", "type")

    def __init__(self, book: "LogBook", state: TaskState, *, task_type: str) -> None:
        self._book = book
        self.state = state
        self.type = task_type
        self.lines: list[tuple[LogEntry, int]] = []  # with their size, as it counts against the bounds
        self.progressed: Progress | None = None  # the last among the lines that wait
        self._line = 0
        self._written = 0
        self._marked: frozenset[str] = frozenset()
        self._told_at = float("-inf")
        self._late: tuple[float, str] | None = None

    def log(self, message: str, *, level: LogLevel = LogLevel.INFO, detail: str = "") -> None:
        self._add(message, detail, kind=KIND_OF.get(level, LogKind.INFO))

    def progress(self, fraction: float, message: str = "") -> None:
        """At most one line a second; the last is written a second after the one before, or when the attempt ends."""
        self._late = (fraction, message)
        self._book.owe(self)
        self.catch_up()

    def catch_up(self) -> None:
        """Say where its progress got to, if a second has passed since it was said last."""
        now = self._book.clock.monotonic()
        if now - self._told_at >= PROGRESS_EVERY:
            self._told_at = now
            self.close()

    def close(self) -> None:
        """The attempt has ended: say where its progress got to."""
        self._book.settle(self)
        if self._late is not None:
            self._add_progress(*self._late)
            self._late = None

    def _add_progress(self, fraction: float, message: str) -> None:
        share = round(min(max(0.0, fraction), 1.0), 4)  # in this order NaN becomes 0
        if self._add(message, progress_detail(share), kind=LogKind.INFO):
            self.progressed = Progress(share, self.lines[-1][0].message)  # as it is kept

    def _add(self, message: str, detail: str, *, kind: LogKind) -> bool:
        text, more = message[: MAX_LINE + 1], detail[: MAX_DETAIL + 1]
        size = LINE_COST + len(text.encode("utf-8", "replace")) + len(more.encode("utf-8", "replace"))
        bounds = self._book.bounds
        if self._written + size > bounds.per_attempt:
            return self._drop("attempt", too_much(bounds.per_attempt))
        if self._book.waiting + size > bounds.in_all:
            return self._drop("worker", "lines are dropped here: too many wait on this worker for the store")
        self._written += size
        self._keep(text, more, kind=kind, size=size)
        return True

    def _drop(self, bound: str, marker: str) -> bool:
        self._book.collector.add(metrics.LOG_LINES_DROPPED)
        if bound not in self._marked:
            self._marked |= {bound}
            self._keep(marker, "", kind=LogKind.ERROR, size=LINE_COST)
        return False

    def _keep(self, message: str, detail: str, *, kind: LogKind, size: int) -> None:
        self._line += 1
        state = self.state
        entry = LogEntry(
            task_id=state.id,
            tenant_id=state.tenant_id,
            seq=place(state.version, self._line),
            kind=kind,
            at=self._book.store_time.now(),
            attempt=state.attempt,
            worker_id=state.worker_id,
            message=message,
            detail=detail,
        )
        self.lines.append((entry, size))
        self._book.note(self, size)


class LogBook:
    """The books of all attempts, and the loop that writes what is in them."""

    def __init__(self, ports: WorkerPorts, bounds: LogBounds, *, tell: Callable[[Sequence[Event]], None]) -> None:
        self.clock = ports.clock
        self.store_time = ports.store_time
        self.collector = ports.collector
        self.bounds = bounds
        self.waiting = 0  # bytes of lines that the store has not taken
        self._logs = ports.store.logs
        self._tell = tell
        self._idle = ports.idle
        self._filled: dict[AttemptBook, None] = {}
        self._owing: dict[AttemptBook, None] = {}  # those that have yet to say where their progress got to
        self._nudge = Nudge()
        self._lock = asyncio.Lock()

    def open(self, state: TaskState, task_type: str) -> AttemptBook:
        return AttemptBook(self, state, task_type=task_type)

    def note(self, book: AttemptBook, size: int) -> None:
        """There is a line in it, of this size."""
        self.waiting += size
        if book not in self._filled:
            self._filled[book] = None
            self._nudge.give()

    def owe(self, book: AttemptBook) -> None:
        """It has progressed, which is to be said in time."""
        if book not in self._owing:
            self._owing[book] = None
            self._nudge.give()

    def settle(self, book: AttemptBook) -> None:
        """What it had yet to say of its progress is said."""
        self._owing.pop(book, None)

    async def __call__(self) -> None:
        """One turn of the loop: what is said within a moment is written at once."""
        if not self._filled:
            await self._nudge.wait(FLUSH_EVERY if self._owing else self._idle)
        for book in list(self._owing):
            book.catch_up()
        if self._filled:
            await self.clock.sleep(FLUSH_EVERY)
            await self.flush(list(self._filled))

    async def flush(self, books: Sequence[AttemptBook]) -> None:
        """Write what is in these books now. Raises while the store is away; the lines then stay."""
        lines = sum([len(book.lines) for book in books])
        for _ in range(
            0, lines, MOST_LINES
        ):  # as many writes as there is to write now: some attempts never fall silent
            async with self._lock:  # for each write anew, so that they do not hold up the result of another
                await self._write(_portions(books))

    def discard(self, book: AttemptBook) -> None:
        """Nothing of this attempt is to be told any more."""
        self.settle(book)
        self._forget(book, len(book.lines))

    async def _write(self, portions: Mapping[AttemptBook, int]) -> None:
        entries = [line for book, count in portions.items() for line, _ in book.lines[:count]]
        await self._logs.append(entries)
        now = self.store_time.now()
        events = [event for book in portions for event in _events_of(book, at=now)]
        for book, count in portions.items():
            self._forget(book, count)
        self._tell(events)

    def _forget(self, book: AttemptBook, count: int) -> None:
        self.waiting -= sum([size for _, size in book.lines[:count]])
        del book.lines[:count]
        if not book.lines:
            book.progressed = None
            self._filled.pop(book, None)


def _portions(books: Iterable[AttemptBook]) -> dict[AttemptBook, int]:
    """How many lines of each book the next write takes."""
    portions: dict[AttemptBook, int] = {}
    room = MOST_LINES
    for book in books:
        count = min(len(book.lines), room)
        if count:
            portions[book] = count
            room -= count
    return portions


def _events_of(book: AttemptBook, *, at: datetime) -> list[Event]:
    state, progress = book.state, book.progressed
    kinds: list[tuple[EventKind, Progress | None]] = [(EventKind.TASK_LOGGED, None)]
    if progress is not None:
        kinds.append((EventKind.TASK_PROGRESS, progress))
    return [
        Event(
            kind=kind,
            at=at,
            tenant_id=state.tenant_id,
            task_id=state.id,
            task_type=book.type,
            status=state.status,
            attempt=state.attempt,
            worker_id=state.worker_id,
            progress=told,
        )
        for kind, told in kinds
    ]
