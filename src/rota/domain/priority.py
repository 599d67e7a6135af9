"""Priority: 0 (normal) to 9 (most urgent), with aging so that nothing waits for ever.

A waiting task gains one level for each `step` it has waited. Both an urgent flood and a starved task age at the same
pace, so the flood's head, which is served, stays young while the starved one grows old and wins in the end.
"""

from collections.abc import Mapping
from datetime import timedelta

from rota.domain.checks import check_number
from rota.domain.errors import InvalidError

NORMAL = 0
HIGH = 5
URGENT = 9
LEVELS = range(NORMAL, URGENT + 1)
NAMES: Mapping[str, int] = {"normal": NORMAL, "high": HIGH, "urgent": URGENT}
AGING_STEP = timedelta(seconds=30)


def parse_priority(value: int | str) -> int:
    """A level from its number or its name."""
    if isinstance(value, str):
        if value not in NAMES:
            raise InvalidError("priority", "must be 0 to 9, normal, high or urgent")
        return NAMES[value]
    return check_number("priority", value, least=NORMAL, most=URGENT)


def effective(priority: int, waited: timedelta, *, step: timedelta = AGING_STEP) -> float:
    """The level at which a task competes after waiting this long."""
    return priority + max(waited, timedelta(0)) / step


def serving_order(waited: Mapping[int, timedelta], step: timedelta = AGING_STEP) -> list[int]:
    """The levels in the order to take from them, given how long the oldest entry of each has waited."""
    return sorted(LEVELS, key=lambda level: (-effective(level, waited.get(level, timedelta(0)), step=step), -level))
