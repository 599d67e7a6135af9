"""A recurring schedule of a task config, and its occurrences.

Every target time ends as exactly one occurrence, FIRED or SKIPPED with its reason; nothing is missed in silence.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rota.domain.checks import check_text, check_zone
from rota.domain.errors import InvalidError
from rota.domain.ids import DEFAULT_TENANT, TaskId, TenantId

MAX_CRON_LENGTH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a task config fires."""

    cron: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if not check_text("schedule.cron", self.cron, longest=MAX_CRON_LENGTH).strip():
            raise InvalidError("schedule.cron", "must not be empty; try */5 * * * *")
        check_zone("schedule.zone", self.zone)


class OccurrenceStatus(StrEnum):
    FIRED = "FIRED"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One target time of a schedule and what became of it."""

    task_type: str
    fire_at: datetime
    tenant_id: TenantId = DEFAULT_TENANT
    task_id: TaskId | None = None  # None: skipped
    reason: str = ""  # why it was skipped

    def __post_init__(self) -> None:
        if self.task_id is None and not self.reason:
            raise InvalidError("reason", "must say why the target time was skipped")

    @property
    def status(self) -> OccurrenceStatus:
        return OccurrenceStatus.SKIPPED if self.task_id is None else OccurrenceStatus.FIRED
