"""Ids and attempts as they stand in Redis: decimal strings, `task id` and `task id:attempt number`.

Redis is shared with operators, and with other releases during an upgrade. So nothing that is read is trusted: what is
not an id is None here, and left out by the caller.
"""

from rota.domain.ids import MAX_ID, TaskId, WorkerId

Entry = tuple[TaskId, int]
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
    task_id, number = find_task_id(first), _find_number(second)
    return None if task_id is None or number is None else (task_id, number)


def _find_number(text: bytes) -> int | None:
    if not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if 0 < number <= MAX_ID else None
