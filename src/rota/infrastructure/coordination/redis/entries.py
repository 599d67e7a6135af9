"""Ids and attempts as they stand in Redis: decimal strings, `task id` and `task id:attempt number`.

A task that waits may bring itself along (ADR-0017): after its id, a blank, and a JSON array of what is not the same for
every task that was just added.

Redis is shared with operators, and with other releases during an upgrade. So nothing that is read is trusted: what is
not an id is None here, and left out by the caller.
"""

from collections.abc import Sequence

from rota.domain.ids import MAX_ID, TaskId, WorkerId
from rota.domain.queue import QueueEntry
from rota.domain.task import LiveTask
from rota.infrastructure.coordination.brought import find_brought, to_brought

Entry = tuple[TaskId, int]
Ready = tuple[TaskId, LiveTask | None]
_MOST_DIGITS = len(str(MAX_ID))


def to_entry(task_id: TaskId, number: int) -> str:
    return f"{task_id}:{number}"


def find_task_id(text: bytes) -> TaskId | None:
    number = _find_number(text)
    return None if number is None else TaskId(number)


def find_worker_id(text: bytes) -> WorkerId | None:
    number = _find_number(text)
    return None if number is None else WorkerId(number)


def find_entry(text: bytes) -> Entry | None:
    first, _, second = text.partition(b":")
    if second == b"1":  # nearly always: a task is seldom tried again
        task_id = _find_number(first)
        return None if task_id is None else (TaskId(task_id), 1)
    task_id, number = _find_number(first), _find_number(second)
    return None if task_id is None or number is None else (TaskId(task_id), number)


def to_ready(entry: QueueEntry, *, is_brief: bool) -> TaskId | bytes:
    if is_brief or entry.added is None:
        return entry.task_id
    return b"%d %b" % (entry.task_id, to_brought(entry.added))


def find_ready(text: bytes) -> Ready | None:
    """The id, and what it brought along as far as it can be read."""
    first, _, rest = text.partition(b" ")
    task_id = find_task_id(first)
    if task_id is None:
        return None
    return task_id, find_brought(task_id, rest) if rest else None


def find_all_ready(texts: Sequence[bytes]) -> list[Ready]:
    """What can be read of these, in order. A batch is plain ids more often than not, and is then looked at as one."""
    if b"".join(texts).isdigit() and len(max(texts, key=len)) <= _MOST_DIGITS and b"" not in texts:
        return [(TaskId(number), None) for number in map(int, texts) if 0 < number <= MAX_ID]
    return [found for found in map(find_ready, texts) if found is not None]


def _find_number(text: bytes) -> int | None:
    if not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if 0 < number <= MAX_ID else None
