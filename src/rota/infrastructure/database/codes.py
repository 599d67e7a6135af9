"""How values stand in SQL: states and kinds as small numbers, instants and durations as microseconds."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from rota.domain.task import LogKind, TaskStatus

STATUS_CODES = {
    TaskStatus.BLOCKED: 1,
    TaskStatus.PENDING: 2,
    TaskStatus.PROCESSING: 3,
    TaskStatus.RETRYING: 4,
    TaskStatus.SUCCESS: 5,
    TaskStatus.FAILED: 6,
    TaskStatus.TIMEOUT: 7,
    TaskStatus.CANCELLED: 8,
}
STATUS_OF = {code: status for status, code in STATUS_CODES.items()}
KIND_CODES = {LogKind.STATE_CHANGE: 0, LogKind.RETRY: 1, LogKind.ERROR: 2, LogKind.INFO: 3}
KIND_OF = {code: kind for kind, code in KIND_CODES.items()}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=4096)  # the rows of a batch share their instants
def to_us(moment: datetime | None) -> int:
    """Microseconds since 1970, exactly; 0 for none."""
    return 0 if moment is None else (moment - _EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def find_us(microseconds: int) -> datetime | None:
    """The instant, or None for 0."""
    return _EPOCH + timedelta(microseconds=microseconds) if microseconds else None


@lru_cache(maxsize=4096)  # and their timeouts
def duration_us(duration: timedelta) -> int:
    return duration // _MICROSECOND
