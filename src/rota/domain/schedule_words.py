"""A schedule in words, in English and Chinese."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from rota.domain.cron.expression import parse_cron
from rota.domain.cron.words import Language, describe
from rota.domain.durations import split_duration
from rota.domain.schedule import Schedule

_EVERY = {Language.ENGLISH: "every {}", Language.CHINESE: "每隔 {}"}
_AFTER_END = {Language.ENGLISH: "{} after the previous run ended", Language.CHINESE: "上一次运行结束后 {}"}
_ONCE = {Language.ENGLISH: "once, at {}", Language.CHINESE: "在 {} 运行一次"}
_TIMES = {Language.ENGLISH: "{} times, first at {}", Language.CHINESE: "运行 {} 次, 首次在 {}"}
_UNITS = {
    "d": ("day", "天"),
    "h": ("hour", "小时"),
    "m": ("minute", "分钟"),
    "s": ("second", "秒"),
    "ms": ("millisecond", "毫秒"),
    "us": ("microsecond", "微秒"),
}


def describe_schedule(schedule: Schedule, language: Language, *, seed: str = "") -> str:
    """When it fires, for people; of an expression, with the zone whose clock it means."""
    if schedule.cron is not None:
        expression = parse_cron(schedule.cron, dialect=schedule.dialect, seed=seed)
        return f"{describe(expression, language)} ({schedule.zone})"
    if schedule.every is not None:
        return _EVERY[language].format(_span(schedule.every, language))
    if schedule.after_end is not None:
        return _AFTER_END[language].format(_span(schedule.after_end, language))
    first = _on_clock(schedule.at[0], schedule.zone)
    if len(schedule.at) == 1:
        return _ONCE[language].format(first)
    return _TIMES[language].format(len(schedule.at), first)


def _span(length: timedelta, language: Language) -> str:
    """`1 hour 30 minutes`, `1 小时 30 分钟`."""
    parts = []
    for count, unit in split_duration(length):
        english, chinese = _UNITS[unit]
        plural = english if count == 1 else f"{english}s"
        parts.append(f"{count} {chinese if language is Language.CHINESE else plural}")
    return " ".join(parts)


def _on_clock(moment: datetime, zone: str) -> str:
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S} ({zone})"
