"""Which days of a month match: the fields day of month and day of week as bits."""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.domain.cron.items import DayItem, NearestWorkday, NthWeekday, Span, WeekdayItem

_SUNDAY, _SATURDAY = 0, 6


@dataclass(frozen=True, slots=True)
class DayRule:
    """Both fields of days. Cron's old rule: if both are restricted, it is enough that one of them matches."""

    days: Sequence[DayItem]
    weekdays: Sequence[WeekdayItem]
    is_either: bool

    def mask(self, first_weekday: int, length: int) -> int:
        """Bit n for each matching day n of a month that begins with this weekday (0: Sunday)."""
        days = weekdays = 0
        for day in self.days:
            days |= _day_bits(day, first_weekday, length=length)
        for weekday in self.weekdays:
            weekdays |= _weekday_bits(weekday, first_weekday, length=length)
        mask = days | weekdays if self.is_either else days & weekdays
        return mask & ((1 << length + 1) - 2)


def _day_bits(item: DayItem, first_weekday: int, *, length: int) -> int:
    if isinstance(item, Span):
        return sum(1 << day for day in set(item.values(1, 31)))
    if isinstance(item, NearestWorkday):
        return _bit(_nearest_workday(item.day, first_weekday, length=length)) if item.day <= length else 0
    day = length - item.before
    return _bit(_nearest_workday(day, first_weekday, length=length) if item.is_workday else day)


def _weekday_bits(item: WeekdayItem, first_weekday: int, *, length: int) -> int:
    if isinstance(item, NthWeekday):
        first = 1 + (item.weekday - first_weekday) % 7
        return _bit(first + 7 * (item.nth - 1) if item.nth else first + (length - first) // 7 * 7)
    weekdays = set(item.values(0, 7))
    return sum(1 << day for day in range(1, length + 1) if (first_weekday + day - 1) % 7 in weekdays)


def _bit(day: int) -> int:
    return 1 << day if day > 0 else 0


def _nearest_workday(day: int, first_weekday: int, *, length: int) -> int:
    if day < 1:
        return 0
    weekday = (first_weekday + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day
