"""The requests that concern tasks."""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import msgspec

from rota.client.call import Call, as_kind, path_of, reading, to_body, writing
from rota.client.views import read_task, read_tasks
from rota.domain.checks import check_aware, check_number
from rota.domain.durations import parse_duration
from rota.domain.errors import InvalidError
from rota.domain.retry import RetryPolicy
from rota.domain.task import TaskStatus
from rota.sdk.options import SubmitOptions, check_known
from rota.sdk.views import TaskView
from rota.wire.base import Page
from rota.wire.task import (
    BulkCount,
    CancelTask,
    CreatedTasks,
    CreateTask,
    Explanation,
    LogLine,
    PatchTask,
    ReprioritiseTasks,
    Retry,
    RetryTask,
    TaskSelection,
)

BATCH = 1000  # tasks in one request of `submit_many`
BATCH_BYTES = 8 * 1024**2  # of JSON; half of what a server takes
KEY_HEADER = "Idempotency-Key"
LARGEST_PAGE = 1000
LONGEST_WAIT = timedelta(seconds=30)  # that one request asks the server to wait; longer waits are several requests


class TaskFilters(TypedDict, total=False):
    """Which tasks: all that is given must be met; of several values, one."""

    status: str | Sequence[str]
    type: str | Sequence[str]
    worker: str
    priority: int | Sequence[int]
    created_after: datetime
    created_before: datetime
    q: str
    metadata: Mapping[str, str]


def submit(type: str, payload: Any, *, options: SubmitOptions) -> Call[TaskView]:
    """Create one task. It has a key, so that it may be sent again and is created once."""
    check_known(options, SubmitOptions)
    wish = _wish(type, payload, options=options, key=_key_of(options))
    return Call(method="POST", path=path_of("tasks"), read=read_task, body=to_body(wish), may_repeat=True)


def submit_many(type: str, payloads: Iterable[Any], *, options: SubmitOptions) -> Iterator[Call[CreatedTasks]]:
    """Create tasks in batches; each task has a key of its own, made of one for all and its number."""
    check_known(options, SubmitOptions)
    key = _key_of(options)
    batch, size = bytearray(), 0
    for place, payload in enumerate(payloads):
        wish = to_body(_wish(type, payload, options=options, key=f"{key}:{place}"), within=f"tasks[{place}]")
        if size == BATCH or (len(batch) + len(wish) > BATCH_BYTES and size):
            yield _batch(batch)
            batch, size = bytearray(), 0
        batch += b"," + wish if size else wish
        size += 1
    if size:
        yield _batch(batch)


def _batch(wishes: bytearray) -> Call[CreatedTasks]:
    """From wishes that are JSON already: they were written once to be measured."""
    body, path = b'{"tasks":[' + bytes(wishes) + b"]}", path_of("tasks", verb="batch")
    return Call(method="POST", path=path, read=as_kind(CreatedTasks), body=body, may_repeat=True)


def new_key() -> str:
    """An idempotency key that nobody else makes."""
    return f"auto-{secrets.token_urlsafe(16)}"


def get(task_id: str, wait: timedelta = timedelta(0)) -> Call[TaskView]:
    """One task; with a wait, at its end or after that time."""
    query = [("wait", f"{wait.total_seconds():.3f}")] if wait else []
    return Call(method="GET", path=path_of("tasks", task_id), read=read_task, query=query, may_repeat=True, waits=wait)


def list_pages(
    filters: TaskFilters, *, size: int, is_full: bool = False
) -> Callable[[str | None], Call[Page[TaskView]]]:
    """From a cursor to the request for the page there, of the tasks that match."""
    check_known(filters, TaskFilters)

    def ask(cursor: str | None) -> Call[Page[TaskView]]:
        query = [*page_query(cursor, size), *_query(filters), *([("full", "true")] if is_full else [])]
        return Call(method="GET", path=path_of("tasks"), read=read_tasks, query=query, may_repeat=True)

    return ask


def patch(task_id: str, *, priority: int | str | None, scheduled_at: datetime | None) -> Call[TaskView]:
    """Change a waiting task. To set the same again changes nothing more, so it may be repeated."""
    body = to_body(PatchTask(priority=priority, scheduled_at=scheduled_at))
    return Call(method="PATCH", path=path_of("tasks", task_id), read=read_task, body=body, may_repeat=True)


def cancel(task_id: str, reason: str) -> Call[TaskView]:
    body = to_body(CancelTask(reason=reason))
    return Call(method="POST", path=path_of("tasks", task_id, verb="cancel"), read=read_task, body=body)


def retry(task_id: str, payload: Any) -> Call[TaskView]:
    """Do it again as a new task; with a key, so that it is one new task however often it is sent."""
    path, headers = path_of("tasks", task_id, verb="retry"), {KEY_HEADER: new_key()}
    body = None if payload is None else to_body(RetryTask(payload=payload))
    return Call(method="POST", path=path, read=read_task, body=body, headers=headers, may_repeat=True)


def log_page(task_id: str, cursor: str | None, *, size: int) -> Call[Page[LogLine]]:
    return reading(path_of("tasks", task_id, "logs"), Page[LogLine], query=page_query(cursor, size))


def log_stream(task_id: str) -> Call[LogLine]:
    """The record as a stream of lines."""
    return reading(path_of("tasks", task_id, "logs"), LogLine)


def explain(task_id: str) -> Call[Explanation]:
    return reading(path_of("tasks", task_id, "explain"), Explanation)


class BulkAction:
    """The same for all tasks that match, a bounded number in each request. The shell sends `next` until it is None."""

    def __init__(self, verb: str, wanted: TaskSelection | ReprioritiseTasks) -> None:
        self._selection = wanted
        self._path = path_of("tasks", verb=verb)
        self._is_over = False
        self.total = BulkCount(matched=0, changed=0, skipped=0, has_more=True)

    def next(self) -> Call[BulkCount] | None:
        """The request for the next piece."""
        if self._is_over:
            return None
        return writing("POST", self._path, kind=BulkCount, body=self._selection)

    def add(self, count: BulkCount) -> None:
        """What became of a piece."""
        before = self.total
        self.total = BulkCount(
            matched=before.matched + count.matched,
            changed=before.changed + count.changed,
            skipped=before.skipped + count.skipped,
            has_more=count.has_more,
            next_cursor=count.next_cursor,
        )
        self._selection = msgspec.structs.replace(self._selection, cursor=count.next_cursor)
        self._is_over = count.next_cursor is None


def cancel_all(filters: TaskFilters, reason: str) -> BulkAction:
    """End all tasks that match."""
    return BulkAction("cancel", TaskSelection(**_wanted(filters), reason=reason))


def retry_all(filters: TaskFilters) -> BulkAction:
    """Do the work of all that match again."""
    return BulkAction("retry", TaskSelection(**_wanted(filters)))


def reprioritise_all(filters: TaskFilters, to: int | str) -> BulkAction:
    """Make all that match and wait as urgent as this."""
    return BulkAction("reprioritise", ReprioritiseTasks(**_wanted(filters), new_priority=to))


def page_query(cursor: str | None, size: int) -> list[tuple[str, str]]:
    """The part of a query that every list has."""
    check_number("page_size", size, least=1, most=LARGEST_PAGE)
    return [("limit", str(size)), *([("cursor", cursor)] if cursor is not None else [])]


def _wish(type: str, payload: Any, *, options: SubmitOptions, key: str) -> CreateTask:
    delay, timeout = options.get("delay"), options.get("timeout")
    return CreateTask(
        type=type,
        payload=payload,
        name=options.get("name", ""),
        priority=options.get("priority"),
        metadata=options.get("metadata", {}),
        scheduled_at=_aware("scheduled_at", options.get("scheduled_at")),
        delay_seconds=None if delay is None else parse_duration("delay", delay).total_seconds(),
        timeout_seconds=None if timeout is None else parse_duration("timeout", timeout).total_seconds(),
        retry=_retry_of(options),
        idempotency_key=key,
    )


def _key_of(options: SubmitOptions) -> str:
    """An empty one is most likely a variable that was not set: a new one in its place would let work be done twice."""
    key = options.get("idempotency_key")
    if key == "":
        raise InvalidError("idempotency_key", "must not be empty; leave it out where the same may be done twice")
    return new_key() if key is None else key


def _retry_of(options: SubmitOptions) -> Retry | None:
    policy = options.get("retry")
    if policy is not None and not isinstance(policy, RetryPolicy):
        raise InvalidError("retry", f"must be a rota.RetryPolicy, not {type(policy).__name__}")
    return None if policy is None else Retry.of(policy)


def _aware(field: str, moment: datetime | None) -> datetime | None:
    return None if moment is None else check_aware(field, moment).astimezone(UTC)


def _wanted(filters: TaskFilters) -> dict[str, Any]:
    """The filters as the body of a bulk action has them."""
    check_known(filters, TaskFilters)
    return {
        "status": _statuses(filters),
        "type": _several(filters.get("type")),
        "worker": filters.get("worker"),
        "priority": _several(filters.get("priority")),
        "created_after": _aware("created_after", filters.get("created_after")),
        "created_before": _aware("created_before", filters.get("created_before")),
        "q": filters.get("q", ""),
        "metadata": filters.get("metadata", {}),
    }


def _query(filters: TaskFilters) -> Iterator[tuple[str, str]]:
    yield from (("status", status) for status in _statuses(filters))
    yield from (("type", name) for name in _several(filters.get("type")))
    yield from (("priority", str(level)) for level in _several(filters.get("priority")))
    yield from ((key, text) for key, text in (("worker", filters.get("worker")), ("q", filters.get("q"))) if text)
    for bound, moment in (
        ("created_after", filters.get("created_after")),
        ("created_before", filters.get("created_before")),
    ):
        if moment is not None:
            yield bound, check_aware(bound, moment).astimezone(UTC).isoformat()
    yield from ((f"metadata.{key}", value) for key, value in filters.get("metadata", {}).items())


def _statuses(filters: TaskFilters) -> list[TaskStatus]:
    wanted = _several(filters.get("status"))
    try:
        return [TaskStatus(status.upper()) for status in wanted]
    except ValueError as exc:
        raise InvalidError("status", f"must be of {', '.join(TaskStatus)}") from exc


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, str | int) else list(value)
