"""The console while the server, the store or the connection fails: it says nothing that nobody knows."""

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.console import Visitor

pytestmark = pytest.mark.timeout(240)
AWAY = json.dumps(
    {"type": "about:blank", "title": "Service Unavailable", "status": 503, "code": "unavailable", "detail": "away"}
)
UNKNOWN = "\N{EN DASH}"
AWAY_TITLE = "Store or coordinator gives no answer"
LISTS = (
    ("/tasks", "/tasks?*"),
    ("/task-configs", "/task-configs?*"),
    ("/workers", "/workers?*"),
    ("/audit", "/audit?*"),
    ("/tokens", "/tokens?*"),
    ("/queues", "/queues/types"),
    ("/cluster", "/cluster/elections?*"),
)


def take_away(page: Page, *addresses: str) -> None:
    for address in addresses:
        page.route(
            f"**/api/v1{address}",
            lambda route: route.fulfill(status=503, content_type="application/problem+json", body=AWAY),
        )


@pytest.mark.parametrize(("path", "address"), LISTS)
def test_a_list_that_was_not_read_is_not_called_empty(visitor: Visitor, path: str, address: str) -> None:
    page = visitor.page
    take_away(page, address)
    visitor.go(path)
    expect(page.get_by_role("alert")).to_contain_text(AWAY_TITLE)
    expect(page.get_by_test_id("empty")).to_have_count(0)
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_the_overview_has_a_dash_for_what_it_does_not_know_and_asks_again_for_all_of_it(visitor: Visitor) -> None:
    page = visitor.page
    take_away(page, "/queues/types", "/task-configs?*", "/tasks?*", "/cluster", "/reports?*")
    visitor.go("/")
    lag = page.get_by_role("link", name=re.compile("Queue lag"))
    expect(lag).to_contain_text(UNKNOWN)
    expect(lag).not_to_contain_text("0")
    expect(page.get_by_role("link", name=re.compile("Due later"))).to_contain_text(UNKNOWN)
    expect(page.get_by_role("alert")).to_contain_text(AWAY_TITLE)
    expect(page.get_by_role("heading", name="Next fires")).to_be_visible()
    for said_of_nothing in ("Nothing failed", "No schedule"):
        expect(page.get_by_text(said_of_nothing)).to_have_count(0)
    page.unroute_all()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("/api/v1")[2].partition("?")[0]))
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert {"/queues/types", "/task-configs", "/tasks", "/cluster", "/reports"} <= set(asked)
