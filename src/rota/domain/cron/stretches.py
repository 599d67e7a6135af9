"""Time zones as stretches of constant offset.

`zoneinfo` tells the offset at an instant, not when it changes. Each year of a zone is sampled once and the changes are
found by halving; what was found is kept. Stretches also end where a year does, which changes nothing.
"""

from bisect import bisect_right
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from rota.domain.cron.dialect import FIRST_YEAR, LAST_YEAR

_SAMPLE = 3 * 86_400  # no zone has changed its offset twice within less than six days since 1970
_YEARS_KEPT = 4096  # a year of a zone takes less than a kilobyte
_YEAR_STARTS = tuple(int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in range(FIRST_YEAR, LAST_YEAR + 3))
BEGIN, END = _YEAR_STARTS[0], _YEAR_STARTS[-2]  # the seconds that can be asked for: 1970 until 2100


class Stretch(NamedTuple):
    """Instants, in seconds from 1970, during which a zone keeps its offset."""

    begin: int
    end: int
    offset: int


def stretch_at(zone: str, instant: int) -> Stretch:
    """The stretch that an instant is in; from a day before 1970 until a day after 2099."""
    place = max(bisect_right(_YEAR_STARTS, instant) - 1, 0)
    return next(stretch for stretch in _year_of(zone, place) if instant < stretch.end)


def forget_zones() -> None:
    """Forget what was found, as after a change of the time zone database."""
    _year_of.cache_clear()


@lru_cache(maxsize=_YEARS_KEPT)
def _year_of(zone: str, place: int) -> tuple[Stretch, ...]:
    found = ZoneInfo(zone)
    begin, end = _YEAR_STARTS[place], _YEAR_STARTS[place + 1]
    offset = _offset(found, begin)
    stretches = []
    for sample in [*range(begin + _SAMPLE, end, _SAMPLE), end - 1]:
        if (after := _offset(found, sample)) != offset:
            change = _change(found, sample - _SAMPLE, after=sample)
            stretches.append(Stretch(begin, change, offset))
            begin, offset = change, after
    return (*stretches, Stretch(begin, end, offset))


def _change(zone: ZoneInfo, before: int, *, after: int) -> int:
    """The first second of the new offset."""
    new = _offset(zone, after)
    while after - before > 1:
        middle = (before + after) // 2
        if _offset(zone, middle) == new:
            after = middle
        else:
            before = middle
    return after


def _offset(zone: ZoneInfo, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0
