"""What the overview and the list of tasks say of a time, in a real browser."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

import rota
from tests.support.console import Visitor

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]


def test_tasks_are_looked_for_from_one_moment_to_another(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("spanned.nobody", {"executor": {"type": "local"}})
    task = client.submit("spanned.nobody")
    page, now = visitor.page, datetime.now(UTC)
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
