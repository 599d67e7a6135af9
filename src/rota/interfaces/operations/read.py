"""From the JSON of the API to what the use cases take; a value that is wrong is an `InvalidError` with its field."""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from rota.domain.audit import AuditFilter
from rota.domain.checks import check_duration, check_text, to_json
from rota.domain.durations import parse_duration
from rota.domain.errors import InvalidError
from rota.domain.ids import CLUSTER, TaskId, TenantId, WorkerId, parse_id
from rota.domain.paging import TaskFilter
from rota.domain.priority import parse_priority
from rota.domain.retry import STANDARD_RETRY, RetryPolicy, check_spelling
from rota.domain.schedule_form import schedule_from
from rota.domain.submission import Submission
from rota.domain.task_config import TaskConfig, check_payload
from rota.interfaces.operations.queries import ListAuditQuery, ListTasksQuery
from rota.wire.config import PutConfig, TriggerTask
from rota.wire.task import CreateTask, Retry, TaskChoice

T = TypeVar("T")

LONGEST_WAIT = timedelta(seconds=60)  # proxies cut what is silent for longer


def seconds(field: str, value: float) -> timedelta:
    """A duration from its number of seconds."""
    return parse_duration(field, value)


def optional_seconds(field: str, value: float | None) -> timedelta | None:
    return None if value is None else seconds(field, value)


def wait_of(text: str) -> timedelta:
    """How long to wait for a task: `30`, `30s`."""
    if text[-1:].isdigit():
        text = f"{text}s"
    wait = parse_duration("wait", text)
    if wait > LONGEST_WAIT:
        raise InvalidError("wait", f"must be at most {LONGEST_WAIT.total_seconds():g} seconds; ask again after that")
    return wait


def submission(body: CreateTask, *, tenant_id: TenantId, key: str | None) -> Submission:
    return Submission(
        type=body.type,
        tenant_id=tenant_id,
        payload=body.payload,
        name=body.name,
        priority=body.priority,
        metadata=body.metadata,
        scheduled_at=body.scheduled_at,
        delay=optional_seconds("delay_seconds", body.delay_seconds),
        timeout=optional_seconds("timeout_seconds", body.timeout_seconds),
        retry=None if body.retry is None else retry_policy(body.retry),
        idempotency_key=key,
    )


def trigger(body: TriggerTask, *, task_type: str, tenant_id: TenantId, key: str | None) -> Submission:
    return Submission(type=task_type, tenant_id=tenant_id, payload=body.payload, idempotency_key=key)


def retry_policy(retry: Retry) -> RetryPolicy:
    return RetryPolicy(
        max_retries=retry.max_retries,
        strategy=retry.strategy,
        delay=seconds("retry.delay_seconds", retry.delay_seconds),
        backoff_rate=retry.backoff_rate,
        max_delay=seconds("retry.max_delay_seconds", retry.max_delay_seconds),
        jitter=retry.jitter,
        retry_on=check_spelling("retry.retry_on", retry.retry_on),
        give_up_on=check_spelling("retry.give_up_on", retry.give_up_on),
        total_timeout=optional_seconds("retry.total_timeout_seconds", retry.total_timeout_seconds),
    )


def task_config(body: PutConfig, *, task_type: str, tenant_id: TenantId) -> TaskConfig:
    executor_type, settings = _executor(body.executor)
    return TaskConfig(
        type=task_type,
        tenant_id=tenant_id,
        name=body.name,
        description=body.description,
        executor_type=executor_type,
        executor_config=settings,
        timeout=check_duration("timeout_seconds", seconds("timeout_seconds", body.timeout_seconds)),
        retry=STANDARD_RETRY if body.retry is None else retry_policy(body.retry),
        priority=parse_priority(body.priority),
        max_concurrent=body.max_concurrent,
        rate_per_second=body.rate_per_second,
        payload=_default_payload(body, executor_type),
        schedule=None if body.schedule is None else schedule_from(body.schedule),
        source=body.source,
        is_enabled=body.enabled,
    )


def _default_payload(body: PutConfig, executor_type: str) -> str:
    return (
        "{}" if body.payload is None else check_payload(to_json("payload", body.payload), executor_type=executor_type)
    )


def _executor(given: Mapping[str, Any]) -> tuple[str, str]:
    kind = given.get("type")
    if not isinstance(kind, str):
        raise InvalidError("executor.type", "must name an executor, such as local")
    return kind, to_json("executor", {key: value for key, value in given.items() if key != "type"})


def task_filter(query: ListTasksQuery, tenant_id: TenantId) -> TaskFilter:
    return TaskFilter(
        tenant_id=tenant_id,
        statuses=frozenset(query.status),
        types=frozenset(query.type),
        worker_id=_worker_id(query.worker),
        priorities=frozenset(query.priority),
        created_after=query.created_after,
        created_before=query.created_before,
        text=query.q,
        metadata=query.metadata,
        before=None if query.cursor is None else TaskId(number_cursor(query.cursor)),
        limit=query.limit,
    )


def audit_filter(query: ListAuditQuery, tenant_id: TenantId) -> AuditFilter:
    return AuditFilter(
        tenant_id=CLUSTER if query.cluster else tenant_id,
        actor=query.actor,
        action=query.action,
        object=query.object,
        after=query.after,
        before=query.before,
        below=None if query.cursor is None else number_cursor(query.cursor),
        limit=query.limit,
    )


def selection_filter(body: TaskChoice, tenant_id: TenantId) -> TaskFilter:
    """The filter of a bulk action. One that would mean every task there is must be a slip."""
    for level in body.priority:
        parse_priority(level)
    filters = (body.status, body.type, body.worker, body.priority, body.created_after, body.created_before)
    is_filtered = any(filters) or bool(body.q) or bool(body.metadata)
    if is_filtered == bool(body.ids):
        problem = "cannot be combined with other filters" if body.ids else "or at least one filter is needed"
        raise InvalidError("ids", problem)
    return TaskFilter(
        tenant_id=tenant_id,
        statuses=frozenset(body.status),
        types=frozenset(body.type),
        worker_id=_worker_id(body.worker),
        priorities=frozenset(body.priority),
        created_after=body.created_after,
        created_before=body.created_before,
        text=body.q,
        metadata=body.metadata,
        before=None if body.cursor is None else TaskId(number_cursor(body.cursor)),
    )


def _worker_id(text: str | None) -> WorkerId | None:
    return None if text is None else WorkerId(parse_id("worker", text))


def write_cursor(place: int | str) -> str:
    """Where a list goes on. Opaque: what it is made of may change."""
    return base64.urlsafe_b64encode(json.dumps([place]).encode()).decode().rstrip("=")


def cursor_after(found: Sequence[T], limit: int, *, place: Callable[[T], int | str]) -> str | None:
    """Where the page after this one begins; None after the last."""
    return write_cursor(place(found[-1])) if len(found) == limit else None


def number_cursor(text: str) -> int:
    """The place of a list by number."""
    place = _read_cursor(text)
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < 2**63:
        raise _bad_cursor()
    return place


def text_cursor(text: str | None) -> str:
    """The place of a list by name."""
    place = "" if text is None else _read_cursor(text)
    if not isinstance(place, str):
        raise _bad_cursor()
    return check_text("cursor", place, longest=200)


def time_cursor(text: str) -> tuple[datetime, int]:
    """The place of a list by time, and how much the whole list has."""
    at, _, total = text_cursor(text).partition(" ")
    try:
        return datetime.fromisoformat(at), int(total)
    except ValueError as exc:
        raise _bad_cursor() from exc


def _read_cursor(text: str) -> Any:
    try:
        read = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError) as exc:
        raise _bad_cursor() from exc
    if not isinstance(read, list) or len(read) != 1:
        raise _bad_cursor()
    return read[0]


def _bad_cursor() -> InvalidError:
    return InvalidError("cursor", "is not the next_cursor of an earlier answer; leave it out to begin anew")
