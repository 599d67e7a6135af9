import pytest

from rota.domain.cron.dialect import Dialect
from rota.domain.cron.expression import parse_cron
from rota.domain.cron.words import Language, describe

VIXIE, QUARTZ = Dialect.VIXIE, Dialect.QUARTZ


@pytest.mark.parametrize(
    ("dialect", "text", "english", "chinese"),
    [
        (VIXIE, "* * * * *", "every minute", "每分钟"),
        (
            VIXIE,
            "*/5 9-17 * * 1-5",
            "every 5 minutes, hours 9 to 17, Monday to Friday",
            "每 5 分钟，第 9 至 17 时，周一至周五",
        ),
        (
            VIXIE,
            "0 9,17 1,15 * *",
            "at 09:00 and 17:00, on day 1 and day 15 of the month",
            "在 09:00、17:00，每月第 1 日、第 15 日",
        ),
        (VIXIE, "0 0 13 * 5", "at 00:00, on day 13 of the month or Friday", "在 00:00，每月第 13 日或周五"),
        (
            VIXIE,
            "30 2 * JAN-MAR,DEC 0",
            "at 02:30, Sunday, in January to March and in December",
            "在 02:30，周日，1 月至3 月、12 月",
        ),
        (VIXIE, "*/10 * * * * *", "every 10 seconds", "每 10 秒"),
        (VIXIE, "15 30 4 * * *", "at 04:30:15", "在 04:30:15"),
        (VIXIE, "5/20 * * * *", "every 20 minutes from minute 5", "从 5 分起每 20 分钟"),
        (VIXIE, "0 1/1 * * *", "minute 0, hours 1 to 23", "第 0 分，第 1 至 23 时"),
        (VIXIE, "1/1 * * * *", "minutes 1 to 59", "第 1 至 59 分"),
        (QUARTZ, "0 0 12 ? * 2/1", "at 12:00, Monday to Saturday", "在 12:00，周一至周六"),
        (VIXIE, "7-30/3 1 */2 * *", "every 3 minutes from 7 to 30, hour 1, on every 2 days of the month", ...),
        (
            VIXIE,
            "0 0,1,2,3,4,5,6 * * 2/2",
            "minute 0, hour 0, hour 1, hour 2, hour 3, hour 4, hour 5 and hour 6, every 2 days from Tuesday",
            ...,
        ),
        (VIXIE, "@every 90m", "every 1h30m of real time", "每隔 1h30m（实际时间）"),
        (
            QUARTZ,
            "0 15 10 ? * 6L 2026-2028",
            "at 10:15, the last Friday of the month, in 2026 to 2028",
            "在 10:15，每月最后一个周五，2026 年至2028 年",
        ),
        (QUARTZ, "0 0 12 LW 1/3 ?", "at 12:00, on the last working day of the month, every 3 months", ...),
        (QUARTZ, "0 0 12 L * ? 2027", "at 12:00, on the last day of the month, in 2027", ...),
        (QUARTZ, "0 0 12 L-3 * ?", "at 12:00, on the day 3 before the last of the month", "在 12:00，每月月末前 3 天"),
        (
            QUARTZ,
            "0 0 12 L-3W * ?",
            "at 12:00, on the working day nearest to the day 3 before the last of the month",
            ...,
        ),
        (
            QUARTZ,
            "0 0/5 14,18 ? * MON#2",
            "every 5 minutes, hour 14 and hour 18, the second Monday of the month",
            "每 5 分钟，第 14 时、第 18 时，每月第 2 个周一",
        ),
        (
            QUARTZ,
            "0 0 22-2 15W * ?",
            "minute 0, hours 22 to 2, on the working day nearest to day 15 of the month",
            "第 0 分，第 22 至 2 时，每月离 15 日最近的工作日",
        ),
    ],
)
def test_an_expression_is_told_in_words(dialect: Dialect, text: str, english: str, chinese: object) -> None:
    expression = parse_cron(text, dialect=dialect)

    assert describe(expression) == english
    said = describe(expression, Language.CHINESE)
    assert chinese in (said, ...)
    assert said
