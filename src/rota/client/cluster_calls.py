"""The requests that concern task configs, workers, figures and tokens."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import NoneType
from typing import Any, TypedDict

import msgspec

from rota.client.call import Call, path_of, reading, to_body, writing
from rota.client.task_calls import KEY_HEADER, new_key, page_query
from rota.client.views import read_task
from rota.domain.errors import InvalidError, NotFoundError
from rota.sdk.views import TaskView
from rota.wire.access import AuditEntry, CreateToken, NewToken, Token
from rota.wire.base import Page
from rota.wire.changes import Change, changes
from rota.wire.cluster import Cluster, Election, Event, PatchWorker, Queues, QueueTypes, Settings, Stats, Worker
from rota.wire.config import PutConfig, RollBackConfig, TaskConfig, TriggerTask
from rota.wire.mistakes import explain
from rota.wire.report import Report

MOST_COMPARED = 500  # revisions that are read to find two of them
CONFIGS, WORKERS, TOKENS = "task-configs", "workers", "tokens"


def put_config(type: str, definition: PutConfig | Mapping[str, Any]) -> Call[TaskConfig]:
    """Set the whole definition. The same again makes the same, unless a revision is expected."""
    body = definition if isinstance(definition, PutConfig) else read_definition(type, definition)
    path = path_of(CONFIGS, type)
    return writing("PUT", path, kind=TaskConfig, body=body, may_repeat=body.revision is None)


def check_config(type: str, definition: PutConfig | Mapping[str, Any]) -> Call[TaskConfig]:
    """Changes nothing, so that it may be sent again."""
    body = definition if isinstance(definition, PutConfig) else read_definition(type, definition)
    return writing("POST", path_of(CONFIGS, type, verb="check"), kind=TaskConfig, body=body, may_repeat=True)


def get_config(type: str) -> Call[TaskConfig]:
    return reading(path_of(CONFIGS, type), TaskConfig)


def list_configs(cursor: str | None, size: int) -> Call[Page[TaskConfig]]:
    return reading(path_of(CONFIGS), Page[TaskConfig], query=page_query(cursor, size))


def delete_config(type: str) -> Call[None]:
    return writing("DELETE", path_of(CONFIGS, type), kind=NoneType)


def pause_config(type: str) -> Call[TaskConfig]:
    return writing("POST", path_of(CONFIGS, type, verb="pause"), kind=TaskConfig, may_repeat=True)


def resume_config(type: str) -> Call[TaskConfig]:
    return writing("POST", path_of(CONFIGS, type, verb="resume"), kind=TaskConfig, may_repeat=True)


def list_revisions(type: str, limit: int) -> Call[Page[TaskConfig]]:
    return reading(path_of(CONFIGS, type, "revisions"), Page[TaskConfig], query=[("limit", str(limit))])


def compare(revisions: Sequence[TaskConfig], before: int, *, after: int) -> list[Change]:
    """What one of the revisions says differently from another."""
    known = {one.revision: one for one in revisions}
    for number in (before, after):
        if number not in known:
            raise NotFoundError("task config revision", number)
    return changes(known[before], known[after])


def roll_back_config(type: str, revision: int, *, expected: int | None) -> Call[TaskConfig]:
    """The same again changes nothing more."""
    body = RollBackConfig(revision=revision, expected_revision=expected)
    return writing("POST", path_of(CONFIGS, type, verb="rollback"), kind=TaskConfig, body=body, may_repeat=True)


def trigger_config(type: str, payload: Any) -> Call[TaskView]:
    path, body = path_of(CONFIGS, type, verb="trigger"), to_body(TriggerTask(payload=payload))
    headers = {KEY_HEADER: new_key()}  # one task, however often it is sent
    return Call(method="POST", path=path, read=read_task, body=body, headers=headers, may_repeat=True)


def list_workers(cursor: str | None, size: int) -> Call[Page[Worker]]:
    return reading(path_of(WORKERS), Page[Worker], query=page_query(cursor, size))


def get_worker(worker_id: str) -> Call[Worker]:
    return reading(path_of(WORKERS, worker_id), Worker)


def steer_worker(worker_id: str, verb: str) -> Call[Worker]:
    """`drain` or `resume`: told twice, it is as told once."""
    return writing("POST", path_of(WORKERS, worker_id, verb=verb), kind=Worker, may_repeat=True)


def set_capacity(worker_id: str, capacity: int) -> Call[Worker]:
    body = PatchWorker(capacity=capacity)
    return writing("PATCH", path_of(WORKERS, worker_id), kind=Worker, body=body, may_repeat=True)


def queues() -> Call[Queues]:
    return reading(path_of("queues"), Queues)


def queue_types() -> Call[QueueTypes]:
    return reading(path_of("queues", "types"), QueueTypes)


def stats() -> Call[Stats]:
    return reading(path_of("stats"), Stats)


class ReportOptions(TypedDict, total=False):
    """What a report is about; without it, the last week by day in UTC, of all types."""

    begin: datetime
    end: datetime
    by: str
    zone: str
    types: Sequence[str]


def report(options: ReportOptions) -> Call[Report]:
    names = {"begin": "from", "end": "to", "by": "by", "zone": "zone"}
    given = [(name, options.get(key)) for key, name in names.items()]
    query = [(name, value.isoformat() if isinstance(value, datetime) else str(value)) for name, value in given if value]
    types = [("task_type", one) for one in options.get("types", ())]
    return reading(path_of("reports"), Report, query=[*query, *types])


def cluster() -> Call[Cluster]:
    return reading(path_of("cluster"), Cluster)


def elections(limit: int) -> Call[Page[Election]]:
    return reading(path_of("cluster", "elections"), Page[Election], query=[("limit", str(limit))])


def settings() -> Call[Settings]:
    return reading(path_of("settings"), Settings)


def events(types: Sequence[str], kinds: Sequence[str]) -> Call[Event]:
    """What happens, as a stream."""
    query = [*(("type", name) for name in types), *(("kind", name) for name in kinds)]
    return reading(path_of("events"), Event, query=query)


def create_token(name: str, role: str, *, expires_in: timedelta | None) -> Call[NewToken]:
    seconds = None if expires_in is None else expires_in.total_seconds()
    body = CreateToken(name=name, role=role, expires_in_seconds=seconds)
    return writing("POST", path_of(TOKENS), kind=NewToken, body=body)


def list_tokens(cursor: str | None, size: int) -> Call[Page[Token]]:
    return reading(path_of(TOKENS), Page[Token], query=page_query(cursor, size))


def revoke_token(token_id: str) -> Call[None]:
    return writing("DELETE", path_of(TOKENS, token_id), kind=NoneType, may_repeat=True)


class AuditOptions(TypedDict, total=False):
    """Which entries are asked for; each text must be met whole. `cluster`: what the cluster did itself, instead."""

    actor: str
    action: str
    object: str
    after: datetime
    before: datetime
    cluster: bool


def list_audit(cursor: str | None, size: int, *, options: AuditOptions) -> Call[Page[AuditEntry]]:
    given = [(name, _spell(value)) for name, value in options.items() if value]
    return reading(path_of("audit"), Page[AuditEntry], query=[*page_query(cursor, size), *given])


def _spell(value: object) -> str:
    """A value as it stands in a query."""
    if isinstance(value, datetime):
        return value.isoformat()
    return "true" if value is True else str(value)


def read_definition(type: str, definition: Mapping[str, Any]) -> PutConfig:
    fields = dict(definition)
    if fields.pop("type", type) != type:
        raise InvalidError("type", f"is {definition['type']!r} in the definition and {type!r} beside it")
    try:
        return msgspec.convert(fields, PutConfig)
    except msgspec.ValidationError as exc:
        raise explain(exc, PutConfig, whole="definition") from exc
