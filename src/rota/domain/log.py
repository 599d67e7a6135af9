"""The record of a task: its transitions and its own lines, in one order that needs no clock.

A transition's place is its version; the lines of an attempt follow the grant that began it. So `seq` is the version
in the upper 32 bits and a line number in the lower: gapless for transitions, but for those that are not recorded
(`Transition.is_recorded`), and a line sent twice has the same place.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.domain.checks import MAX_DETAIL, MAX_LINE, check_number, tidy_text
from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.task import LogKind, Task, TaskStatus, Transition

LINE_BITS = 32
RERUN_LINES = 3 * 2**30  # where lines of reruns begin; attempts, and those who speak for them, write before
RERUN_TICK = timedelta(milliseconds=100)  # of two reruns within one, the first is told; there is room for three years
LINE_COST = 100  # bytes that a line takes beside its text: many empty ones fill a bound as well
PROGRESS_MARK = '{"progress": '  # how the detail of a line begins that says how far the attempt got


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt got, by its own word."""

    fraction: float  # 0 to 1
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One line of a task's record; text that some store cannot hold is replaced or cut."""

    task_id: TaskId
    tenant_id: TenantId = DEFAULT_TENANT
    seq: int
    kind: LogKind
    at: datetime
    from_status: TaskStatus | None = None
    to_status: TaskStatus | None = None
    attempt: int = 0
    worker_id: WorkerId | None = None
    message: str = ""
    detail: str = ""

    def __post_init__(self) -> None:
        # A line that is empty, or fit already, as nearly all are, is left alone.
        for name, text, longest in (("message", self.message, MAX_LINE), ("detail", self.detail, MAX_DETAIL)):
            if text and (held := tidy_text(text, longest=longest)) != text:
                object.__setattr__(self, name, held)


def place(version: int, line: int = 0) -> int:
    """Where a transition (line 0) or a line written under it stands in the record."""
    return version << LINE_BITS | check_number("line", line, least=0, most=2**LINE_BITS - 1)


def too_much(limit: int) -> str:
    """The line that marks where an attempt had said all that is kept of it."""
    return f"more than {limit} bytes of log: further lines are dropped"


def progress_detail(fraction: float) -> str:
    """The detail of a line that says how far the attempt got."""
    return f"{PROGRESS_MARK}{fraction}}}"


def progress_of(entry: LogEntry) -> Progress | None:
    """What a line says of the attempt's progress; None: nothing."""
    text = entry.detail
    if not (text.startswith(PROGRESS_MARK) and text.endswith("}")):
        return None
    try:
        fraction = float(text[len(PROGRESS_MARK) : -1])
    except ValueError:  # a field of that name in a line that the task wrote itself
        return None
    return Progress(min(max(0.0, fraction), 1.0), entry.message)  # in this order NaN becomes 0


def check_lines(entries: Iterable[LogEntry]) -> None:
    """Only lines may be appended: line 0 of a version is the place of a transition, of one to come as well."""
    for entry in entries:
        if not entry.seq % 2**LINE_BITS:
            raise InvalidError("seq", f"{entry.seq} is the place of a transition; the lines under it begin at 1")


def entry_for(step: Transition) -> LogEntry:
    """The log entry of a transition."""
    return LogEntry(
        task_id=step.task_id,
        tenant_id=step.after.tenant_id,
        seq=place(step.after.version),
        kind=step.kind,
        at=step.at,
        from_status=step.before.status,
        to_status=step.after.status,
        attempt=step.after.attempt,
        worker_id=step.after.worker_id or step.before.worker_id,
        message=step.message,
        detail=step.error.detail if step.error is not None else "",
    )


def rerun_entry(first: Task, again: Task) -> LogEntry:
    """What the record of a task says of another one that was made of it."""
    state, at = first.state, again.spec.created_at
    ticks = max(at - (state.completed_at or first.spec.created_at), timedelta(0)) // RERUN_TICK
    return LogEntry(
        task_id=first.id,
        tenant_id=state.tenant_id,
        seq=place(state.version, RERUN_LINES + min(ticks, 2**30 - 1)),
        kind=LogKind.INFO,
        at=at,
        attempt=state.attempt,
        message="run again as another task",
        detail=f'{{"rerun_as": "{again.id}"}}',
    )


def first_entry(task: Task) -> LogEntry:
    """The log entry of a task's creation."""
    state = task.state
    return LogEntry(
        task_id=task.id,
        tenant_id=state.tenant_id,
        seq=place(state.version),
        kind=LogKind.STATE_CHANGE,
        at=task.spec.created_at,
        to_status=state.status,
    )
