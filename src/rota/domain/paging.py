"""Lists are cut into pages by key, never by offset: a page costs the same wherever it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from rota.domain.checks import check_aware, check_metadata, check_name, check_number, check_text
from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId, WorkerId
from rota.domain.task import TaskStatus

MAX_PAGE = 1000
MOST_LOOKED_AT = 20_000  # of what one page may have to pass over
MAX_PURGE = 5_000  # a database bounds the parameters of a statement: SQLite 32,766, PostgreSQL 32,767

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some items and, when there may be more, where to go on."""

    items: tuple[Item, ...]
    next_before: TaskId | None
    is_short: bool = False  # it has fewer items than asked for, as enough was looked at: more may match further on


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks to list; empty means any. Newest first, by id."""

    tenant_id: TenantId = DEFAULT_TENANT
    statuses: frozenset[TaskStatus] = frozenset()
    types: frozenset[str] = frozenset()
    worker_id: WorkerId | None = None
    priorities: frozenset[int] = frozenset()
    created_after: datetime | None = None
    created_before: datetime | None = None
    text: str = ""  # found in the name or the type
    metadata: Mapping[str, str] = field(default_factory=dict)
    before: TaskId | None = None  # the cursor
    limit: int = 50

    def __post_init__(self) -> None:
        check_number("limit", self.limit, least=1, most=MAX_PAGE)
        check_text("q", self.text, longest=200)
        check_metadata("metadata", self.metadata)
        for task_type in self.types:
            check_name("type", task_type)
        for field_name, moment in (("created_after", self.created_after), ("created_before", self.created_before)):
            if moment is not None:
                check_aware(field_name, moment)


def purge_limit(limit: int) -> int:
    """How many one purge deletes at most when it is asked for so many."""
    if limit < 1:
        raise InvalidError("limit", "must be at least 1")
    return min(limit, MAX_PURGE)
