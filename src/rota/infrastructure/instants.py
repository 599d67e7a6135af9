"""Instants and durations as whole microseconds, which every backend holds exactly."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=4096)  # the rows of a batch share their instants
def to_us(moment: datetime | None) -> int:
    """Microseconds since 1970, exactly; 0 for none."""
    return 0 if moment is None else (moment - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=4096)
def from_us(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


@lru_cache(maxsize=4096)
def find_us(microseconds: int) -> datetime | None:
    """The instant, or None for 0."""
    return from_us(microseconds) if microseconds else None


@lru_cache(maxsize=4096)  # and their timeouts
def duration_us(duration: timedelta) -> int:
    return duration // _MICROSECOND


@lru_cache(maxsize=4096)
def duration_of(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)
