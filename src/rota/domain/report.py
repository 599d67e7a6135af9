"""A report: what happened between two moments, by hour or by day of a time zone and by type of task."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from rota.domain.checks import check_instant, check_zone
from rota.domain.errors import InvalidError
from rota.domain.rollup import Figures, Grain, Reach, micros

MOST_BUCKETS = 400
MOST_ITEMS = 10_000
NAMED = 10  # of the slowest types, and of those that fail most
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


class By(StrEnum):
    HOUR = "hour"
    DAY = "day"

    @property
    def usual_span(self) -> timedelta:
        return timedelta(days=1) if self is By.HOUR else timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWish:
    """What is asked for. Without a beginning it is a day by hour, or a week by day; without an end, until now."""

    by: By = By.DAY
    begin: datetime | None = None
    end: datetime | None = None
    zone: str = "UTC"
    types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Layout:
    """Which pieces of time a report has, and which sums it is made from."""

    edges: Sequence[datetime]  # one more than there are buckets
    grain: Grain


def lay_out(wish: ReportWish, *, now: datetime, reach: Reach) -> Layout:
    """The buckets that hold the time that was asked for. Raises `InvalidError` for what no report can be made of."""
    zone = ZoneInfo(check_zone("zone", wish.zone))
    end = min(check_instant("to", wish.end or now), now)
    begin = check_instant("from", wish.begin or end - wish.by.usual_span)
    if begin >= end:
        raise InvalidError("from", "must be before to, and in the past")
    edges = _list_edges(begin, end, by=wish.by, zone=zone)
    return Layout(edges, _choose_grain(edges, now=now, reach=reach))


def _list_edges(begin: datetime, end: datetime, *, by: By, zone: ZoneInfo) -> list[datetime]:
    following = _next_hour if by is By.HOUR else _next_day
    edges = [(_start_of_hour if by is By.HOUR else _start_of_day)(begin, zone)]
    while edges[-1] < end:
        if len(edges) > MOST_BUCKETS:
            hint = "take by=day, or less time" if by is By.HOUR else "take less time"
            raise InvalidError("from", f"these are more than {MOST_BUCKETS} {by}s: {hint}")
        edges.append(following(edges[-1], zone))
    return edges


def _start_of_hour(moment: datetime, zone: ZoneInfo) -> datetime:
    """By the clocks of the zone, which may be half an hour off."""
    local = moment.astimezone(zone)
    return moment - timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)


def _next_hour(start: datetime, zone: ZoneInfo) -> datetime:
    return _start_of_hour(start + _HOUR, zone)


def _start_of_day(moment: datetime, zone: ZoneInfo) -> datetime:
    local = moment.astimezone(zone)
    return datetime(local.year, local.month, local.day, tzinfo=zone).astimezone(UTC)


def _next_day(start: datetime, zone: ZoneInfo) -> datetime:
    following = start.astimezone(zone).date() + timedelta(days=1)
    return datetime(following.year, following.month, following.day, tzinfo=zone).astimezone(UTC)


def _choose_grain(edges: Sequence[datetime], *, now: datetime, reach: Reach) -> Grain:
    """The widest sums of which the buckets are made, and that reach back to the first."""
    starts = {micros(edge) for edge in edges}
    fitting = [grain for grain in Grain if all(start % grain.width_us == 0 for start in starts)]
    kept = [grain for grain in fitting if edges[0] >= now - reach.of(grain) - _DAY]
    if kept:
        return max(kept)
    oldest = now - max(reach.of(grain) for grain in fitting)
    hint = "; by=day with zone=UTC reaches further" if Grain.DAY not in fitting else ""
    raise InvalidError("from", f"in this form a report reaches back to {oldest:%Y-%m-%d}, begin there or later{hint}")


@dataclass(frozen=True, slots=True)
class Item:
    """One bucket of one type."""

    start: datetime
    end: datetime
    type: str
    figures: Figures


@dataclass(slots=True)
class Report:
    """What happened; it grows while sums are added to it."""

    layout: Layout
    complete_until: datetime | None
    totals: Figures = field(default_factory=Figures)
    types: dict[str, Figures] = field(default_factory=dict)
    _buckets: dict[tuple[int, str], Figures] = field(default_factory=dict)
    _place: int = 0

    def add(self, start_us: int, task_type: str, *, figures: Figures) -> None:
        """Add a sum; they come in the order of their start."""
        edges = self.layout.edges
        start = _1970 + timedelta(microseconds=start_us)
        while start >= edges[self._place + 1]:
            self._place += 1
        self._buckets.setdefault((self._place, task_type), Figures()).merge(figures)
        self.types.setdefault(task_type, Figures()).merge(figures)
        self.totals.merge(figures)
        if len(self._buckets) > MOST_ITEMS:
            raise InvalidError("task_type", f"these are more than {MOST_ITEMS} items: name types, or take less time")

    @property
    def items(self) -> list[Item]:
        edges = self.layout.edges
        return [
            Item(edges[place], edges[place + 1], task_type, figures)
            for (place, task_type), figures in sorted(self._buckets.items(), key=lambda item: item[0])
        ]

    @property
    def slowest(self) -> list[str]:
        """The types that take longest, by how long the slowest twentieth of their runs takes at least."""
        slow = {name: figures.run.percentile_us(0.95) for name, figures in self.types.items()}
        return _first(sorted((-taken, name) for name, taken in slow.items() if taken is not None))

    @property
    def most_failing(self) -> list[str]:
        return _first(sorted((-one.failures, name) for name, one in self.types.items() if one.failures))


def _first(ranked: Iterable[tuple[float, str]]) -> list[str]:
    return [name for _, name in ranked][:NAMED]
