"""Between task configs and their rows: what is searched for is a column, the rest is one JSON document."""

from datetime import timedelta
from typing import Any

import msgspec

from rota.domain.ids import TaskId, TenantId
from rota.domain.schedule import Schedule
from rota.domain.schedule_form import schedule_from, schedule_to
from rota.domain.task_config import TaskConfig
from rota.infrastructure.instants import duration_us, find_us
from rota.infrastructure.store.sql.task_rows import retry_from_json, retry_to_json, rules_to_json


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
    schedule: dict[str, Any] | None = None  # what it says beyond cron and zone, which every release knows


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
        schedule=schedule or None,
    )
    return msgspec.json.encode(document).decode()


def to_config(row: Any) -> TaskConfig:
    """From a row of `task_config` or of its revisions."""
    document = msgspec.json.decode(row.config_json, type=_Document)
    return TaskConfig(
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
        schedule=_schedule(document),
        next_fire_at=find_us(row.next_fire_us),
        runs=getattr(row, "runs", 0),
        last_run=TaskId(last_run) if (last_run := getattr(row, "last_run", 0)) else None,
        is_enabled=bool(row.is_enabled),
        revision=row.revision,
        created_at=find_us(row.created_us),
        updated_at=find_us(row.updated_us),
    )


def _schedule(document: _Document) -> Schedule | None:
    if document.cron is None and document.schedule is None:
        return None
    return schedule_from({"cron": document.cron, "zone": document.zone, **(document.schedule or {})})
