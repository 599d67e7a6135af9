"""Ids: 63 bits, time-ordered, decimal strings on the wire.

    0 | 41 bits: milliseconds since 2024 | 10 bits: node slot | 12 bits: sequence

The slot is leased from the store, and a lease begins above every id of the one before it (`SlotLease`): two processes
never issue the same id, not even two of one name, of which the later takes the slot over. A clock that steps back does
not go back here: the sequence continues from the last id, and when 4,096 ids of a millisecond are used up it borrows
the next one.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import NewType

from rota.domain.errors import InvalidError

TaskId = NewType("TaskId", int)
WorkerId = NewType("WorkerId", int)  # the incarnation: new at every process start
NodeId = NewType("NodeId", str)
TenantId = NewType("TenantId", str)

DEFAULT_TENANT = TenantId("default")
CLUSTER = TenantId("(cluster)")  # no tenant: what is recorded under it belongs to the cluster itself
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
NODE_SLOTS = 1024
SEQUENCE_BITS = 12
TIME_SHIFT = 22
MAX_ID = 2**63 - 1
_MILLISECOND = timedelta(milliseconds=1)
_ID = re.compile(r"[1-9][0-9]{0,18}")


def next_id(last: int, *, now: datetime, slot: int) -> int:
    """The smallest id of this slot that is greater than `last` (an id of any slot) and not older than `now`."""
    own_bits = slot << SEQUENCE_BITS
    least = max(first_id_at(now) | own_bits, last + 1)
    if (least >> SEQUENCE_BITS) % NODE_SLOTS == slot:
        return least
    own = least >> TIME_SHIFT << TIME_SHIFT | own_bits
    return own if own > least else own + (1 << TIME_SHIFT)


def ids_left_after(some_id: int) -> int:
    """How many ids of the same slot and millisecond come right after one."""
    return (1 << SEQUENCE_BITS) - 1 - some_id % (1 << SEQUENCE_BITS)


def first_id_at(moment: datetime) -> int:
    """The smallest id that can be issued at this moment: turns a time filter into a range of ids."""
    return min(max((moment - EPOCH) // _MILLISECOND, 0) << TIME_SHIFT, MAX_ID)


def issued_at(some_id: int) -> datetime:
    """When an id was issued, to the millisecond."""
    return EPOCH + (some_id >> TIME_SHIFT) * _MILLISECOND


def parse_id(field: str, text: str) -> int:
    """Read an id from the wire."""
    if not _ID.fullmatch(text) or int(text) > MAX_ID:
        raise InvalidError(field, "must be a decimal id such as 311840962875392001")
    return int(text)
