"""The console in front of a cluster where much happens, or that has more than a page asks for at once."""

import csv
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

import rota
from tests.support.console import Visitor

pytestmark = pytest.mark.timeout(240)


def without_polls(page: Page) -> None:
    """Leave only what events bring about: nothing is asked for because it is fifteen seconds old."""
    page.add_init_script(
        "const begin = window.setInterval;"
        "window.setInterval = (act, ms, ...rest) => (ms === 15000 ? 0 : begin(act, ms, ...rest));"
    )


def test_a_slow_answer_is_waited_for_and_then_what_happened_meanwhile(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("busy.slow", {"executor": {"type": "local"}})
    page = visitor.page
    without_polls(page)
    visitor.go("/tasks?type=busy.slow")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    visitor.wait_until_live()
    asked: list[Route] = []
    types = re.compile(r"/task-configs\?")

    def hold_the_first(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    page.route("**/api/v1/tasks?*", hold_the_first)
    with page.expect_response(types):  # which events bring about in the same moment as the list
        client.submit("busy.slow")
    early = asked[0].fetch()
    with page.expect_request(types):
        client.submit("busy.slow")
    assert len(asked) == 1, "what is on its way is not broken off"
    asked[0].fulfill(response=early)
    expect(page.get_by_test_id("tasks").locator("[data-task]")).to_have_count(2)
    client.tasks.cancel_all(type="busy.slow")


def test_an_export_of_the_last_minutes_has_all_that_were_in_them_when_it_began(
    visitor: Visitor, client: rota.Client, tmp_path: Path
) -> None:
    client.configs.put("busy.export", {"executor": {"type": "local"}})
    made = client.submit_many("busy.export", [{} for _ in range(3)])
    page = visitor.page
    page.clock.install()
    asked: list[str] = []

    def cut(route: Route) -> None:
        asked.extend(parse_qs(urlsplit(route.request.url).query)["created_after"])
        page.clock.set_system_time("2100-01-01")  # so long it takes until the next page
        route.continue_(url=route.request.url.replace("limit=1000", "limit=1"))

    page.route("**/api/v1/tasks?*limit=1000*", cut)
    visitor.go("/tasks?type=busy.export&since=15m")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as waiting:
        page.get_by_role("menuitem", name="CSV").click()
    waiting.value.save_as(tmp_path / "tasks.csv")
    rows = csv.DictReader((tmp_path / "tasks.csv").read_text("utf-8-sig").splitlines())
    assert [row["id"] for row in rows] == [task.id for task in reversed(made)]
    assert len(set(asked)) == 1
    client.tasks.cancel_all(type="busy.export")


def test_what_is_searched_through_is_not_read_again_at_every_event(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    without_polls(page)
    visitor.go("/task-configs?q=no+such+words")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    visitor.wait_until_live()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "limit=200" in request.url else None)
    palette = re.compile(r"/task-configs\?limit=(?!200)")
    with page.expect_response(palette):
        page.keyboard.press("Control+k")
    with page.expect_response(palette):  # which events bring about
        task = client.submit("shop.greet", delay="20h")
    assert asked == []
    task.cancel()


def test_of_more_types_than_are_read_nothing_is_said_that_nobody_knows(visitor: Visitor, client: rota.Client) -> None:
    for name in ("busy.one", "busy.two"):
        client.configs.put(name, {"executor": {"type": "local"}, "schedule": {"cron": "0 0 1 1 *"}})
    task = client.submit("busy.two", delay="20h")
    page = visitor.page
    page.route("**/api/v1/task-configs?limit=1000", lambda route: route.continue_(url=f"{route.request.url[:-4]}1"))
    visitor.go("/queues")
    row = page.locator("[data-type='busy.two']")
    expect(row).to_be_visible()
    expect(row).not_to_contain_text("not defined")
    expect(page.get_by_role("alert")).to_contain_text("beyond the first 1 by name")
    visitor.go("/")
    expect(page.get_by_text("Of the first 1 types by name")).to_be_visible()
    expect(page.get_by_text("No schedule")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("busy.two")
    page.get_by_role("option", name="Search task configs for").click()
    expect(page.get_by_test_id("configs").get_by_role("link", name="busy.two")).to_be_visible()
    task.cancel()
    for name in ("busy.one", "busy.two"):
        client.configs.delete(name)


def test_what_a_forecast_does_not_know_is_not_drawn_as_nothing(visitor: Visitor) -> None:
    page = visitor.page

    def cut(route: Route) -> None:
        found = route.fetch().json()
        for number, bucket in enumerate(found["buckets"][10:]):
            bucket |= {"runs": 0 if number else 3, "work_seconds": 0, "busy": 0, "complete": False}
        found["buckets"][9] |= {"runs": 2, "work_seconds": 36, "busy": 0.01, "unknown_runs": 1}
        missing = {"complete": False, "known_until": found["buckets"][10]["begin"], "left_out": ["busy.later"]}
        route.fulfill(json=found | missing)

    page.route("**/api/v1/schedules:forecast?*", cut)
    visitor.go("/forecast?span=7d")
    cells = page.get_by_test_id("forecast").get_by_role("button")
    expect(cells.nth(9)).not_to_have_class(re.compile("hatched"))
    expect(cells.nth(9)).to_have_attribute("aria-label", re.compile("≥ 36 s of work, \u2013 at once"))
    expect(cells.nth(10)).to_have_attribute("aria-label", re.compile("≥ 3 runs"))
    expect(cells.nth(11)).to_have_attribute("aria-label", re.compile("not known"))
    expect(cells.nth(11)).to_have_class(re.compile("hatched"))
    expect(page.get_by_text("not all of it is known")).to_be_visible()
    expect(page.get_by_text("Not looked at")).to_contain_text("busy.later")
    page.get_by_text("24 hours", exact=True).click()
    expect(page.get_by_test_id("forecast").locator(".hatched")).to_have_count(86)
