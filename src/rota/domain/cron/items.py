"""The parts of a cron field, and how they are read.

A field is a list of items: spans of values, and in the fields of days those that count from the end of the month or
look for working days. Weekdays are 0 (Sunday) to 6 here, whatever the dialect calls them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import NoReturn

from rota.domain.cron.dialect import Dialect, FieldRule
from rota.domain.errors import InvalidError

_WEEKDAY_FIELD = "day of week"
_SPAN = re.compile(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\w+))?")
_HASH = re.compile(r"H(?:\((\w+)-(\w+)\))?(?:/(\w+))?")
_FROM_END = re.compile(r"L(?:-(\d{1,2}))?(W)?")
_WORKDAY = re.compile(r"(\d{1,2})W")
_NTH = re.compile(r"(\w+)#(\w*)")
_LAST = re.compile(r"(\w+)L")
_MOST_DIGITS = 4


def is_hashed(expression: str) -> bool:
    """Whether it takes a value by `H`, so that it depends on whose it is."""
    return any(_HASH.fullmatch(item) for field in expression.upper().split() for item in field.split(","))


@dataclass(frozen=True, slots=True)
class Span:
    """Every `step`-th value from first to last; over the end of the field when last is before first."""

    first: int
    last: int
    step: int = 1
    is_open: bool = False  # written without an end: *, */5, 10/5, H/5

    def values(self, low: int, size: int) -> Iterator[int]:
        """The values in a field that counts `size` of them from `low` and then begins anew."""
        last = self.last if self.first <= self.last else self.last + size
        return (low + (value - low) % size for value in range(self.first, last + 1, self.step))


@dataclass(frozen=True, slots=True)
class FromEnd:
    """So many days before the last day of the month; the working day nearest to it, if asked for."""

    before: int
    is_workday: bool


@dataclass(frozen=True, slots=True)
class NearestWorkday:
    """The Monday to Friday nearest to a day, within its month. A month without that day has none."""

    day: int


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """The first to fifth such weekday of the month; 0 is the last one."""

    weekday: int
    nth: int


DayItem = Span | FromEnd | NearestWorkday
WeekdayItem = Span | NthWeekday


@dataclass(frozen=True, slots=True)
class FieldReader:
    """Reads one field of an expression; every refusal names the field, the text and what is allowed."""

    where: str  # what an error names, such as schedule.cron
    dialect: Dialect
    rule: FieldRule
    seed: str

    def read(self, text: str) -> tuple[Span, ...]:
        return tuple(self._read_item(part) for part in text.split(","))

    def read_days(self, text: str) -> tuple[DayItem, ...]:
        return tuple(self._read_special_day(part) or self._read_item(part) for part in text.split(","))

    def read_weekdays(self, text: str) -> tuple[WeekdayItem, ...]:
        return tuple(self._read_special_weekday(part) or self._read_item(part) for part in text.split(","))

    def refuse(self, text: str, why: str) -> NoReturn:
        raise InvalidError(self.where, f"{self.rule.name} {text!r}: {why}; allowed: {self.rule.allowed}")

    def _read_item(self, text: str) -> Span:
        if not text:
            self.refuse(text, "is empty")
        if text == "?":
            self.refuse(text, "? stands alone, in the day of month or the day of week of the quartz dialect")
        if hashed := _HASH.fullmatch(text):
            return self._read_hash(text, hashed)
        written = f"*{text}" if text.startswith("/") and self.dialect is Dialect.QUARTZ else text
        found = _SPAN.fullmatch(written)
        if found is None:
            self.refuse(text, "is not a value, a range or a step")
        return self._read_span(text, found)

    def _read_span(self, text: str, found: re.Match[str]) -> Span:
        star, first_text, last_text, step_text = found.groups()
        first = self.rule.low if star else self._number(text, first_text)
        is_open = bool(star) or (step_text is not None and last_text is None)
        last = self.rule.high if is_open else first
        if last_text is not None:
            last = self._number(text, last_text)
        if last < first and not self.rule.wraps:
            hint = "; Sunday at the end of a range is 7" if self.rule.name == _WEEKDAY_FIELD else ""
            self.refuse(text, f"the range ends before it begins{hint}")
        return self._shift(Span(first, last, self._step(text, step_text), is_open))

    def _read_hash(self, text: str, found: re.Match[str]) -> Span:
        low_text, high_text, step_text = found.groups()
        low = self.rule.low if low_text is None else self._number(text, low_text)
        high = self.rule.hash_high if high_text is None else self._number(text, high_text)
        if high < low:
            self.refuse(text, "the range ends before it begins")
        digest = sha256(f"{self.seed}\0{self.rule.name}".encode()).digest()
        chance = int.from_bytes(digest[:8], "big")
        if step_text is None:
            value = low + chance % (high - low + 1)
            return self._shift(Span(value, value))
        step = self._step(text, step_text)
        if step > high - low + 1:
            self.refuse(text, f"a step of {step} is longer than {low} to {high}")
        return self._shift(Span(low + chance % step, high, step, is_open=low_text is None))

    def _read_special_day(self, text: str) -> DayItem | None:
        if found := _FROM_END.fullmatch(text):
            before = int(found[1] or 0)
            if before > 30:
                self.refuse(text, "counts back further than a month")
            return FromEnd(before, is_workday=bool(found[2]))
        if found := _WORKDAY.fullmatch(text):
            return NearestWorkday(self._number(text, found[1]))
        return None

    def _read_special_weekday(self, text: str) -> WeekdayItem | None:
        if text == "L":
            if self.dialect is Dialect.VIXIE:
                self.refuse(text, "L needs a weekday here; the last Friday is 5L or FRIL")
            return Span(6, 6)
        if found := _NTH.fullmatch(text):
            if found[2] not in ("1", "2", "3", "4", "5"):
                self.refuse(text, "after # comes 1 to 5: the first to fifth such weekday of the month")
            return NthWeekday(self._weekday(text, found[1]), int(found[2]))
        if found := _LAST.fullmatch(text):
            return NthWeekday(self._weekday(text, found[1]), 0)
        return None

    def _weekday(self, text: str, written: str) -> int:
        return self._shift(Span(self._number(text, written), 0)).first % 7

    def _shift(self, span: Span) -> Span:
        """Weekdays that are counted from 1, counted from 0."""
        if self.rule.name != _WEEKDAY_FIELD or self.dialect is Dialect.VIXIE:
            return span
        return Span(span.first - 1, span.last - 1, span.step, span.is_open)

    def _number(self, text: str, written: str) -> int:
        if written in self.rule.names:
            return self.rule.names[written]
        if not (written.isascii() and written.isdigit() and len(written) <= _MOST_DIGITS):
            self.refuse(text, f"{written!r} is not a number" + (" or name" if self.rule.names else ""))
        number = int(written)
        if not self.rule.low <= number <= self.rule.high:
            self.refuse(text, f"{number} is not from {self.rule.low} to {self.rule.high}")
        return number

    def _step(self, text: str, written: str | None) -> int:
        if written is None:
            return 1
        if not (written.isascii() and written.isdigit() and len(written) <= _MOST_DIGITS) or int(written) == 0:
            self.refuse(text, f"the step {written!r} is not a number from 1")
        step = int(written)
        if step > self.rule.size:
            self.refuse(text, f"a step of {step} is longer than the whole field; @every counts real time")
        return step
