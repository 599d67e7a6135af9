"""Between task configs and their rows: what is searched for is a column, the rest is one JSON document."""

from collections.abc import Iterable
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec
import structlog

from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId, TenantId
from rota.domain.schedule import Schedule
from rota.domain.schedule_form import schedule_from, schedule_to
from rota.domain.task_config import TaskConfig, UnreadableConfig
from rota.infrastructure.instants import duration_us, find_us, from_us
from rota.infrastructure.store.sql.task_rows import retry_from_json, retry_to_json, rules_to_json

_NOTHING = msgspec.Raw(b"")
# In `is_enabled`, where 0 says that it is not. What is paused is enabled to all but those who look for what is due.
ENABLED = 1
PAUSED = 2

log = structlog.get_logger(__name__)


class _Document(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    description: str
    executor_type: str
    executor_config: str
    timeout_us: int
    retry: str
    priority: int
    payload: str
    max_concurrent: int | None = None
    rate_per_second: float | None = None
    cron: str | None = None
    zone: str = "UTC"
    retry_rules: str | None = None
    source: str = ""
    updated_by: str = ""
    schedule: msgspec.Raw = _NOTHING  # what it says beyond cron and zone, which every release knows


_DECODER = msgspec.json.Decoder(_Document)
_SCHEDULES_KEPT = 16_384  # a kilobyte each; most configs share theirs, and reading one takes as long as firing it


def config_to_json(config: TaskConfig) -> str:
    schedule = schedule_to(config.schedule) if config.schedule else {}
    cron, zone = schedule.pop("cron", None), schedule.pop("zone", "UTC")
    document = _Document(
        name=config.name,
        description=config.description,
        executor_type=config.executor_type,
        executor_config=config.executor_config,
        timeout_us=duration_us(config.timeout),
        retry=retry_to_json(config.retry),
        priority=config.priority,
        payload=config.payload,
        max_concurrent=config.max_concurrent,
        rate_per_second=config.rate_per_second,
        retry_rules=rules_to_json(config.retry),
        cron=cron,
        zone=zone,
        source=config.source,
        updated_by=config.updated_by,
        schedule=msgspec.Raw(msgspec.json.encode(schedule)) if schedule else _NOTHING,
    )
    return msgspec.json.encode(document).decode()


def enabled_code(config: TaskConfig) -> int:
    if not config.is_enabled:
        return 0
    return ENABLED if config.can_fire else PAUSED


def to_config(row: Any) -> TaskConfig:
    """From a row of `task_config` or of its revisions. `InvalidError` when this release cannot read it."""
    try:
        document = _DECODER.decode(row.config_json)
    except msgspec.MsgspecError as exc:
        raise InvalidError("config", f"what is stored as {row.type!r} cannot be read: {exc}") from exc
    return TaskConfig.as_stored(
        type=row.type,
        tenant_id=TenantId(row.tenant_id),
        name=document.name,
        description=document.description,
        executor_type=document.executor_type,
        executor_config=document.executor_config,
        timeout=timedelta(microseconds=document.timeout_us),
        retry=retry_from_json(document.retry, document.retry_rules),
        priority=document.priority,
        max_concurrent=document.max_concurrent,
        rate_per_second=document.rate_per_second,
        payload=document.payload,
        schedule=_schedule(document.cron, document.zone, written=bytes(document.schedule)),
        source=document.source,
        next_fire_at=find_us(row.next_fire_us),
        runs=getattr(row, "runs", 0),
        last_run=TaskId(last_run) if (last_run := getattr(row, "last_run", 0)) else None,
        is_enabled=bool(row.is_enabled),
        revision=row.revision,
        created_at=find_us(row.created_us),
        updated_at=find_us(row.updated_us),
        updated_by=document.updated_by,
    )


def to_due(row: Any) -> TaskConfig | UnreadableConfig:
    """The same of a row that is due; one that cannot be read must not hide the others."""
    try:
        return to_config(row)
    except InvalidError as exc:
        return UnreadableConfig(
            tenant_id=TenantId(row.tenant_id),
            type=row.type,
            revision=row.revision,
            next_fire_at=from_us(row.next_fire_us),
            problem=str(exc),
        )


def to_readable(rows: Iterable[Any]) -> list[TaskConfig]:
    """Those of the configs that can be read; the others are told of and left out."""
    found = []
    for row in rows:
        try:
            found.append(to_config(row))
        except InvalidError as exc:
            log.warning("config.unreadable", tenant=row.tenant_id, task_type=row.type, error=str(exc))
    return found


@lru_cache(maxsize=_SCHEDULES_KEPT)
def _schedule(cron: str | None, zone: str, *, written: bytes) -> Schedule | None:
    beyond = msgspec.json.decode(written) if written else {}
    return schedule_from({"cron": cron, "zone": zone, **beyond}) if cron is not None or beyond else None
