"""A cron expression in words, in English and Chinese: `every 5 minutes, hours 9 to 17, Monday to Friday`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import TypeVar

from rota.domain.cron.expression import CronExpression, CronFields, EveryExpression
from rota.domain.cron.items import DayItem, NearestWorkday, NthWeekday, Span, WeekdayItem
from rota.domain.durations import format_duration

_MOST_TIMES = 6  # beyond it a list of times is harder to read than its fields
_SIZES = {"second": 60, "minute": 60, "hour": 24, "day": 31, "month": 12, "weekday": 7}
_Item = TypeVar("_Item", bound=DayItem | WeekdayItem)


class Language(StrEnum):
    ENGLISH = "en"
    CHINESE = "zh"


@dataclass(frozen=True, slots=True)
class _Unit:
    """How a language says the spans of one field."""

    every: str
    each: str
    since: str
    anew: str  # as since, where the last pace is shorter: told with what it begins in again
    value: str
    span: str
    steps: str
    name: Callable[[int], str] = str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    units: Mapping[str, _Unit]
    comma: str
    list_of: Callable[[Sequence[str]], str]
    at: str
    hourly: str
    minutely: str
    interval: str
    either: str
    on: str
    month_end: str
    before_end: str
    workday: str
    last_workday: str
    workday_before_end: str
    nth: Callable[[int], str]
    nth_weekday: str


def describe(expression: CronExpression | EveryExpression, language: Language = Language.ENGLISH) -> str:
    """What an expression means, for people."""
    words = _WORDS[language]
    if isinstance(expression, EveryExpression):
        return words.interval.format(format_duration(expression.interval))
    fields = _name_values(expression.fields)
    parts = [_times(fields, words), _days(fields, words)]
    if not _is_any("month", fields.months):
        parts.append(_spans("month", fields.months, words=words))
    if fields.years is not None:
        parts.append(_spans("year", fields.years, words=words))
    return words.comma.join(part for part in parts if part)


def _name_values(fields: CronFields) -> CronFields:
    """The same with values in place of steps that are no pace, as the field begins anew before a whole step is over."""
    return replace(
        fields,
        seconds=tuple(_values("second", fields.seconds)),
        minutes=tuple(_values("minute", fields.minutes)),
        hours=tuple(_values("hour", fields.hours)),
        days=tuple(_values("day", fields.days)),
        months=tuple(_values("month", fields.months)),
        weekdays=tuple(_values("weekday", fields.weekdays)),
    )


def _values(unit: str, items: Sequence[_Item]) -> Iterator[_Item | Span]:
    for item in items:
        if isinstance(item, Span) and not _is_pace(unit, item):
            values = dict.fromkeys(item.values(_LOWEST.get(unit, 0), _SIZES[unit]))
            yield from (Span(value, value) for value in values) if len(values) <= _MOST_TIMES else (item,)
        else:
            yield item


def _is_pace(unit: str, span: Span) -> bool:
    """Whether from the last value to the first one of the next round it is one step, too."""
    if not span.is_open or span.step == 1 or unit not in _SIZES:
        return True
    is_even = unit not in ("day", "weekday") and _SIZES[unit] % span.step == 0
    return is_even and span.first - _LOWEST.get(unit, 0) < span.step


def _times(fields: CronFields, words: _Words) -> str:
    spans = (fields.hours, fields.minutes, fields.seconds)
    if all(span.first == span.last for field in spans for span in field):
        times = sorted({tuple(span.first for span in time) for time in product(*spans)})
        if len(times) <= _MOST_TIMES:
            has_seconds = any(second for _, _, second in times)
            shown = [":".join(f"{part:02}" for part in (time if has_seconds else time[:2])) for time in times]
            return words.at.format(words.list_of(shown))
    is_any_hour = _is_any("hour", fields.hours)
    is_any_minute = is_any_hour and _is_any("minute", fields.minutes)
    parts = []
    if fields.seconds != (Span(0, 0),):
        parts.append(_within("second", fields.seconds, whole=words.minutely if is_any_minute else "{}", words=words))
    if not (parts and is_any_minute):
        parts.append(_within("minute", fields.minutes, whole=words.hourly if is_any_hour else "{}", words=words))
    if not is_any_hour:
        parts.append(_spans("hour", fields.hours, words=words))
    return words.comma.join(parts)


def _within(unit: str, spans: Sequence[Span], *, whole: str, words: _Words) -> str:
    """Single values with the whole that they are of."""
    said = _spans(unit, spans, words=words)
    return whole.format(said) if all(span.first == span.last for span in spans) else said


def _days(fields: CronFields, words: _Words) -> str:
    is_any_day, is_any_weekday = _is_any("day", fields.days), _is_any("weekday", fields.weekdays)
    if fields.is_either and (is_any_day or is_any_weekday):
        return ""  # one of them is enough, and there is one on each day
    parts = []
    if not is_any_day:
        parts.append(words.on.format(words.list_of([_day(item, words) for item in fields.days])))
    if not is_any_weekday:
        parts.append(words.list_of([_weekday(item, words) for item in fields.weekdays]))
    return (words.either if fields.is_either else words.comma).join(parts)


def _day(item: DayItem, words: _Words) -> str:
    if isinstance(item, Span):
        return _span("day", item, words=words)
    if isinstance(item, NearestWorkday):
        return words.workday.format(item.day)
    if item.before == 0:
        return words.last_workday if item.is_workday else words.month_end
    return (words.workday_before_end if item.is_workday else words.before_end).format(item.before)


def _weekday(item: WeekdayItem, words: _Words) -> str:
    if isinstance(item, NthWeekday):
        weekday = words.units["weekday"].name(item.weekday)
        return words.nth_weekday.format(nth=words.nth(item.nth), weekday=weekday)
    return _span("weekday", item, words=words)


def _is_any(unit: str, items: Sequence[DayItem | WeekdayItem]) -> bool:
    return any(isinstance(item, Span) and item.step == 1 and _is_whole(unit, item) for item in items)


def _is_whole(unit: str, span: Span) -> bool:
    """Whether it goes from the lowest value of its field to the highest."""
    return span.is_open and span.first <= _LOWEST.get(unit, 0)


def _spans(unit: str, spans: Sequence[Span], *, words: _Words) -> str:
    return words.list_of([_span(unit, span, words=words) for span in spans])


def _span(unit: str, span: Span, *, words: _Words) -> str:
    said = words.units[unit]
    first, last = said.name(span.first), said.name(span.last)
    if not _is_pace(unit, span):
        template = said.anew
    elif _is_whole(unit, span):
        template = said.every if span.step == 1 else said.each
    elif span.is_open and span.step > 1:
        template = said.since
    elif span.first == span.last:
        template = said.value
    else:
        template = said.span if span.step == 1 else said.steps
    return template.format(first=first, last=last, step=span.step)


_LOWEST = {"day": 1, "month": 1}
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_WEEKDAYS_ZH = "日一二三四五六"
_ORDINALS = ("last", "first", "second", "third", "fourth", "fifth")


def _english(unit: str, whole: str = "") -> _Unit:
    each = f"every {{step}} {unit}s"
    since = f"{each} from {unit} {{first}}"
    return _Unit(
        every=f"every {unit}",
        each=each,
        since=since,
        anew=f"{since} of each {whole}" if whole else since,
        value=f"{unit} {{first}}",
        span=f"{unit}s {{first}} to {{last}}",
        steps=f"{each} from {{first}} to {{last}}",
    )


def _english_named(unit: str, name: Callable[[int], str], *, place: str = "") -> _Unit:
    since = f"every {{step}} {unit}s from {{first}}"
    return _Unit(
        every=f"every {unit}",
        each=f"every {{step}} {unit}s",
        since=since,
        anew=since,
        value=f"{place}{{first}}",
        span=f"{place}{{first}} to {{last}}",
        steps=f"every {{step}} {unit}s from {{first}} to {{last}}",
        name=name,
    )


def _chinese(unit: str, pace: str, *, whole: str = "") -> _Unit:
    since = f"从 {{first}} {unit}起每 {{step}} {pace}"
    return _Unit(
        every=f"每{pace}",
        each=f"每 {{step}} {pace}",
        since=since,
        anew=f"{whole}{since}",
        value=f"第 {{first}} {unit}",
        span=f"第 {{first}} 至 {{last}} {unit}",
        steps=f"第 {{first}} 至 {{last}} {unit}每 {{step}} {pace}",
    )


def _chinese_named(pace: str, name: Callable[[int], str]) -> _Unit:
    since = f"从{{first}}起每 {{step}} {pace}"
    return _Unit(
        every=f"每{pace}",
        each=f"每 {{step}} {pace}",
        since=since,
        anew=since,
        value="{first}",
        span="{first}至{last}",
        steps=f"{{first}}至{{last}}每 {{step}} {pace}",
        name=name,
    )


def _english_list(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


_WORDS = {
    Language.ENGLISH: _Words(
        units={
            "second": _english("second", "minute"),
            "minute": _english("minute", "hour"),
            "hour": _english("hour", "day"),
            "day": _english("day"),
            "month": _english_named("month", lambda number: _MONTHS[number - 1], place="in "),
            "weekday": _english_named("day", lambda number: _WEEKDAYS[number % 7]),
            "year": _english_named("year", str, place="in "),
        },
        comma=", ",
        list_of=_english_list,
        at="at {}",
        hourly="{} of every hour",
        minutely="{} of every minute",
        interval="every {} of real time",
        either=" or ",
        on="on {} of the month",
        month_end="the last day",
        before_end="the day {} before the last",
        workday="the working day nearest to day {}",
        last_workday="the last working day",
        workday_before_end="the working day nearest to the day {} before the last",
        nth=lambda nth: _ORDINALS[nth],
        nth_weekday="the {nth} {weekday} of the month",
    ),
    Language.CHINESE: _Words(
        units={
            "second": _chinese("秒", "秒", whole="每分钟"),
            "minute": _chinese("分", "分钟", whole="每小时"),
            "hour": _chinese("时", "小时", whole="每天"),
            "day": _chinese("日", "天"),
            "month": _chinese_named("个月", lambda number: f"{number} 月"),
            "weekday": _chinese_named("天", lambda number: f"周{_WEEKDAYS_ZH[number % 7]}"),
            "year": _chinese_named("年", lambda number: f"{number} 年"),
        },
        comma="，",
        list_of="、".join,
        at="在 {}",
        hourly="每小时{}",
        minutely="每分钟{}",
        interval="每隔 {}（实际时间）",
        either="或",
        on="每月{}",
        month_end="最后一天",
        before_end="月末前 {} 天",
        workday="离 {} 日最近的工作日",
        last_workday="最后一个工作日",
        workday_before_end="离月末前 {} 天最近的工作日",
        nth=lambda nth: f"第 {nth} 个" if nth else "最后一个",
        nth_weekday="每月{nth}{weekday}",
    ),
}
