"""Priority: 0 (normal) to 9 (most urgent), with aging so that nothing waits for ever.

The head of a level, its oldest entry, gains one level for each `step` it has waited there. Both an urgent flood and a
starved task age at the same pace, so the flood's head, which is served, stays young while the starved one grows old and
wins in the end.

How long a head has waited is measured by who takes from the queue, from when it first saw this head (`follow_heads`).
The time in the id would not do: it is that of the creation, and a task that was delayed for a day, or retried, has not
waited for a day. A new leader measures anew: a change of leader costs a starved head what it had gained, no more.
"""

from collections.abc import Mapping
from datetime import timedelta

from rota.domain.checks import check_number
from rota.domain.errors import InvalidError
from rota.domain.ids import TaskId

NORMAL = 0
HIGH = 5
URGENT = 9
LEVELS = range(NORMAL, URGENT + 1)
MOST_PRESSING_FIRST = LEVELS[::-1]  # while none of them waits
NAMES: Mapping[str, int] = {"normal": NORMAL, "high": HIGH, "urgent": URGENT}
AGING_STEP = timedelta(seconds=30)


def parse_priority(value: int | str, *, field: str = "priority") -> int:
    """A level from its number or its name."""
    if isinstance(value, str):
        if value not in NAMES:
            raise InvalidError(field, "must be 0 to 9, normal, high or urgent")
        return NAMES[value]
    return check_number(field, value, least=NORMAL, most=URGENT)


def effective(priority: int, waited: timedelta, *, step: timedelta = AGING_STEP) -> float:
    """The level at which a task competes after waiting this long."""
    return priority + max(waited, timedelta(0)) / step


def follow_heads(
    known: Mapping[int, tuple[TaskId, float]], heads: Mapping[int, TaskId], *, now: float
) -> dict[int, tuple[TaskId, float]]:
    """The head of each level and since when it is known, from what was known before and the heads of a take.

    `now` is seconds on any clock that only grows."""
    first_seen = {level: (head, now) for level, head in heads.items()}
    return first_seen | {level: seen for level, seen in known.items() if heads.get(level) == seen[0]}


def serving_order(waited: Mapping[int, timedelta], step: timedelta = AGING_STEP) -> list[int]:
    """The levels in the order to take from them, given how long the head of each has waited (`follow_heads`)."""
    return sorted(LEVELS, key=lambda level: (-effective(level, waited.get(level, timedelta(0)), step=step), -level))
