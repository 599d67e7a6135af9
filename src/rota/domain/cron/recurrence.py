"""When an expression fires: its wall times as instants of a time zone, daylight saving included.

Most wall times are one instant. Where clocks are put forward some are none, where they are put back some are two. An
expression that leaves minutes or hours open (`*/5 * * * *`) means a pace: it fires whenever the clock shows a matching
time. One that names its time (`30 2 * * *`) means once a day, and `DstGap` and `DstOverlap` say when.

The search runs from stretch to stretch of constant offset. `wall` is always the nearest match beyond `searched`, the
wall time where the search began, so that a far match is reached in one jump and not year by year.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol
from zoneinfo import ZoneInfo

from rota.domain.cron.expression import CronExpression, EveryExpression
from rota.domain.cron.pattern import DAY
from rota.domain.cron.stretches import BEGIN, END, stretch_at

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_TICK = timedelta(microseconds=1)
_LATEST = _EPOCH + timedelta(seconds=END)
_FAR = 3 * DAY
_SAFE = 2 * DAY  # more than any offset, and than any two offsets differ


class DstGap(StrEnum):
    """What becomes of a time that the clocks skip."""

    RUN_AFTER = "run_after"  # it fires when the gap ends
    SKIP = "skip"


class DstOverlap(StrEnum):
    """When a time that the clocks show twice fires."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Recurrence(Protocol):
    """Target times without an end, or with one."""

    def next(self, after: datetime) -> datetime | None:
        """The first target later than this instant; None when there is none before 2100."""
        ...

    def previous(self, before: datetime) -> datetime | None:
        """The last target earlier than this instant."""
        ...


def between(recurrence: Recurrence, begin: datetime, *, end: datetime) -> Iterator[datetime]:
    """The targets from `begin` on and before `end`, in order."""
    target = recurrence.next(begin - _TICK)
    while target is not None and target < end:
        yield target
        target = recurrence.next(target)


@dataclass(frozen=True, slots=True)
class EveryRecurrence:
    """A fixed pace in real time, counted from an anchor that need not be in the past."""

    interval: timedelta
    anchor: datetime = _EPOCH

    def next(self, after: datetime) -> datetime | None:
        target = self.anchor + ((after - self.anchor) // self.interval + 1) * self.interval
        return target if target < _LATEST else None

    def previous(self, before: datetime) -> datetime | None:
        target = self.anchor + (-((self.anchor - before) // self.interval) - 1) * self.interval
        return target if target >= _EPOCH else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CronRecurrence:
    """A cron expression in a time zone."""

    expression: CronExpression
    zone: str = "UTC"
    gap: DstGap = DstGap.RUN_AFTER
    overlap: DstOverlap = DstOverlap.FIRST
    _is_timed: bool = field(init=False, compare=False)
    _zone_info: ZoneInfo = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_is_timed", not self.expression.fields.is_interval_like)
        object.__setattr__(self, "_zone_info", ZoneInfo(self.zone))

    def next(self, after: datetime) -> datetime | None:
        found = self._next(max((after - _EPOCH) // _SECOND, BEGIN - 1))
        return None if found is None or found >= END else _EPOCH + timedelta(seconds=found)

    def previous(self, before: datetime) -> datetime | None:
        found = self._previous(min(-((_EPOCH - before) // _SECOND), END))
        return None if found is None or found < BEGIN else _EPOCH + timedelta(seconds=found)

    def _next(self, after: int) -> int | None:
        if after >= END:
            return None
        pattern = self.expression.pattern
        stretch = stretch_at(self.zone, after)
        searched = after + stretch.offset + 1
        wall = pattern.next(searched)
        while wall is not None:
            wall_end = stretch.end + stretch.offset
            if wall < wall_end:
                instant = wall - stretch.offset
                if self._is_meant(instant):
                    return instant
                searched = wall + 1
                wall = pattern.next(searched)
            elif wall - wall_end > _FAR and wall_end - searched > _SAFE:
                stretch = stretch_at(self.zone, wall - _SAFE)
            else:
                following = stretch_at(self.zone, stretch.end)
                wall_begin = following.begin + following.offset
                if wall_begin > wall and self._is_timed and self.gap is DstGap.RUN_AFTER:
                    return following.begin
                if not searched <= wall_begin <= wall:
                    searched = wall_begin
                    wall = pattern.next(searched)
                stretch = following
        return None

    def _previous(self, before: int) -> int | None:
        if before <= BEGIN:
            return None
        pattern = self.expression.pattern
        stretch = stretch_at(self.zone, before - 1)
        searched = before - 1 + stretch.offset
        wall = pattern.previous(searched)
        while wall is not None and (wall >= stretch.begin + stretch.offset or stretch.begin > BEGIN):
            wall_begin = stretch.begin + stretch.offset
            if wall >= wall_begin:
                instant = wall - stretch.offset
                if self._is_meant(instant):
                    return instant
                searched = wall - 1
                wall = pattern.previous(searched)
            elif wall_begin - wall > _FAR and searched - wall_begin > _SAFE:
                stretch = stretch_at(self.zone, wall + _SAFE)
            else:
                earlier = stretch_at(self.zone, stretch.begin - 1)
                wall_end = earlier.end + earlier.offset
                if wall_end <= wall and self._is_timed and self.gap is DstGap.RUN_AFTER:
                    return stretch.begin
                if not wall < wall_end <= searched + 1:
                    searched = wall_end - 1
                    wall = pattern.previous(searched)
                stretch = earlier
        return None

    def _is_meant(self, instant: int) -> bool:
        """Whether it is this one that should fire, if the clock shows this time twice."""
        if not self._is_timed or self.overlap is DstOverlap.BOTH:
            return True
        shown = datetime.fromtimestamp(instant, self._zone_info)
        if self.overlap is DstOverlap.FIRST:
            return shown.fold == 0
        return shown.fold == 1 or shown.replace(fold=1).utcoffset() == shown.utcoffset()


def recur(
    expression: CronExpression | EveryExpression,
    *,
    zone: str = "UTC",
    gap: DstGap = DstGap.RUN_AFTER,
    overlap: DstOverlap = DstOverlap.FIRST,
) -> Recurrence:
    """When an expression fires in a zone. A pace in real time knows no zone."""
    if isinstance(expression, EveryExpression):
        return EveryRecurrence(expression.interval)
    return CronRecurrence(expression=expression, zone=zone, gap=gap, overlap=overlap)
