"""Tasks as text: short, since Redis holds them all in memory.

A line of JSON for where a task stands (`[version,"STATUS",attempt,…]`, so that its beginning is the fence), one for
what was asked, and one for each recorded step, with its result or its error. What has its usual value is left out.
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

_STATE_PARTS = 12
_RECORD_PARTS = 10


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
    ]
    while not parts[-1]:  # the version is never 0
        parts.pop()
    return _encode(parts)


def fence(state: TaskState) -> str:
    """What the text of a task begins with that stands here: its version, its status and its attempt."""
    return f'[{state.version},"{state.status}",{state.attempt},'


def record_line(step: Transition) -> bytes:
    """What a step adds to the text, with the break before it."""
    if not step.is_recorded:
        return b""
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
    while parts[-1] is None:
        parts.pop()
    return b"\n%b" % _encode(parts)


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

    def to_task(self, apart: bytes | None = None) -> Task:
        """The whole task, with the payload that is kept apart."""
        is_well = self.state.status is SUCCESS
        return Task(
            spec=to_spec(self.id, self.spec, apart=apart),
            state=self.state,
            result=self._find_result() if is_well else None,
            error=None if is_well else self._find_error(),
        )

    def list_entries(self) -> list[LogEntry]:
        """The record of its steps. The first entry follows from what it was made of."""
        first = creation_entry(self.id, self.spec)
        return [first, *(self._to_entry(_read_record(line)) for line in self._lines[2:])]

    def _find_result(self) -> TaskResult:
        line = self._lines[-1]
        result = _read_record(line)[9] if _HAS_MORE in line else None
        return TaskResult() if result is None else TaskResult(*result)

    def _find_error(self) -> TaskError | None:
        for line in self._lines[:1:-1]:
            if _HAS_MORE in line and (error := _read_record(line)[8]) is not None:
                return TaskError(*error)
        return None

    def _to_entry(self, record: Sequence[Any]) -> LogEntry:
        version, at_us, from_status, to_status, attempt, worker_id, kind, message, error, result = record
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
    priority, retry_count, last_lost_us, prior_lost_us = parts[8:_STATE_PARTS]
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
    )


def _read_record(line: bytes) -> list[Any]:
    parts: list[Any] = _decode(line)
    return [*parts, *[None] * _RECORD_PARTS][:_RECORD_PARTS]
