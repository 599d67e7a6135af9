"""What is typed or shown in the console is what is stored: long numbers, fractions, and keys that no field shows."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

import rota
from tests.support.console import Visitor

pytestmark = pytest.mark.timeout(240)

LONG = 9007199254740993  # one more than a number of JavaScript can tell from its neighbour
LONGER = -123456789012345678901234567890


def save(page: Page, task_type: str) -> None:
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)  # until then, whoever leaves is asked
    expect(page.get_by_role("heading", name=task_type)).to_be_visible()


def copied_as(page: Page, form: str) -> str:
    page.get_by_role("button", name="Copy as").click()
    page.get_by_role("menuitem", name=form).click()
    expect(page.get_by_text("Copied").last).to_be_visible()
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_a_long_number_in_the_input_of_a_task_keeps_its_digits(visitor: Visitor, client: rota.Client) -> None:
    payload = {"order": LONG, "all": [LONGER, 0.1, '9007199254740993, "12345678901234567890"']}
    client.configs.put("digits.input", {"executor": {"type": "local"}})
    first = client.submit("digits.input", payload, delay="20h")
    page = visitor.page
    visitor.go(f"/tasks/{first.id}")
    page.get_by_role("tab", name="Input").click()
    expect(page.get_by_role("tabpanel")).to_contain_text(f'"order": {LONG},')
    assert str(LONGER) in copied_as(page, "Python")
    for form in ("curl", "CLI"):
        assert f'"order":{LONG},' in copied_as(page, form)
    page.get_by_role("button", name="Run again with other input").click()
    given = page.get_by_role("textbox", name="Input")
    assert json.loads(given.input_value()) == payload
    given.fill(given.input_value().replace('"order"', f'"more": {LONG + 2}, "order"'))
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_text("Rerun of")).to_be_visible()
    assert client.tasks.get(page.url.rpartition("/")[2]).payload == payload | {"more": LONG + 2}


def test_a_long_number_in_a_config_outlives_every_change(visitor: Visitor, client: rota.Client) -> None:
    executor = {"type": "http", "url": "https://shop.example.com/orders", "query": {"account": str(LONG)}}
    body = {"account": LONG, "deep": [{"down": LONGER}]}
    client.configs.put("digits.config", {"executor": executor | {"body": body}, "payload": {"order": LONG}})
    page = visitor.page
    visitor.go("/task-configs/digits.config")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Description").fill("Orders.")
    page.get_by_label("URL").fill("https://shop.example.com/v2/orders")
    save(page, "digits.config")
    visitor.go("/queues")
    page.get_by_label("All types").check()
    row = page.locator("[data-type='digits.config']")
    row.get_by_role("button", name="Limits").click()
    page.get_by_label("At most at once").fill("4")
    page.get_by_role("button", name="Apply").click()
    expect(row).to_contain_text("4 at once")
    stored = client.configs.get("digits.config")
    assert (stored.description, stored.max_concurrent, stored.payload) == ("Orders.", 4, {"order": LONG})
    assert stored.executor == executor | {"body": body, "url": "https://shop.example.com/v2/orders"}


def test_a_number_with_a_fraction_is_typed_into_a_field(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/task-configs/+new")
    page.get_by_label("Type").fill("fields.patience")
    page.get_by_label("URL").fill("https://shop.example.com/refunds")
    page.get_by_label("Seconds until an answer begins").press_sequentially("0.5")
    page.get_by_label("Requests at once").press_sequentially("1.2")
    save(page, "fields.patience")
    executor = client.configs.get("fields.patience").executor
    assert (executor["response_timeout_seconds"], executor["concurrency"]) == (0.5, 12)


def test_an_underscore_is_seen_where_code_is_typed(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/task-configs/+new")
    page.get_by_label("Executor", exact=True).select_option("local")
    field = page.get_by_label("Function")
    pictures = []
    for text in ("tasks:send_email", "tasks:send email"):
        field.fill(text)
        field.blur()
        field.screenshot()  # the first one may have the end of a transition
        pictures.append(field.screenshot(animations="disabled"))
    assert pictures[0] != pictures[1]


def test_a_number_out_of_bounds_stays_as_it_is_typed_and_is_told_at_its_field(
    visitor: Visitor, client: rota.Client
) -> None:
    client.configs.put("bounds.kept", {"executor": {"type": "local"}, "max_concurrent": 3})
    page = visitor.page
    visitor.go("/queues")
    row = page.locator("[data-type='bounds.kept']")
    row.get_by_role("button", name="Limits").click()
    limit = page.get_by_label("At most at once")
    limit.fill("0")
    page.get_by_role("button", name="Apply").click()
    expect(limit).to_have_value("0")
    expect(limit).to_have_accessible_description("At least 1")
    limit.fill("5")
    page.get_by_role("button", name="Apply").click()
    expect(row).to_contain_text("5 at once")
    visitor.go("/task-configs/bounds.kept")
    page.get_by_role("button", name="Edit").click()
    timeout = page.get_by_label("Timeout, seconds")
    timeout.fill("-5")
    page.get_by_role("button", name="Save").first.click()
    expect(timeout).to_have_value("-5")
    expect(timeout).to_have_accessible_description("At least 0.1")
    timeout.fill("5")
    save(page, "bounds.kept")
    stored = client.configs.get("bounds.kept")
    assert (stored.max_concurrent, stored.timeout_seconds) == (5, 5)


def test_a_type_that_is_kept_in_files_stays_one_of_them(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("files.nightly", {"executor": {"type": "local"}, "source": "shop"})
    page = visitor.page
    visitor.go("/task-configs/files.nightly")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Description").fill("Every night.")
    save(page, "files.nightly")
    stored = client.configs.get("files.nightly")
    assert (stored.description, stored.source) == ("Every night.", "shop")


def test_a_type_that_somebody_else_changed_while_it_was_edited_is_not_overwritten(
    visitor: Visitor, client: rota.Client
) -> None:
    local = {"executor": {"type": "local"}}
    client.configs.put("forms.shared", local)
    page = visitor.page
    visitor.go("/task-configs/forms.shared")
    page.get_by_role("button", name="Edit").click()
    with page.expect_response(lambda seen: seen.url.endswith("/forms.shared") and seen.json()["revision"] == 2):
        client.configs.put("forms.shared", local | {"timeout_seconds": 90})
        client.submit("forms.shared", delay="20h")  # an event, after which the console reads anew
    page.get_by_label("Description").fill("Mine.")
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody else changed it meanwhile")
    page.get_by_role("button", name="Back").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    expect(page.get_by_text("1 min 30 s")).to_be_visible()
    stored = client.configs.get("forms.shared")
    assert (stored.timeout_seconds, stored.description) == (90, "")


def test_a_key_goes_with_the_field_that_showed_it(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/task-configs/+new")
    page.get_by_label("Type").fill("fields.turned")
    page.get_by_label("Executor", exact=True).select_option("grpc")
    page.get_by_label("Address").fill("shop.internal:50051")
    page.get_by_label("streaming").check()
    service = page.get_by_label("Service", exact=True)
    service.fill("shop.v1.Orders")
    page.get_by_label("Method").fill("Place")
    save(page, "fields.turned")
    executor = {"type": "grpc", "address": "shop.internal:50051"}
    assert client.configs.get("fields.turned").executor == executor | {"service": "shop.v1.Orders", "method": "Place"}
    page.get_by_role("button", name="Edit").click()
    service.fill("")
    save(page, "fields.turned")
    assert client.configs.get("fields.turned").executor == executor


def test_the_next_fires_are_asked_for_when_what_they_depend_on_was_typed(visitor: Visitor) -> None:
    page = visitor.page
    asked: list[Any] = []

    def note(sent: Request) -> None:
        if sent.url.endswith(":preview"):
            asked.append(sent.post_data_json)

    page.on("request", note)
    visitor.go("/task-configs/+new")
    page.get_by_text("cron", exact=True).click()
    fires = page.get_by_test_id("preview").get_by_role("listitem")
    expect(fires).to_have_count(5)
    first = len(asked)
    task_type = page.get_by_label("Type")
    task_type.press_sequentially("forms.preview")
    expect(page.get_by_test_id("preview")).to_be_visible()
    with page.expect_response("**/schedules:preview"):
        page.get_by_label("Cron expression").fill("H 4 * * *")
    assert [body["type"] for body in asked[first:]] == ["forms.preview"], "a type changes nothing without an H"
    more = "ed.by.many.people"
    task_type.press("End")
    with page.expect_request(lambda sent: f"forms.preview{more}" in (sent.post_data or "")):
        task_type.press_sequentially(more)
    expect(fires).to_have_count(5)
    assert len(asked) - first - 1 < len(more) / 2, "not for every letter, however slow this machine is"


def test_what_the_server_refuses_is_told_in_the_language_of_the_visitor(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/task-configs/+new")
    page.get_by_label("Language").select_option("zh-CN")
    page.get_by_role("textbox", name="类型").fill("no type!")
    page.get_by_label("网址").fill("https://shop.example.com/refunds")
    page.get_by_role("button", name="保存").first.click()
    wrong = page.locator("[id$=-error]")
    expect(wrong).to_contain_text("'no type!' 只能包含字母、数字和 _ . -")
    expect(page.get_by_role("alert")).to_contain_text("请求有误")
    page.get_by_role("textbox", name="默认输入").fill('{"order": 1,}')
    expect(wrong.last).to_contain_text("第 1 行第 13 列有误")
    page.get_by_role("textbox", name="默认输入").fill("{")
    expect(wrong.last).to_contain_text("第 1 行第 2 列有误")
    page.get_by_role("textbox", name="默认输入").fill("{}")
    page.get_by_role("textbox", name="类型").fill("forms.refused")
    page.get_by_label("网址").fill("https://shop.example.com:port/")
    page.get_by_role("button", name="保存").first.click()
    expect(wrong).to_contain_text("服务器的说明")
    expect(wrong.locator("[lang=en]")).to_contain_text("is no URL")
    visitor.go("/task-configs/forms.nobody")
    page.get_by_role("dialog").get_by_role("button", name="放弃").click()
    expect(page.get_by_role("alert")).to_contain_text("没有这个类型任务配置 forms.nobody 不存在可能已被删除")
    page.get_by_label("语言").select_option("en")
    expect(page.get_by_role("alert")).to_contain_text("task config forms.nobody does not exist")


def test_a_code_of_a_later_release_is_told_with_the_words_of_the_server(visitor: Visitor) -> None:
    told = {"type": "", "title": "Gone", "status": 410, "code": "retired", "detail": "it has been retired"}
    page = visitor.page
    page.route("**/api/v1/workers?*", lambda route: route.fulfill(status=410, json=told))
    visitor.go("/workers")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The server refused thisit has been retired")
    page.get_by_label("Language").select_option("zh-CN")
    expect(alert).to_contain_text("服务器拒绝了此请求服务器的说明")
    expect(alert.locator("[lang=en]")).to_have_text("it has been retired")
