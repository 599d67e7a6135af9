"""What the overview and the list of tasks say of a time, in a real browser."""

import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Route, expect

import rota
from tests.support.console import Visitor

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]


def test_figures_say_until_when_they_count_and_one_noisy_type_hides_no_other(
    visitor: Visitor, client: rota.Client
) -> None:
    failed = client.submit("shop.charge", {"order": 1}).wait("60s")
    page = visitor.page
    row = {"type": "noisy.type", "status": "FAILED", "id": failed.id, "error": None}

    def tasks(route: Route) -> None:
        wanted = parse_qs(urlsplit(route.request.url).query)
        name = wanted["type"][0] if "type" in wanted else "noisy.type"
        items = [row | {"type": name, "completed_at": "2030-01-01T00:00:00Z"}]
        route.fulfill(json={"items": items, "next_cursor": "more"})

    def report(route: Route) -> None:
        found = route.fetch().json()
        found["totals"]["succeeded"] += 1
        told = {"complete_until": "2030-01-01T07:05:00Z", "most_failing": ["noisy.type", "rare.type"]}
        route.fulfill(json=found | told)

    page.route("**/api/v1/tasks?*", tasks)
    page.route("**/api/v1/reports?*", report)
    visitor.go("/")
    expect(page.get_by_text(re.compile("ended in 24 hours, complete up to 07:05"))).to_be_visible()
    expect(page.get_by_role("link", name="rare.type")).to_be_visible()
    expect(page.get_by_role("link", name="noisy.type")).to_be_visible()


def test_a_page_of_a_task_has_its_name_as_the_title(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.greet", name="Greet Ada")
    visitor.go(f"/tasks/{task.id}")
    expect(visitor.page).to_have_title("Greet Ada · Tasks · Rota")


def test_tasks_are_looked_for_from_one_moment_to_another(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("spanned.nobody", {"executor": {"type": "local"}})
    task = client.submit("spanned.nobody")
    page, now = visitor.page, client.tasks.get(task.id).created_at
    visitor.go("/tasks?type=spanned.nobody")
    rows = page.get_by_test_id("tasks").locator("[data-task]")
    expect(rows).to_have_count(1)
    page.get_by_label("Created").select_option("from … to …")
    page.get_by_label("From", exact=True).fill(f"{now - timedelta(hours=2):%Y-%m-%dT%H:%M}")
    page.get_by_label("To", exact=True).fill(f"{now - timedelta(hours=1):%Y-%m-%dT%H:%M}")
    expect(rows).to_have_count(0)
    expect(page).to_have_url(re.compile(r"since=span&from=\S+&to="))
    page.reload()
    expect(page.get_by_label("From", exact=True)).to_have_value(f"{now - timedelta(hours=2):%Y-%m-%dT%H:%M}")
    page.get_by_label("To", exact=True).fill(f"{now + timedelta(hours=1):%Y-%m-%dT%H:%M}")
    expect(rows).to_have_count(1)
    client.tasks.cancel(task.id)
