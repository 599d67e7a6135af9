"""From a request to a task: everything a client may get wrong is found here, before anything is written."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rota.domain.audit import AuditEntry
from rota.domain.checks import check_duration, check_instant, check_metadata, check_name, check_text, to_json
from rota.domain.errors import IdempotencyMismatchError, IllegalTransitionError, InvalidError
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId
from rota.domain.priority import parse_priority
from rota.domain.retry import RetryPolicy
from rota.domain.task import PENDING, Task, TaskSpec, TaskState
from rota.domain.task_config import SHORTEST_TIMEOUT, TaskConfig, check_payload

MAX_KEY_LENGTH = 255
NOT_ENDED = "has not ended; wait for its end, cancel it, or run it again with another payload"

RequestKey = tuple[TenantId, str]
First = tuple[TaskId, str]  # the task that a key stands for, and the digest of the request that made it


class Submission(Struct, frozen=True, kw_only=True):
    """A client's wish for one task; what is None comes from the task config."""

    type: str
    tenant_id: TenantId = DEFAULT_TENANT
    payload: Any = None
    name: str = ""
    priority: int | str | None = None
    metadata: Mapping[str, str] = {}
    scheduled_at: datetime | None = None
    delay: timedelta | None = None
    timeout: timedelta | None = None
    retry: RetryPolicy | None = None
    idempotency_key: str | None = None


class NewTask(Struct, frozen=True, gc=False):
    """A task that a store has yet to add, with the key that makes a repeated request harmless."""

    task: Task
    key: str | None = None
    digest: str = ""  # of the request, to tell a repeat from a different request under the same key
    audit: tuple[AuditEntry, ...] = ()  # kept if the task is added; tasks that were asked for together may share one

    @property
    def request_key(self) -> RequestKey | None:
        return None if self.key is None else (self.task.spec.tenant_id, self.key)


def find_owners(new: Sequence[NewTask], known: Mapping[RequestKey, First]) -> list[TaskId]:
    """For each, which task stands for it: its own, or the first that was asked for under its key, also in this batch.
    Raises IdempotencyMismatchError when that was a different request."""
    owners = [item.task.id for item in new]
    firsts: dict[RequestKey, First] = {}
    for place, item in enumerate(new):
        if item.key is None:
            continue
        key = (item.task.spec.tenant_id, item.key)
        owners[place], digest = firsts.setdefault(key, known.get(key, (owners[place], item.digest)))
        if digest != item.digest:
            raise IdempotencyMismatchError(item.key, owners[place])
    return owners


def wish_for(config: TaskConfig, target: datetime, *, backfill: str, payload: Any = None) -> Submission:
    """The wish that a target of the config's schedule stands for which a backfill makes up for. It has the backfill's
    name and a key, so that it makes one task under that name."""
    schedule = config.schedule
    if payload is None and schedule is not None and schedule.payload is not None:
        payload = json.loads(schedule.payload)
    moment = target.astimezone(UTC).isoformat()
    digest = hashlib.sha256(f"{config.type}\0{moment}".encode()).hexdigest()  # a type may be as long as a key
    return Submission(
        type=config.type,
        tenant_id=config.tenant_id,
        payload=payload,
        priority=None if schedule is None else schedule.priority,
        scheduled_at=target,
        metadata={"backfill": backfill},
        idempotency_key=f"backfill:{backfill}:{digest}",
    )


def compose(wish: Submission, config: TaskConfig | None, *, task_id: TaskId, now: datetime) -> NewTask:
    """The task that a submission asks for, or `InvalidError` naming the field that is wrong."""
    if config is None or (config.tenant_id, config.type) != (wish.tenant_id, wish.type):
        task_type = check_name("type", wish.type)
        raise InvalidError("type", f"no task config for {task_type!r}; start a worker that has it, or create it")
    check_enabled(config)
    timeout = config.timeout if wish.timeout is None else wish.timeout
    scheduled_at = _scheduled_at(wish, now)
    spec = TaskSpec(
        id=task_id,
        tenant_id=wish.tenant_id,
        type=config.type,
        name=check_text("name", wish.name, longest=200),
        payload=config.payload if wish.payload is None else _payload(wish, config),
        metadata=check_metadata("metadata", wish.metadata),
        created_at=now,
        scheduled_at=scheduled_at,
        timeout=check_duration("timeout_seconds", timeout, least=SHORTEST_TIMEOUT),
        retry=wish.retry or config.retry,
    )
    priority = parse_priority(config.priority if wish.priority is None else wish.priority)
    due_at = scheduled_at or now
    state = TaskState(id=task_id, tenant_id=wish.tenant_id, status=PENDING, due_at=due_at, priority=priority)
    return NewTask(Task(spec=spec, state=state), *_key(wish))


def check_enabled(config: TaskConfig) -> None:
    """Whether new tasks of the type are taken."""
    if not config.is_enabled:
        problem = f"task config {config.type!r} is disabled; resume it first: rota config-type resume {config.type}"
        raise InvalidError("type", problem)


def _payload(wish: Submission, config: TaskConfig) -> str:
    return check_payload(to_json("payload", wish.payload), executor_type=config.executor_type)


def compose_rerun(
    task: Task, *, task_id: TaskId, now: datetime, key: str | None = None, payload: str | None = None
) -> NewTask:
    """A new task that does the work of an ended one again; the old one stays. A key makes a repeat harmless.

    With a payload of its own it is other work, and the old one need not have ended."""
    if payload is None and not task.state.status.is_final:
        raise IllegalTransitionError(task.id, present=task.state.status, wanted="rerun", problem=NOT_ENDED)
    spec = replace(task.spec, id=task_id, created_at=now, scheduled_at=None, rerun_of=task.id)
    if payload is not None:
        spec = replace(spec, payload=payload)
    state = TaskState(id=task_id, tenant_id=spec.tenant_id, status=PENDING, due_at=now, priority=task.state.priority)
    new = Task(spec=spec, state=state)
    return NewTask(new) if key is None else NewTask(new, _check_key(key), _digest_of_rerun(task.id, payload))


def _digest_of_rerun(task_id: TaskId, payload: str | None) -> str:
    """Of the meaning, as that of a submission."""
    request = f"rerun of {task_id}"
    if payload is not None:
        request += f" with {json.dumps(json.loads(payload), sort_keys=True)}"
    return hashlib.sha256(request.encode()).hexdigest()


def _scheduled_at(wish: Submission, now: datetime) -> datetime | None:
    if wish.delay is None:
        return None if wish.scheduled_at is None else check_instant("scheduled_at", wish.scheduled_at).astimezone(UTC)
    if wish.scheduled_at is not None:
        raise InvalidError("delay_seconds", "cannot be combined with scheduled_at; give one of them")
    return now + check_duration("delay_seconds", wish.delay)


def _key(wish: Submission) -> tuple[str | None, str]:
    if wish.idempotency_key is None:
        return None, ""
    return _check_key(wish.idempotency_key), _digest(wish)


def _check_key(given: str) -> str:
    key = check_text("idempotency_key", given, longest=MAX_KEY_LENGTH)
    if not key or key != key.strip():  # some databases take a space at the end for nothing
        raise InvalidError("idempotency_key", "must not be empty, nor begin or end with white space")
    return key


def _as_given(policy: RetryPolicy) -> dict[str, Any]:
    """All of a policy but for what it may leave out since a later release."""
    later = ("retry_on", "give_up_on", "total_timeout")
    return {name: value for name, value in asdict(policy).items() if name not in later or value}


def _digest(wish: Submission) -> str:
    # Of the meaning, not the spelling: the order of keys, the time zone and a level's name do not count. What was not
    # given is left out, so that a later release with one more option still recognises an older request.
    request = {
        "type": wish.type,
        "payload": wish.payload,
        "name": wish.name,
        "priority": None if wish.priority is None else parse_priority(wish.priority),
        "metadata": dict(wish.metadata),
        "scheduled_at": wish.scheduled_at and wish.scheduled_at.astimezone(UTC),
        "delay": wish.delay,
        "timeout": wish.timeout,
        "retry": wish.retry and _as_given(wish.retry),
    }
    given = {key: value for key, value in request.items() if value is not None}
    return hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode()).hexdigest()
