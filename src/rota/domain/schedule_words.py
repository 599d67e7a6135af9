"""A schedule in words, in English and Chinese."""

from rota.domain.cron.expression import parse_cron
from rota.domain.cron.words import Language, describe
from rota.domain.durations import format_duration
from rota.domain.schedule import Schedule

_EVERY = {Language.ENGLISH: "every {}", Language.CHINESE: "每隔 {}"}
_AFTER_END = {Language.ENGLISH: "{} after the previous run ended", Language.CHINESE: "上一次运行结束后 {}"}
_ONCE = {Language.ENGLISH: "once, at {}", Language.CHINESE: "在 {} 运行一次"}
_TIMES = {Language.ENGLISH: "{} times, first at {}", Language.CHINESE: "运行 {} 次, 首次在 {}"}


def describe_schedule(schedule: Schedule, language: Language, *, seed: str = "") -> str:
    """When it fires, for people; of an expression, with the zone whose clock it means."""
    if schedule.cron is not None:
        expression = parse_cron(schedule.cron, dialect=schedule.dialect, seed=seed)
        return f"{describe(expression, language)} ({schedule.zone})"
    if schedule.every is not None:
        return _EVERY[language].format(format_duration(schedule.every))
    if schedule.after_end is not None:
        return _AFTER_END[language].format(format_duration(schedule.after_end))
    first = schedule.at[0].isoformat().replace("+00:00", "Z")
    if len(schedule.at) == 1:
        return _ONCE[language].format(first)
    return _TIMES[language].format(len(schedule.at), first)
