"""Ids: 63 bits, time-ordered, decimal strings on the wire.

    0 | 41 bits: milliseconds since 2024 | 10 bits: node slot | 12 bits: sequence

The slot is leased from the store, so two processes never share one. A clock that steps back does not go back here:
the sequence continues from the last id, and when 4,096 ids of a millisecond are used up it borrows the next one.
"""

from datetime import UTC, datetime, timedelta
from typing import NewType

from rota.domain.errors import InvalidError

TaskId = NewType("TaskId", int)
WorkerId = NewType("WorkerId", int)  # the incarnation: new at every process start
NodeId = NewType("NodeId", str)
TenantId = NewType("TenantId", str)

DEFAULT_TENANT = TenantId("default")
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
NODE_SLOTS = 1024
SEQUENCE_BITS = 12
TIME_SHIFT = 22
MAX_ID = 2**63 - 1
_MILLISECOND = timedelta(milliseconds=1)


def next_id(last: int, *, now: datetime, slot: int) -> int:
    """The id that follows `last` on this slot; always greater, even when the clock went back."""
    fresh = ((now - EPOCH) // _MILLISECOND) << TIME_SHIFT | slot << SEQUENCE_BITS
    if fresh > last:
        return fresh
    if (last + 1) % (1 << SEQUENCE_BITS):
        return last + 1
    return ((last >> TIME_SHIFT) + 1) << TIME_SHIFT | slot << SEQUENCE_BITS


def first_id_at(moment: datetime) -> int:
    """The smallest id that can be issued at this moment: turns a time filter into a range of ids."""
    return min(max((moment - EPOCH) // _MILLISECOND, 0) << TIME_SHIFT, MAX_ID)


def issued_at(some_id: int) -> datetime:
    """When an id was issued, to the millisecond."""
    return EPOCH + (some_id >> TIME_SHIFT) * _MILLISECOND


def parse_id(field: str, text: str) -> int:
    """Read an id from the wire."""
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= MAX_ID:
        raise InvalidError(field, "must be a decimal id such as 311840962875392001")
    return int(text)
