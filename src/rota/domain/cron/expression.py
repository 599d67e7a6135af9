"""A cron expression, read once into its fields."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NoReturn

from rota.domain.checks import check_text
from rota.domain.cron.days import DayRule
from rota.domain.cron.dialect import FIRST_YEAR, LAST_YEAR, QUARTZ_FIELDS, VIXIE_FIELDS, Dialect, FieldRule
from rota.domain.cron.items import DayItem, FieldReader, Span, WeekdayItem
from rota.domain.cron.pattern import DAY, Pattern
from rota.domain.durations import parse_duration
from rota.domain.errors import InvalidError

MAX_CRON_LENGTH = 256
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every"
_HASHED = re.compile(r"(?<![A-Z])H(?![A-Z])", re.IGNORECASE)  # not that of THU
_EXAMPLES = {Dialect.VIXIE: "*/5 * * * *", Dialect.QUARTZ: "0 0/5 * * * ?"}
_ANY_DAY = Span(1, 31, is_open=True)
_ANY_WEEKDAY = Span(0, 6, is_open=True)
_FIRST_USEFUL_DAY = 10_957  # 2000-01-01: no fire time before it can be stored


@dataclass(frozen=True, slots=True, kw_only=True)
class CronFields:
    """The fields of an expression, each a list of items."""

    seconds: tuple[Span, ...]
    minutes: tuple[Span, ...]
    hours: tuple[Span, ...]
    days: tuple[DayItem, ...]
    months: tuple[Span, ...]
    weekdays: tuple[WeekdayItem, ...]
    years: tuple[Span, ...] | None = None
    is_either: bool = False  # one of the two day fields is enough

    @property
    def is_interval_like(self) -> bool:
        """Whether minutes or hours are left open: it then means a pace, not a time of the day."""
        return self.minutes[0].is_open or self.hours[0].is_open

    @property
    def times_a_day(self) -> int:
        """How many times of the day are named."""
        seconds, minutes = _values(self.seconds, 0, size=60), _values(self.minutes, 0, size=60)
        return len(seconds) * len(minutes) * len(_values(self.hours, 0, size=24))


@dataclass(frozen=True, slots=True)
class CronExpression:
    """Times of the wall clock."""

    text: str
    fields: CronFields
    pattern: Pattern = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EveryExpression:
    """A pace in real time, counted from 1970-01-01T00:00:00Z: the same on every node and after every restart."""

    text: str
    interval: timedelta


def parse_cron(
    text: object, *, dialect: Dialect = Dialect.VIXIE, seed: str = "", where: str = "schedule.cron"
) -> CronExpression | EveryExpression:
    """The expression that was written. `seed` is what `H` is spread by.

    Refuses what can never fire, unless that is up to a seed that is not given."""
    written = " ".join(check_text(where, text, longest=MAX_CRON_LENGTH).split())
    if not written:
        raise InvalidError(where, f"must not be empty; try {_EXAMPLES[dialect]}")
    if written.startswith("@"):
        word, _, rest = written.partition(" ")
        if word.lower() == _EVERY:
            return _parse_every(rest, where=where, text=written)
        written, dialect = _expand(word, rest, where=where), Dialect.VIXIE
    reader = _Reader(where=where, dialect=dialect, seed=seed)
    fields = reader.read(written.upper().split(" "))
    expression = CronExpression(written, fields, _pattern(fields))
    is_open = is_spread(written) and not seed
    if not is_open and expression.pattern.next(_FIRST_USEFUL_DAY * DAY) is None:
        reader.refuse_never(written.upper().split(" "))
    return expression


def is_spread(text: str) -> bool:
    """Whether it has an `H`, so that its times depend on the seed."""
    return not text.lstrip().startswith("@") and _HASHED.search(text) is not None


def _parse_every(duration: str, *, where: str, text: str) -> EveryExpression:
    if not duration:
        raise InvalidError(where, "@every needs a duration, for example @every 5m")
    interval = parse_duration(where, duration)
    if interval < timedelta(seconds=1) or interval % timedelta(seconds=1):
        raise InvalidError(where, f"{text!r}: must be whole seconds, at least one")
    return EveryExpression(text, interval)


def _expand(word: str, rest: str, *, where: str) -> str:
    known = _MACROS.get(word.lower())
    if known is None or rest:
        raise InvalidError(where, f"{f'{word} {rest}'.strip()!r} is not one of {', '.join(_MACROS)} and @every 5m")
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    where: str
    dialect: Dialect
    seed: str

    def read(self, texts: Sequence[str]) -> CronFields:
        return self._read_quartz(texts) if self.dialect is Dialect.QUARTZ else self._read_vixie(texts)

    def refuse_never(self, texts: Sequence[str]) -> NoReturn:
        rules = VIXIE_FIELDS[-len(texts) :] if self.dialect is Dialect.VIXIE else QUARTZ_FIELDS
        days = [
            f"{rule.name} {text!r}"
            for rule, text in zip(rules, texts, strict=False)
            if rule.name not in ("second", "minute", "hour") and text not in ("*", "?")
        ]
        raise InvalidError(self.where, f"never fires: no day from 2000 to {LAST_YEAR} has {' and '.join(days)}")

    def _read_vixie(self, texts: Sequence[str]) -> CronFields:
        if len(texts) in (6, 7) and "?" in (texts[3], texts[5]):
            problem = "is written as for Quartz, with seconds first and a ?"
            raise InvalidError(self.where, f"{problem}; say so: --dialect quartz, or dialect: quartz in the schedule")
        if len(texts) not in (5, 6):
            problem = f"has {len(texts)} fields; write 5 (minute hour day month weekday), or 6 with seconds first"
            raise InvalidError(self.where, f"{problem}; try {_EXAMPLES[self.dialect]}")
        second, minute, hour, day, month, weekday = texts if len(texts) == 6 else ("0", *texts)
        return CronFields(
            seconds=self._field(0).read(second),
            minutes=self._field(1).read(minute),
            hours=self._field(2).read(hour),
            days=self._field(3).read_days(day),
            months=self._field(4).read(month),
            weekdays=self._field(5).read_weekdays(weekday),
            # As in every crontab since Vixie's: a star at the beginning of either, even in */2, makes both necessary.
            is_either=not day.startswith("*") and not weekday.startswith("*"),
        )

    def _read_quartz(self, texts: Sequence[str]) -> CronFields:
        if len(texts) not in (6, 7):
            problem = f"has {len(texts)} fields; write 6 (second minute hour day month weekday), or 7 with a year last"
            raise InvalidError(self.where, f"{problem}; try {_EXAMPLES[self.dialect]}")
        day, weekday = texts[3], texts[5]
        if (day == "?") == (weekday == "?"):
            problem = f"day of month {day!r} and day of week {weekday!r}: one of them, and only one, must be ?"
            raise InvalidError(self.where, f"{problem}; try {_with_one_mark(texts)}")
        return CronFields(
            seconds=self._field(0).read(texts[0]),
            minutes=self._field(1).read(texts[1]),
            hours=self._field(2).read(texts[2]),
            days=(_ANY_DAY,) if day == "?" else self._field(3).read_days(day),
            months=self._field(4).read(texts[4]),
            weekdays=(_ANY_WEEKDAY,) if weekday == "?" else self._field(5).read_weekdays(weekday),
            years=self._field(6).read(texts[6]) if len(texts) == 7 and texts[6] != "*" else None,
        )

    def _field(self, place: int) -> FieldReader:
        rule: FieldRule = (QUARTZ_FIELDS if self.dialect is Dialect.QUARTZ else VIXIE_FIELDS)[place]
        return FieldReader(self.where, self.dialect, rule, self.seed)


def _with_one_mark(texts: Sequence[str]) -> str:
    """The expression of Quartz as it was meant, if it names days of one kind at most."""
    *times, day, month, weekday = texts[:6]
    if weekday in ("*", "?"):
        day, weekday = "*" if day == "?" else day, "?"
    elif day == "*":
        day = "?"
    else:
        return _EXAMPLES[Dialect.QUARTZ]
    return " ".join((*times, day, month, weekday, *texts[6:]))


def _pattern(fields: CronFields) -> Pattern:
    rule = DayRule(fields.days, fields.weekdays, is_either=fields.is_either)
    return Pattern(
        (_values(fields.seconds, 0, size=60), _values(fields.minutes, 0, size=60), _values(fields.hours, 0, size=24)),
        months=_values(fields.months, 1, size=12),
        years=None if fields.years is None else _values(fields.years, FIRST_YEAR, size=LAST_YEAR - FIRST_YEAR + 1),
        day_mask=rule.mask,
    )


def _values(items: Iterable[Span], low: int, *, size: int) -> set[int]:
    return {value for item in items for value in item.values(low, size)}
