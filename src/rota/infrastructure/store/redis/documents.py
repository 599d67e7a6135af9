"""Tasks as text: short, since Redis holds them all in memory.

A line of JSON for where a task stands (`[version,"STATUS",attempt,…]`, so that its beginning is the fence), one for
what was asked, and one for each recorded step, with its result or its error. What has its usual value is left out.

Whoever asks where tasks stand reads whole texts, some hundred at once, so a text stays short whatever becomes of its
task: what a step says at length is kept apart (`words`), and so are, every few steps, the lines of those before. Only
the last with an error or a result stays, for that is the task's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rota.domain.attempt import TaskError, TaskResult
from rota.domain.ids import TaskId, TenantId, WorkerId
from rota.domain.log import LogEntry, place
from rota.domain.submission import NewTask
from rota.domain.task import (
    SUCCESS,
    LiveTask,
    LogKind,
    Task,
    TaskSpec,
    TaskState,
    TaskStatus,
    Transition,
)
from rota.infrastructure.instants import find_us, from_us, to_us
from rota.infrastructure.store.spec_documents import (
    LONG_PAYLOAD,
    creation_entry,
    read_spec,
    to_live,
    to_spec,
    write_spec,
)

LONG_LINE = 1024  # bytes: of a line that is longer, what its error or its result says is kept apart
STEPS_TOGETHER = 16  # so many stay in the text, before they are moved
MOVED = "-"  # begins the fields of those; the others are those of words

_STATE_PARTS = 13
_RECORD_PARTS = 11
_ERROR, _RESULT, _IS_APART = 8, 9, 10

Record = Sequence[Any]  # the line of a step, read
_STATUSES: Mapping[str, TaskStatus] = {status.value: status for status in TaskStatus}
_HAS_MORE = b",["  # in the line of a step: it has an error, or a result
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def is_apart(spec: TaskSpec) -> bool:
    """Whether its payload is kept under a key of its own."""
    return len(spec.payload) > LONG_PAYLOAD


def new_document(new: NewTask) -> bytes:
    return b"%b\n%b" % (state_line(new.task.state), write_spec(new, is_apart=is_apart(new.task.spec)))


def state_line(state: TaskState) -> bytes:
    parts = [
        state.version,
        state.status,
        state.attempt,
        to_us(state.due_at),
        state.worker_id or 0,
        state.term,
        to_us(state.started_at),
        to_us(state.completed_at),
        state.priority,
        state.retry_count,
        to_us(state.last_lost_at),
        to_us(state.prior_lost_at),
        to_us(state.moved_due_at),
    ]
    while not parts[-1]:  # the version is never 0
        parts.pop()
    return _encode(parts)


def fence(state: TaskState) -> str:
    """What the text of a task begins with that stands here: its version, its status and its attempt."""
    return f'[{state.version},"{state.status}",{state.attempt},'


def record_line(step: Transition) -> tuple[bytes, bytes]:
    """What a step adds to the text, with the break before it; and its words, if they are kept apart."""
    if not step.is_recorded:
        return b"", b""
    error, result, after = step.error, step.result, step.after
    told = "" if error is None else error.message
    told = told if result is None else result.message
    parts: list[object] = [
        after.version,
        to_us(step.at),
        step.before.status,
        after.status,
        after.attempt,
        after.worker_id or step.before.worker_id or 0,
        None if step.kind is LogKind.STATE_CHANGE else step.kind,
        None if step.message == told else step.message,
        None if error is None else (error.code, error.message, error.detail, error.retryable),
        None if result is None or result.is_plain else (result.code, result.message, result.data),
    ]
    line = _line_of(parts)
    if len(line) > LONG_LINE and error is not None:
        parts[_ERROR] = (error.code, "", "", error.retryable)
        return _line_of([*parts, 1]), _encode((error.message, error.detail))
    if len(line) > LONG_LINE and result is not None:
        parts[_RESULT] = (result.code, "")
        return _line_of([*parts, 1]), _encode((result.message, result.data))
    return line, b""


def moves_lines(step: Transition) -> bool:
    """Whether the lines of the steps before this one are moved."""
    return step.after.version % STEPS_TOGETHER == 0


def _line_of(parts: Sequence[object]) -> bytes:
    count = len(parts)
    while parts[count - 1] is None:
        count -= 1
    return b"\n%b" % _encode(parts[:count])


class StoredTask:
    """The text of a task, of which each part is read when it is asked for."""

    __slots__ = ("_lines", "id", "spec", "state")

    def __init__(self, task_id: TaskId, text: bytes) -> None:
        self.id = task_id
        self._lines = text.split(b"\n")
        self.spec = read_spec(self._lines[1])
        self.state = read_state(task_id, self._lines[0], tenant_id=TenantId(self.spec.tenant))

    def to_live(self) -> LiveTask:
        return to_live(self.state, self.spec)

    @property
    def wordless(self) -> int | None:
        """The version of the step whose words, which are kept apart, are those of the task."""
        record = self._find_told()
        return int(record[0]) if record is not None and is_wordless(record) else None

    def to_task(self, payload: bytes | None = None, words: bytes | None = None) -> Task:
        """The whole task, with what is kept apart of it."""
        record, is_well = self._find_told(), self.state.status is SUCCESS
        told = None if record is None else _with_words(record, words)
        return Task(
            spec=to_spec(self.id, self.spec, apart=payload),
            state=self.state,
            result=(TaskResult() if told is None else TaskResult(*told[_RESULT])) if is_well else None,
            error=None if is_well or told is None else TaskError(*told[_ERROR]),
        )

    def list_records(self, moved: Sequence[bytes]) -> list[Record]:
        """Its steps, with those that were moved; some may have been so after the text was read."""
        lines = [line for lines in moved for line in lines.split(b"\n")[1:]]
        records = {record[0]: record for record in map(_read_record, [*lines, *self._lines[2:]])}
        return [records[version] for version in sorted(records)]

    def first_entry(self) -> LogEntry:
        """It follows from what the task was made of."""
        return creation_entry(self.id, self.spec)

    def _find_told(self) -> Record | None:
        """The step whose result or error is that of the task."""
        is_well = self.state.status is SUCCESS
        for line in self._lines[-1:] if is_well else self._lines[:1:-1]:
            if _HAS_MORE in line and (record := _read_record(line))[_RESULT if is_well else _ERROR] is not None:
                return record
        return None

    def to_entry(self, record: Record, words: bytes | None = None) -> LogEntry:
        version, at_us, from_status, to_status, attempt, worker_id, kind, message, error, result, _ = _with_words(
            record, words
        )
        if message is None:
            message = result[1] if result is not None else error[1] if error is not None else ""
        return LogEntry(
            task_id=self.id,
            tenant_id=self.state.tenant_id,
            seq=place(version),
            kind=LogKind.STATE_CHANGE if kind is None else LogKind(kind),
            at=from_us(at_us),
            from_status=_STATUSES[from_status],
            to_status=_STATUSES[to_status],
            attempt=attempt,
            worker_id=WorkerId(worker_id) if worker_id else None,
            message=message,
            detail="" if error is None else error[2],
        )


def read_state(task_id: TaskId, line: bytes, *, tenant_id: TenantId) -> TaskState:
    parts = _decode(line)
    parts += [0] * (_STATE_PARTS - len(parts))
    version, status, attempt, due_us, worker_id, term, started_us, completed_us = parts[:8]
    priority, retry_count, last_lost_us, prior_lost_us, moved_due_us = parts[8:_STATE_PARTS]
    return TaskState(
        id=task_id,
        tenant_id=tenant_id,
        status=_STATUSES[status],
        due_at=find_us(due_us) or from_us(0),
        priority=priority,
        version=version,
        attempt=attempt,
        retry_count=retry_count,
        worker_id=WorkerId(worker_id) if worker_id else None,
        term=term,
        started_at=find_us(started_us),
        completed_at=find_us(completed_us),
        last_lost_at=find_us(last_lost_us),
        prior_lost_at=find_us(prior_lost_us),
        moved_due_at=find_us(moved_due_us),
    )


def _read_record(line: bytes) -> Record:
    parts: list[Any] = _decode(line)
    return [*parts, *[None] * _RECORD_PARTS][:_RECORD_PARTS]


def is_wordless(record: Record) -> bool:
    """Whether what it says is kept apart."""
    return record[_IS_APART] is not None


def _with_words(record: Record, words: bytes | None) -> Record:
    if words is None:
        return record
    said, whole = _decode(words), list(record)
    if record[_ERROR] is not None:
        code, _, _, retryable = record[_ERROR]
        whole[_ERROR] = (code, *said, retryable)
    else:
        whole[_RESULT] = (record[_RESULT][0], *said)
    return whole
