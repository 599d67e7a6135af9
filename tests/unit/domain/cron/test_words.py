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
        (VIXIE, "0 0 7 * 5,*", "at 00:00", "在 00:00"),
        (VIXIE, "0 0 7,* * 5", "at 00:00", "在 00:00"),
        (VIXIE, "*/10 * * * * *", "every 10 seconds", "每 10 秒"),
        (VIXIE, "15 30 4 * * *", "at 04:30:15", "在 04:30:15"),
        (VIXIE, "5/20 * * * *", "every 20 minutes from minute 5", "从 5 分起每 20 分钟"),
        (VIXIE, "0 1/1 * * *", "minute 0, hours 1 to 23", "第 0 分，第 1 至 23 时"),
        (VIXIE, "1/1 * * * *", "minutes 1 to 59", "第 1 至 59 分"),
        (QUARTZ, "0 0 12 ? * 2/1", "at 12:00, Monday to Saturday", "在 12:00，周一至周六"),
        (
            VIXIE,
            "7-30/3 1 */2 * *",
            "every 3 minutes from 7 to 30, hour 1, on every 2 days from day 1 of the month",
            ...,
        ),
        (
            VIXIE,
            "0 0,1,2,3,4,5,6 * * 2/2",
            "minute 0, hour 0, hour 1, hour 2, hour 3, hour 4, hour 5 and hour 6, Tuesday, Thursday and Saturday",
            ...,
        ),
        (VIXIE, "*/45 * * * *", "minute 0 and minute 45 of every hour", "每小时第 0 分、第 45 分"),
        (VIXIE, "*/45 9 * * *", "at 09:00 and 09:45", "在 09:00、09:45"),
        (VIXIE, "*/7 * * * *", "every 7 minutes from minute 0 of each hour", "每小时从 0 分起每 7 分钟"),
        (VIXIE, "30/10 * * * *", "minute 30, minute 40 and minute 50 of every hour", ...),
        (VIXIE, "0 * * * *", "minute 0 of every hour", "每小时第 0 分"),
        (
            VIXIE,
            "*/25 * * * * *",
            "second 0, second 25 and second 50 of every minute",
            "每分钟第 0 秒、第 25 秒、第 50 秒",
        ),
        (VIXIE, "*/7 * * * * *", "every 7 seconds from second 0 of each minute", "每分钟从 0 秒起每 7 秒"),
        (VIXIE, "30 5 * * * *", "second 30, minute 5 of every hour", "第 30 秒，每小时第 5 分"),
        (
            VIXIE,
            "0 */5 * * *",
            "at 00:00, 05:00, 10:00, 15:00 and 20:00",
            "在 00:00、05:00、10:00、15:00、20:00",
        ),
        (VIXIE, "0 5/2 * * *", "minute 0, every 2 hours from hour 5 of each day", "第 0 分，每天从 5 时起每 2 小时"),
        (VIXIE, "0 1/3 * * *", "minute 0, every 3 hours from hour 1", "第 0 分，从 1 时起每 3 小时"),
        (VIXIE, "0 0 */2 * *", "at 00:00, on every 2 days from day 1 of the month", "在 00:00，每月从 1 日起每 2 天"),
        (VIXIE, "0 0 */15 * *", "at 00:00, on day 1, day 16 and day 31 of the month", ...),
        (VIXIE, "0 0 1 */5 *", "at 00:00, on day 1 of the month, in January, in June and in November", ...),
        (VIXIE, "0 0 * * */7", "at 00:00, Sunday", "在 00:00，周日"),
        (
            QUARTZ,
            "0 0 12 ? * 1/2",
            "at 12:00, Sunday, Tuesday, Thursday and Saturday",
            "在 12:00，周日、周二、周四、周六",
        ),
        (QUARTZ, "0 0 12 1 1 ? 2026/2", "at 12:00, on day 1 of the month, in January, every 2 years from 2026", ...),
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
