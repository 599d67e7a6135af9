"""The console in front of a cluster where much happens, or that has more than a page asks for at once."""

import re

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
