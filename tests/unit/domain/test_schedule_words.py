"""Schedules in words."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.domain.cron.words import Language
from rota.domain.schedule import Schedule
from rota.domain.schedule_words import describe_schedule

AT = datetime(2030, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "english", "chinese"),
    [
        ({"cron": "0 9 * * *", "zone": "Asia/Shanghai"}, "at 09:00 (Asia/Shanghai)", "在 09:00 (Asia/Shanghai)"),
        ({"every": timedelta(seconds=90)}, "every 1 minute 30 seconds", "每隔 1 分钟 30 秒"),
        ({"every": timedelta(minutes=1)}, "every 1 minute", "每隔 1 分钟"),
        (
            {"after_end": timedelta(minutes=5)},
            "5 minutes after the previous run ended",
            "上一次运行结束后 5 分钟",
        ),
        (
            {"at": (AT + timedelta(milliseconds=431),), "zone": "Asia/Shanghai"},
            "once, at 2030-06-01 20:00:00 (Asia/Shanghai)",
            "在 2030-06-01 20:00:00 (Asia/Shanghai) 运行一次",
        ),
        (
            {"at": (AT, AT + timedelta(days=1))},
            "2 times, first at 2030-06-01 12:00:00 (UTC)",
            "运行 2 次, 首次在 2030-06-01 12:00:00 (UTC)",
        ),
    ],
)
def test_a_schedule_is_told_in_both_languages(schedule: dict[str, Any], english: str, chinese: str) -> None:
    made = Schedule(**schedule)
    assert describe_schedule(made, Language.ENGLISH) == english
    assert describe_schedule(made, Language.CHINESE) == chinese
