"""Task configs: what a type of task is."""

from datetime import datetime
from typing import Any

import msgspec

from rota.wire.base import Answer, Request
from rota.wire.task import Retry


class PutConfig(Request):
    """The whole definition of a type; what is left out gets its default."""

    name: str = ""
    description: str = ""
    executor: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "local"})  # and that type's own keys
    timeout_seconds: float = 300.0
    retry: Retry | None = None
    priority: int | str = 0
    max_concurrent: int | None = None
    rate_per_second: float | None = None
    payload: Any = None
    schedule: dict[str, Any] | None = None
    source: str = ""  # the set of files that it comes from, by which they are pruned
    enabled: bool = True
    revision: int | None = None  # what it is expected to replace; 0: it must be new


class TaskConfig(Answer):
    type: str
    tenant: str
    name: str
    description: str
    executor: dict[str, Any]
    timeout_seconds: float
    retry: Retry
    priority: int
    max_concurrent: int | None
    rate_per_second: float | None
    payload: Any
    schedule: dict[str, Any] | None
    next_fire_at: datetime | None
    enabled: bool
    revision: int
    created_at: datetime | None
    updated_at: datetime | None
    source: str = ""  # a server of an earlier release tells none
    updated_by: str = ""  # who made this revision, or the node whose code did; empty: the program itself


class RollBackConfig(Request):
    """Define a type again as it was."""

    revision: int
    expected_revision: int | None = None  # what it is expected to replace; 0: the type is deleted


class TriggerTask(Request):
    """Run a type now, with its own payload or this one."""

    payload: Any = None
