"""The code of docs/guides/schedules.md."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import yaml

import rota
from rota.domain.calendar_form import calendar_from
from rota.domain.schedule_form import schedule_from
from rota.testing import advance, run


@rota.cron("30 9 * * 1-5", zone="Asia/Shanghai", timeout="10m")
async def morning_report() -> str:
    return "sent"


def make_up_for_a_week(client: rota.Client, end: datetime) -> int:
    made = client.schedules.backfill("morning_report", end - timedelta(days=7), end=end, concurrency=5)
    return sum(one.action == "run" for one in made)


def test_nothing_is_sent_before_the_morning() -> None:
    async def scenario(app: rota.Rota) -> int:
        await advance("1m")
        return sum((await app.count()).values())

    assert run(scenario, [morning_report]) == 0


def test_a_week_is_made_up_for_page_by_page() -> None:
    target = {"fire_at": "2026-03-02T01:30:00Z", "action": "run", "task_id": None, "reason": ""}
    page = {"name": "backfill", "total": 2, "items": [target], "next_cursor": "next"}
    pages = iter([page, {**page, "items": [{**target, "action": "skip"}], "next_cursor": None}])
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json=next(pages)))
    with rota.Client("http://rota.test", "rota_x", transport=transport) as client:
        assert make_up_for_a_week(client, datetime(2026, 3, 8, tzinfo=UTC)) == 1


def test_every_schedule_and_calendar_of_the_guide_can_be_read() -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/schedules.md").read_text("utf-8")
    schedules = [
        json.loads(line) for block in re.findall(r"```json\n(.*?)```", guide, re.S) for line in block.splitlines()
    ]
    calendars = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", guide, re.S)]
    assert (len(schedules), len(calendars)) == (7, 1)
    assert [schedule_from(one).zone for one in schedules[:2]] == ["Asia/Shanghai", "Europe/Berlin"]
    assert all(schedule_from(one) for one in schedules[2:])
    assert calendar_from("office", calendars[0]).windows
