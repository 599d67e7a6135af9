"""What changes of the clocks do to the times that an expression names, for people who look at a schedule.

When it fires is decided in `recurrence.py`; here it is told where that differs from what the expression says. A pace
goes on in real time, and nothing is to be told.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice

from rota.domain.cron.pattern import DAY
from rota.domain.cron.recurrence import CronRecurrence, DstGap, Recurrence, between
from rota.domain.cron.stretches import BEGIN, END, Stretch, stretch_at

MOST_NAMED = 3  # times, of one gap

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


class ClockEffect(StrEnum):
    MOVED = "clocks_moved"  # to where the clocks go on, from times that they skip
    SKIPPED = "clocks_skipped"
    FIRST = "clocks_first"  # of the two times that the clocks show the same
    SECOND = "clocks_second"


@dataclass(frozen=True, slots=True)
class ClockChange:
    """What becomes of a target, or of times that are none, where the clocks are changed."""

    at: datetime  # of skipped times: when the clocks go forward
    effect: ClockEffect
    times: str = ""  # which the clocks skip


def list_clock_changes(recurrence: Recurrence, begin: datetime, *, end: datetime) -> list[ClockChange]:
    """Those from `begin` to `end`, in order."""
    if not isinstance(recurrence, CronRecurrence) or recurrence.expression.fields.is_interval_like:
        return []
    last = min((end - _EPOCH) // _SECOND + DAY, END)
    stretch = stretch_at(recurrence.zone, max((begin - _EPOCH) // _SECOND - DAY, BEGIN))
    found: list[ClockChange] = []
    while stretch.end < last:
        following = stretch_at(recurrence.zone, stretch.end)
        found += _changes(recurrence, stretch, after=following)
        stretch = following
    return [one for one in found if begin <= one.at <= end]


def _changes(recurrence: CronRecurrence, before: Stretch, *, after: Stretch) -> Iterator[ClockChange]:
    change = _EPOCH + after.begin * _SECOND
    forward = (after.offset - before.offset) * _SECOND
    if forward > timedelta(0):
        if times := _name_times(recurrence, after.begin + before.offset, end=after.begin + after.offset):
            is_moved = recurrence.gap is DstGap.RUN_AFTER
            yield ClockChange(change, ClockEffect.MOVED if is_moved else ClockEffect.SKIPPED, times)
        return
    for target in between(recurrence, change + forward, end=change - forward):
        yield ClockChange(target, ClockEffect.FIRST if target < change else ClockEffect.SECOND)


def _name_times(recurrence: CronRecurrence, begin: int, *, end: int) -> str:
    """The times of the day that the expression names between two wall times."""
    walls = list(islice(_walls(recurrence, begin, end=end), MOST_NAMED + 1))
    named = [(_EPOCH + wall * _SECOND).time().isoformat("seconds").removesuffix(":00") for wall in walls]
    return ", ".join(named[:MOST_NAMED]) + (", …" if len(named) > MOST_NAMED else "")


def _walls(recurrence: CronRecurrence, begin: int, *, end: int) -> Iterator[int]:
    wall = recurrence.expression.pattern.next(begin)
    while wall is not None and wall < end:
        yield wall
        wall = recurrence.expression.pattern.next(wall + 1)
