"""What somebody is typing in the console, or is shown once, is not lost by a slip."""

import re

import pytest
from playwright.sync_api import Dialog, Page, Route, expect

import rota
from tests.support.console import Visitor

pytestmark = pytest.mark.timeout(240)
QUESTION = "Discard what you have typed?"


def refuse_to_leave(page: Page, *, asked: str = QUESTION) -> None:
    question = page.get_by_role("dialog", name=asked)
    question.get_by_role("button", name="Back").click()
    expect(question).to_have_count(0)


def click_beside(page: Page) -> None:
    page.mouse.click(5, 450)


def test_input_that_was_changed_is_not_lost_by_a_slip(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.greet").wait("30s")
    page = visitor.page
    for path, button in (
        (f"/tasks/{task.id}", "Run again with other input"),
        ("/task-configs/shop.greet", "Run now"),
    ):
        visitor.go(path)
        page.get_by_role("button", name=button).click()
        given = page.get_by_role("textbox", name="Input")
        back = page.get_by_role("dialog").filter(has=given).get_by_role("button", name="Back")
        given.fill('{"name": "Grace"}')
        page.keyboard.press("Escape")
        click_beside(page)
        expect(given).to_have_value('{"name": "Grace"}')
        back.click()
        refuse_to_leave(page)
        page.evaluate("location.hash = '/workers'")
        refuse_to_leave(page)
        expect(given).to_have_value('{"name": "Grace"}')
        assert page.url.endswith(path)
        back.click()
        page.get_by_role("dialog", name=QUESTION).get_by_role("button", name="Discard").click()
        expect(given).to_have_count(0)


def test_input_that_is_as_it_was_is_closed_without_a_question(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/task-configs/shop.greet")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("textbox", name="Input")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_type_that_is_being_defined_is_left_after_a_question(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/task-configs")
    page.get_by_role("button", name="New type").click()
    page.get_by_label("Type").fill("unsaved.type")
    for leave in (
        lambda: page.evaluate("history.back()"),
        lambda: page.get_by_role("main").get_by_role("button", name="Back").click(),
        lambda: page.get_by_role("link", name="Workers", exact=True).click(),
        lambda: page.get_by_role("button", name="Log out").click(),
    ):
        leave()
        refuse_to_leave(page)
        expect(page.get_by_label("Type")).to_have_value("unsaved.type")
    asked: list[str] = []

    def allow(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.once("dialog", allow)
    page.reload()
    assert asked == ["beforeunload"]
    page.get_by_label("Type").fill("unsaved.type")
    page.get_by_label("Executor", exact=True).select_option("local")
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_role("heading", name="unsaved.type")).to_be_visible()
    page.get_by_role("link", name="Workers", exact=True).click()
    expect(page.get_by_role("heading", name="Workers")).to_be_visible()
    client.configs.delete("unsaved.type")


def test_who_leaves_after_the_question_is_where_they_wanted_to_go(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/task-configs/shop.greet")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Description").fill("Another one.")
    page.get_by_role("link", name="Workers", exact=True).click()
    page.get_by_role("dialog", name=QUESTION).get_by_role("button", name="Discard").click()
    expect(page.get_by_role("heading", name="Workers")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="shop.greet")).to_be_visible()


def test_a_secret_stays_until_it_is_closed_on_purpose(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/tokens")
    held: list[Route] = []
    page.route("**/api/v1/tokens", lambda route: held.append(route))
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill("not to be lost")
    with page.expect_request("**/api/v1/tokens"):
        page.get_by_role("button", name="Issue").click()
    page.keyboard.press("Escape")
    click_beside(page)
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    held[0].continue_()
    secret = page.get_by_text(re.compile("^rota_[0-9]+_"))
    expect(secret).to_be_visible()
    page.keyboard.press("Escape")
    click_beside(page)
    page.evaluate("location.hash = '/workers'")
    refuse_to_leave(page, asked="Discard what is shown?")
    expect(secret).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    (made,) = (token for token in client.tokens.list() if token.name == "not to be lost")
    client.tokens.revoke(made.id)


def test_a_number_that_was_cleared_is_not_stored_as_nought(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("unsaved.number", {"executor": {"type": "local"}, "retry": {"max_retries": 5}})
    page = visitor.page
    visitor.go("/task-configs/unsaved.number")
    page.get_by_role("button", name="Edit").click()
    for label in ("Timeout, seconds", "Priority (0", "Retries", "Retry pause, seconds", "Growth of the pause"):
        field = page.get_by_label(label)
        before = field.input_value()
        field.fill("")
        page.get_by_role("button", name="Save").first.click()
        assert field.evaluate("field => field.validity.valueMissing"), label
        field.fill(before)
    assert client.configs.get("unsaved.number").retry.max_retries == 5
    client.configs.delete("unsaved.number")
