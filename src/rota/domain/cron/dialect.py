"""The two ways to write a cron expression, and what each field of them may hold.

`vixie` is the crontab of Unix: minute, hour, day of month, month, day of week, optionally with seconds before them.
`quartz` is that of Java's schedulers: seconds first, Sunday is 1, `?` in one of the day fields, optionally a year.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

FIRST_YEAR, LAST_YEAR = 1970, 2099
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_DAYS_ALSO = "the last (L, L-3), nearest weekdays (15W, LW)"
_WEEKDAYS_ALSO = "the last (5L), the third of a month (5#3)"
_NO_NAMES: Mapping[str, int] = {}


class Dialect(StrEnum):
    VIXIE = "vixie"
    QUARTZ = "quartz"


@dataclass(frozen=True, slots=True)
class FieldRule:
    """What one field may hold. `size` is how many values there are before the count begins anew."""

    name: str
    low: int
    high: int
    size: int
    names: Mapping[str, int]
    hash_high: int  # the most that `H` may stand for: no day that some month lacks
    wraps: bool = False  # whether a range may run over the end, as in 22-2
    more: str = ""  # what else it may hold, in words

    @property
    def allowed(self) -> str:
        named = f" or {next(iter(self.names))} to {list(self.names)[-1]}" if self.names else ""
        more = f", {self.more}" if self.more else ""
        return f"{self.low} to {self.high}{named}, *, lists (1,2), ranges (1-5), steps (*/5){more} and H"


def _rule(name: str, low: int, *, high: int, names: Mapping[str, int] = _NO_NAMES) -> FieldRule:
    return FieldRule(name, low, high, size=high - low + 1, names=names, hash_high=high)


_SECOND = _rule("second", 0, high=59)
_MINUTE = _rule("minute", 0, high=59)
_HOUR = _rule("hour", 0, high=23)
_DAY = FieldRule("day of month", 1, 31, size=31, names=_NO_NAMES, hash_high=28, more=_DAYS_ALSO)
_MONTH = _rule("month", 1, high=12, names={name: number for number, name in enumerate(_MONTHS, 1)})
_VIXIE_WEEKDAY = FieldRule(  # 0 and 7 are both Sunday
    "day of week",
    *(0, 7, 7),
    names={name: number for number, name in enumerate(_WEEKDAYS)},
    hash_high=6,
    more=_WEEKDAYS_ALSO,
)
_QUARTZ_WEEKDAY = FieldRule(
    "day of week",
    *(1, 7, 7),
    names={name: number for number, name in enumerate(_WEEKDAYS, 1)},
    hash_high=7,
    more=_WEEKDAYS_ALSO,
)
_YEAR = _rule("year", FIRST_YEAR, high=LAST_YEAR)


def _wrapping(rule: FieldRule) -> FieldRule:
    return FieldRule(rule.name, rule.low, rule.high, rule.size, rule.names, rule.hash_high, wraps=True, more=rule.more)


VIXIE_FIELDS = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _VIXIE_WEEKDAY)
QUARTZ_FIELDS = (*map(_wrapping, (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _QUARTZ_WEEKDAY)), _YEAR)
