"""The log of a task in a real browser: how grave its lines are, what of it was not kept, in which order it stands."""

import json

import pytest
from playwright.sync_api import Page, expect

import rota
from tests.support.console import Visitor

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]
LINE = {"from_status": None, "to_status": None, "attempt": 1, "worker_id": None, "message": "", "detail": ""}


def test_a_log_tells_how_grave_its_lines_are_and_what_was_not_kept(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.chatter")
    assert task.wait(timeout=60).status == "SUCCESS"
    page = visitor.page
    visitor.go(f"/tasks/{task.id}")
    lines, state = page.locator(".log-line"), page.get_by_test_id("log-state")
    expect(state).to_have_text("Ended")
    expect(page.get_by_text("Truncated at 256 KiB")).to_be_visible()
    page.get_by_label("Search the log").fill("line 29999")
    expect(page.get_by_role("log")).to_contain_text("more than the 256 KiB that are kept")
    page.get_by_label("Search the log").fill("shelf")
    expect(lines).to_have_count(2)
    expect(lines.first).to_contain_text("WARNING one shelf is empty")
    expect(lines.last).to_contain_text("ERROR one shelf is gone")
    page.get_by_label("Level").select_option("Errors")
    expect(lines).to_have_count(1)
    expect(page.get_by_text("1 line", exact=True)).to_be_visible()
    page.get_by_label("Search the log").fill("counting")
    page.get_by_label("Level").select_option("Warnings and errors")
    expect(lines).to_have_count(0)


def record(page: Page, *lines: dict[str, object]) -> None:
    """What the server answers when it is asked for a log."""
    said = [f"id: {place}\nevent: log\ndata: {json.dumps(LINE | line)}\n\n" for place, line in enumerate(lines)]
    body = "".join([*said, "event: end\ndata: {}\n\n"])
    page.route("**/logs", lambda route: route.fulfill(content_type="text/event-stream", body=body))


def test_what_was_written_after_a_cancellation_stands_below_it(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.greet")
    page, at = visitor.page, "2030-01-01T00:00:00.{}00Z".format
    record(
        page,
        {"seq": "1", "kind": "STATE_CHANGE", "to_status": "PROCESSING", "at": at("5000")},
        {"seq": "2", "kind": "INFO", "at": at("4000"), "message": "first, by another clock"},
        {"seq": "3", "kind": "INFO", "at": at("9000"), "message": "late"},
        {"seq": "4", "kind": "STATE_CHANGE", "to_status": "CANCELLED", "at": at("6000")},
    )
    visitor.go(f"/tasks/{task.id}")
    lines = page.locator(".log-line")
    expect(lines).to_contain_text(["Running", "by another clock", "Cancelled", "late"])
    expect(page.get_by_test_id("log-state")).to_have_text("Complete")
