"""The console while the server, the store or the connection fails: it says nothing that nobody knows."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

import rota
from tests.support.console import Visitor, a_dev, a_visitor, require_console
from tests.support.servers.process import free_port

pytestmark = pytest.mark.timeout(240)
AWAY = json.dumps(
    {"type": "about:blank", "title": "Service Unavailable", "status": 503, "code": "unavailable", "detail": "away"}
)
UNKNOWN = "\N{EN DASH}"
AWAY_TITLE = "Store or coordinator gives no answer"
LISTS = (
    ("/tasks", "/tasks?*"),
    ("/task-configs", "/task-configs?*"),
    ("/calendars", "/calendars?*"),
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


def without_polls(page: Page) -> None:
    """Leave only what events bring about, while there is a stream of them."""
    page.add_init_script(
        "const begin = window.setInterval;"
        "window.setInterval = (act, ms, ...rest) => (ms === 15000 ? 0 : begin(act, ms, ...rest));"
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


def test_what_a_proxy_says_while_servers_are_replaced_does_not_end_the_stream(visitor: Visitor) -> None:
    asked: list[str] = []

    def refuse_first(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.fulfill(status=404, content_type="text/html", body="<h1>no such upstream</h1>")
        elif len(asked) == 2:
            route.fulfill(status=200, content_type="text/html", body="<h1>in maintenance</h1>")
        else:
            route.continue_()

    visitor.page.route("**/api/v1/events", refuse_first)
    visitor.go("/tasks")
    visitor.wait_until_live()
    assert len(asked) == 3


def test_a_stream_that_ends_at_once_is_not_asked_for_all_the_time(visitor: Visitor) -> None:
    page = visitor.page
    page.clock.install()
    streams: list[str] = []
    lists: list[str] = []

    def end_at_once(route: Route) -> None:
        streams.append(route.request.url)
        route.fulfill(status=200, content_type="text/event-stream", body="retry: 2000\n\n")

    page.route("**/api/v1/events", end_at_once)
    page.on("request", lambda request: lists.append(request.url) if "/api/v1/tasks?" in request.url else None)
    visitor.go("/tasks")
    expect(page.get_by_test_id("tasks").or_(page.get_by_test_id("empty"))).to_be_visible()
    first = len(lists)
    for _ in range(90):
        page.clock.run_for(500)
    assert 2 <= len(streams) <= 9, "of 45 seconds"
    assert len(lists) > first, "nothing else tells what happens"


def test_what_happened_during_a_pause_is_seen_after_it_though_nothing_happened_before(
    visitor: Visitor, client: rota.Client
) -> None:
    client.configs.put("outage.quiet", {"executor": {"type": "local"}})
    page = visitor.page
    without_polls(page)
    visitor.go("/tasks?type=outage.quiet")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    visitor.wait_until_live()
    page.get_by_role("button", name="Pause updates").click()
    expect(page.get_by_test_id("live")).to_have_attribute("data-state", "paused")
    task = client.submit("outage.quiet", delay="20h")
    page.get_by_role("button", name="Resume updates").click()
    expect(page.locator(f"[data-task='{task.id}']")).to_be_visible()
    task.cancel()


@pytest.mark.slow
def test_the_stream_is_taken_up_again_when_the_server_is_back(tmp_path: Path, browser: Browser) -> None:
    require_console()
    port = str(free_port())
    with a_dev(tmp_path, "--port", port) as dev, a_visitor(browser, dev.url) as visitor:
        without_polls(visitor.page)
        visitor.log_in(dev.token)
        visitor.go("/tasks?type=shop.greet")
        expect(visitor.page.get_by_test_id("empty")).to_be_visible()
        visitor.wait_until_live()
        dev.popen.kill()
        expect(visitor.page.get_by_test_id("live")).to_have_attribute("data-state", "reconnecting")
        with a_dev(tmp_path, "--port", port) as again, rota.Client(again.url, again.token) as client:
            visitor.wait_until_live()
            task = client.submit("shop.greet").wait("30s")
            expect(visitor.page.locator(f"[data-task='{task.id}']")).to_contain_text("Succeeded")


def test_a_slow_answer_is_no_clock_that_is_wrong(visitor: Visitor) -> None:
    page = visitor.page
    page.clock.install()
    asked: list[str] = []

    def take_long(route: Route) -> None:
        asked.append(route.request.url)
        answer = route.fetch()
        if len(asked) == 1:
            page.clock.fast_forward(20_000)
        route.fulfill(response=answer)

    page.route("**/api/v1/cluster", take_long)
    visitor.go("/cluster")
    expect(page.get_by_test_id("nodes")).to_be_visible()
    expect(page.get_by_text("The clock of this computer")).to_have_count(0)


def test_an_answer_that_breaks_off_is_told_as_a_connection_that_failed(visitor: Visitor) -> None:
    page = visitor.page
    page.add_init_script(
        "const ask = window.fetch;"
        "const cut = () => new Response(new ReadableStream({ start: (body) => body.error(new TypeError('cut')) }));"
        "window.fetch = (path, how) => (String(path).includes('/tasks?') ? Promise.resolve(cut()) : ask(path, how));"
    )
    visitor.go("/tasks")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")


def test_older_tasks_are_not_asked_for_while_the_filter_has_just_changed(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("outage.many", {"executor": {"type": "local"}})
    client.submit_many("outage.many", [{} for _ in range(60)], delay="20h")
    page = visitor.page
    visitor.go("/tasks?type=outage.many")
    older = page.get_by_role("button", name="Older")
    expect(older).to_be_enabled()
    page.route("**/api/v1/tasks?*", lambda route: None)  # no answer yet
    visitor.go("/tasks?type=outage.many&priority=9")
    expect(page.get_by_role("button", name="Clear filters")).to_be_visible()
    expect(older).to_be_disabled()
    page.unroute_all()
    client.tasks.cancel_all(type="outage.many")
