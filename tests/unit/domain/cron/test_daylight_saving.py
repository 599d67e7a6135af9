"""The table of docs/explanation/daylight-saving.md is what the code does."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from rota.domain.cron.expression import parse_cron
from rota.domain.cron.recurrence import DstGap, DstOverlap, Recurrence, between, recur

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "daylight-saving.md"
ROW = re.compile(r"^\| (\w+/\w+) \| ([0-9-]{10}) \| `(.*)` \| `(\w+)` \| `(\w+)` \| (.*) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text("utf-8"))


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_each_case_of_the_table_is_so(row: tuple[str, ...]) -> None:
    zone, day, text, gap, overlap, expected = row
    clock = ZoneInfo(zone)
    noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=clock).astimezone(UTC)
    recurrence = recur(parse_cron(text), zone=zone, gap=DstGap(gap), overlap=DstOverlap(overlap))

    found = [_shown(at.astimezone(clock)) for at in between(recurrence, noon - timedelta(days=1), end=noon)]

    assert ", ".join(found or ["nothing"]) == expected
    assert _backwards(recurrence, noon - timedelta(days=1), end=noon) == found[::-1]


def test_the_table_was_found() -> None:
    assert len(ROWS) >= 30


def _shown(at: datetime) -> str:
    return f"{at.strftime('%d %H:%M:%S').removesuffix(':00')} {at.strftime('%z')}"


def _backwards(recurrence: Recurrence, begin: datetime, *, end: datetime) -> list[str]:
    found = []
    at = recurrence.previous(end)
    while at is not None and at >= begin:
        found.append(at)
        at = recurrence.previous(at)
    clock = getattr(recurrence, "zone", "UTC")
    return [_shown(one.astimezone(ZoneInfo(clock))) for one in found]
