"""What a schedule fired, and fires next, in a real browser."""

import re
from datetime import timedelta

import pytest
from playwright.sync_api import Route, expect

import rota
from rota.infrastructure.system import SystemClock
from tests.support.console import Visitor

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]
CLOCK = SystemClock()


def test_past_fires_are_on_the_clock_of_the_schedule_with_how_their_tasks_fared(
    visitor: Visitor, client: rota.Client
) -> None:
    schedule = {"at": [(CLOCK.now() + timedelta(seconds=1)).isoformat()], "zone": "Asia/Shanghai"}
    client.configs.put("shop.once", {"executor": {"type": "local", "function": "shop:gone"}, "schedule": schedule})
    page = visitor.page
    visitor.go("/task-configs/shop.once")
    fires = page.get_by_test_id("occurrences")
    expect(fires).to_contain_text("Pending")
    fired = CLOCK.now() + timedelta(hours=8)
    expect(fires).to_contain_text(re.compile(f"{fired:%Y-%m-%d} ({fired:%H}|{fired - timedelta(minutes=5):%H}):"))
    expect(page.get_by_text("On the clock of Asia/Shanghai", exact=True)).to_be_visible()
    (task,) = client.tasks.list(type="shop.once")
    client.tasks.cancel(task.id)
    expect(fires).to_contain_text("Cancelled")
    client.configs.delete("shop.once")


def test_the_next_fires_of_a_form_are_asked_for_anew_once_the_first_has_come(visitor: Visitor) -> None:
    page = visitor.page
    answers = [timedelta(seconds=2), timedelta(hours=1)]

    def answer(route: Route) -> None:
        first = CLOCK.now() + (answers.pop(0) if len(answers) > 1 else answers[0])
        route.fulfill(json=route.fetch().json() | {"upcoming": [first.isoformat()]})

    page.route("**/schedules:preview", answer)
    visitor.go("/task-configs/+new")
    page.get_by_text("cron", exact=True).click()
    page.get_by_label("Cron expression").fill("0 9 * * *")
    expect(page.get_by_test_id("preview")).to_contain_text(re.compile(r"in (1 hour|59 minutes)"))
