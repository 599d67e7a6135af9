"""What was done, and is done again: elections, the audit log, tasks that are run again, executors by fields."""

import re

import pytest
from playwright.sync_api import Browser, Route, expect

import rota
from tests.support.console import Dev, Visitor, a_visitor

pytestmark = pytest.mark.timeout(240)


def test_elections_are_listed_and_lead_into_the_audit_log(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/cluster")
    leader = client.cluster().leader
    assert leader is not None
    row = page.get_by_test_id("elections").get_by_role("row", name=leader)
    expect(row).to_contain_text("leads now")
    page.get_by_role("link", name="In the audit log").click()
    expect(page.get_by_label("Source")).to_have_value("cluster")
    expect(page.get_by_test_id("audit").get_by_role("row", name=leader)).to_contain_text("Became leader")


def test_the_audit_log_is_searched_by_filters_in_the_address(visitor: Visitor, client: rota.Client) -> None:
    kept, other = (client.submit("shop.greet", delay="20h") for _ in range(2))
    for task in (kept, other):
        task.cancel()
    page = visitor.page
    visitor.go("/audit")
    entries = page.get_by_test_id("audit").get_by_role("row")
    expect(entries.nth(2)).to_be_visible()
    page.get_by_label("What", exact=True).select_option("task.cancel")
    page.get_by_label("To what").fill(kept.id)
    expect(entries).to_have_count(2)  # with the heading
    expect(entries.nth(1)).to_contain_text("Cancelled a task")
    expect(page).to_have_url(re.compile(f"action=task.cancel&object={kept.id}"))
    page.reload()
    expect(entries).to_have_count(2)
    expect(page.get_by_label("To what")).to_have_value(kept.id)
    page.get_by_label("Who", exact=True).fill("nobody at all")
    nothing = page.get_by_test_id("empty")
    expect(nothing).to_contain_text("Nothing matches")
    expect(nothing).to_contain_text("need the whole name")
    page.get_by_label("Language").select_option("zh-CN")
    expect(nothing).to_contain_text("须填写完整名称")
    page.get_by_label("语言").select_option("en")
    page.get_by_role("button", name="Clear filters").click()
    expect(entries.nth(2)).to_be_visible()
    assert page.url.endswith("/audit")


def test_a_task_is_run_again_with_other_input_and_both_lead_to_each_other(
    visitor: Visitor, client: rota.Client
) -> None:
    first = client.submit("shop.greet", {"name": "Ada"}, name="greet somebody").wait("60s")
    page = visitor.page
    visitor.go(f"/tasks/{first.id}")
    page.get_by_role("button", name="Run again with other input").click()
    page.get_by_role("textbox", name="Input").fill('{"name": "Grace"}')
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_text("Rerun of")).to_be_visible()
    again = page.url.rpartition("/")[2]
    assert client.tasks.get(again).payload == {"name": "Grace"}
    page.get_by_role("link", name=first.id).click()
    expect(page.get_by_text("Run again as", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=again)).to_be_visible()
    visitor.go(f"/audit?action=task.retry&object={first.id}")
    entry = page.get_by_test_id("audit").get_by_role("row").nth(1)
    expect(entry).to_contain_text(f"as task {again}, with other input")
    page.get_by_label("Language").select_option("zh-CN")
    expect(entry).to_contain_text(f"新任务 {again}")
    expect(entry).to_contain_text("输入已更改")


def test_all_tasks_that_were_made_of_one_are_counted_and_shown(visitor: Visitor, client: rota.Client) -> None:
    first = client.submit("shop.greet").wait("60s")
    again: list[str] = []
    while len(again) < 5:  # of those within ten milliseconds the record tells one
        client.tasks.retry(first.id)
        again = re.findall(r'"rerun_as": "(\d+)"', "".join(line.detail for line in client.tasks.logs(first.id)))
    page = visitor.page
    visitor.go(f"/tasks/{first.id}")
    expect(page.get_by_text("Run again as (5)")).to_be_visible()
    links = page.get_by_role("link", name=re.compile("|".join(again)))
    expect(links).to_have_text(again[-3:])
    page.get_by_role("button", name="Show all").click()
    expect(links).to_have_text(again)


def test_a_task_that_succeeded_is_retried_after_a_question(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.greet").wait("60s")
    page = visitor.page
    visitor.go(f"/tasks/{task.id}")
    page.get_by_role("button", name="Retry").click()
    question = page.get_by_role("dialog", name="Run it again?")
    question.get_by_role("button", name="Back").click()
    expect(question).to_have_count(0)
    assert page.url.endswith(task.id)
    page.get_by_role("button", name="Retry").click()
    question.get_by_role("button", name="Run again").click()
    expect(page.get_by_text("Rerun of")).to_be_visible()


def test_a_second_click_makes_no_second_task(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("deeds.once", {"executor": {"type": "local"}})
    page = visitor.page
    visitor.go("/task-configs/deeds.once")
    page.evaluate("delete Crypto.prototype.randomUUID")  # as on a page that came over plain HTTP from another machine
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").dblclick()
    page.get_by_role("button", name="Run again with other input").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").dblclick()
    expect(page.get_by_text("Rerun of")).to_be_visible()
    assert len(list(client.tasks.list(type="deeds.once"))) == 2


def lose(route: Route) -> None:
    """It arrives, and its answer does not."""
    route.fetch()
    route.abort()


def test_what_was_made_though_no_answer_came_is_not_made_again(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("deeds.unanswered", {"executor": {"type": "local"}})
    page = visitor.page
    page.route(re.compile(":(trigger|retry)$"), lose, times=1)
    visitor.go("/task-configs/deeds.unanswered")
    page.get_by_role("button", name="Run now").click()
    run = page.get_by_role("dialog").get_by_role("button", name="Run now")
    run.click()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    run.click()
    expect(page.get_by_role("button", name="Run again with other input")).to_be_visible()
    (task,) = client.tasks.list(type="deeds.unanswered")
    assert page.url.endswith(task.id)
    client.tasks.cancel(task.id)
    page.route(re.compile(":(trigger|retry)$"), lose, times=1)
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("Rerun of")).to_be_visible()
    assert len(list(client.tasks.list(type="deeds.unanswered"))) == 2


def test_many_that_were_run_again_though_no_answer_came_are_not_run_again_twice(
    visitor: Visitor, client: rota.Client
) -> None:
    client.configs.put("deeds.many", {"executor": {"type": "local"}})
    ended = client.submit_many("deeds.many", [{}, {}])
    client.tasks.cancel_all(type="deeds.many")
    page = visitor.page
    visitor.go("/tasks?type=deeds.many")
    for task in ended:
        page.get_by_role("checkbox", name=f"Choose task {task.id}").check()
    page.route("**/api/v1/tasks:retry", lose, times=1)
    retry = page.get_by_role("button", name="Retry").first
    retry.click()
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    retry.click()
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    expect(page.get_by_text("2 new tasks")).to_be_visible()
    made = {task.id for task in client.tasks.list(type="deeds.many")} - {task.id for task in ended}
    assert len(made) == 2
    page.get_by_role("link", name="Show them").click()
    rows = page.locator("[data-task]")
    expect(rows).to_have_count(2)
    assert {row.get_attribute("data-task") for row in rows.all()} == made


def test_all_that_match_are_run_again_after_a_warning_and_the_new_ones_are_shown(
    visitor: Visitor, client: rota.Client
) -> None:
    client.configs.put("deeds.again", {"executor": {"type": "local"}})
    client.submit_many("deeds.again", [{}, {}, {}])
    client.tasks.cancel_all(type="deeds.again")
    page = visitor.page
    visitor.go("/tasks?type=deeds.again&status=CANCELLED")
    switch = page.get_by_role("switch", name="All that match")
    switch.check()
    page.get_by_role("button", name="Retry").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("Tasks that were run again before are run once more, too.")
    question.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("3 new tasks")).to_be_visible()
    expect(switch).not_to_be_checked()
    page.get_by_role("link", name="Show them").click()
    expect(page.locator("[data-task]")).to_have_count(3)
    expect(page.get_by_test_id("tasks")).not_to_contain_text("Cancelled")
    page.get_by_label("Created", exact=True).select_option("24h")
    expect(page.locator("[data-task]")).to_have_count(6)


def test_all_that_match_are_those_of_the_last_minutes_however_long_the_page_was_open(
    visitor: Visitor, client: rota.Client
) -> None:
    client.configs.put("deeds.aged", {"executor": {"type": "local"}})
    client.submit("deeds.aged")
    page = visitor.page
    visitor.go("/tasks?type=deeds.aged&since=15m")
    page.get_by_role("switch", name="All that match").check()
    page.get_by_role("button", name="Pause updates").click()
    page.clock.set_fixed_time("2100-01-01")  # when the only one is old
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("None of the tasks that match")).to_be_visible()
    assert [task.status for task in client.tasks.list(type="deeds.aged")] == ["PENDING"]


def test_all_that_match_can_be_chosen_only_with_a_filter(visitor: Visitor, client: rota.Client) -> None:
    client.submit("shop.greet", delay="20h")
    page = visitor.page
    visitor.go("/tasks")
    switch = page.get_by_role("switch", name="All that match")
    expect(switch).to_be_disabled()
    expect(page.get_by_text("all that match can be chosen with a filter")).to_be_visible()
    page.get_by_label("Created", exact=True).select_option("1h")
    switch.check()
    page.get_by_label("Created", exact=True).select_option("")
    expect(switch).not_to_be_checked()
    expect(page.get_by_role("button", name="Retry")).to_be_disabled()


@pytest.mark.parametrize(
    ("asked", "states", "words"),
    [
        ("&status=SUCCESS&status=PENDING", ["SUCCESS"], "Those that succeeded are among them.* states: Succeeded\\."),
        ("", ["FAILED", "TIMEOUT"], "states: Failed, Timed out\\."),
    ],
)
def test_what_is_run_again_is_what_the_question_names(
    visitor: Visitor, client: rota.Client, asked: str, states: list[str], words: str
) -> None:
    client.submit("shop.greet", metadata={"run": "again"}).wait("60s")
    client.submit("shop.charge", {"order": 1}, metadata={"run": "again"}).wait("60s")
    page = visitor.page
    visitor.go(f"/tasks?fact=run%3Dagain{asked}")
    page.get_by_role("switch", name="All that match").check()
    page.route("**/api/v1/tasks:retry", lambda route: route.abort())
    page.get_by_role("button", name="Retry").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text(re.compile(words))
    with page.expect_request("**/api/v1/tasks:retry") as sent:
        question.get_by_role("button", name="Retry").click()
    body = sent.value.post_data_json or {}
    assert (body["status"], body["metadata"]) == (states, {"run": "again"})


def test_copying_works_also_on_a_page_that_came_over_plain_http(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    page.add_init_script(
        "window.board = navigator.clipboard; Object.defineProperty(navigator, 'clipboard', {value: undefined});"
    )
    visitor.go(f"/tasks/{client.submit('shop.greet', delay='20h').id}")
    page.get_by_role("button", name="Copy as").click()
    page.get_by_role("menuitem", name="CLI").click()
    expect(page.get_by_text("Copied").last).to_be_visible()
    assert "rota task submit 'shop.greet'" in page.evaluate("board.readText()")
    visitor.go("/tokens")
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill("copied over plain HTTP")
    page.get_by_role("button", name="Issue").dblclick()
    secret = page.get_by_text(re.compile("^rota_[0-9]+_")).inner_text()
    page.get_by_role("dialog").get_by_role("button", name="Copy").click()
    expect(page.get_by_role("tooltip")).to_have_text("Copied")
    assert page.evaluate("board.readText()") == secret
    (made,) = (token for token in client.tokens.list() if token.name == "copied over plain HTTP")
    client.tokens.revoke(made.id)


def test_whoever_logs_in_next_sees_nothing_of_what_was_seen_before(
    browser: Browser, dev: Dev, client: rota.Client
) -> None:
    first, second = (client.tokens.create(f"visitor {number}", role="viewer") for number in (1, 2))
    client.submit("shop.greet", delay="20h")
    with a_visitor(browser, dev.url) as visitor:
        visitor.log_in(first.secret)
        visitor.go("/tasks")
        page = visitor.page
        expect(page.get_by_test_id("tasks")).to_be_visible()
        client.tokens.revoke(first.token.id)
        expect(page.get_by_role("button", name="Log in")).to_be_visible()
        page.route("**/api/v1/tasks?*", lambda route: None)  # no answer yet
        page.get_by_label("Token", exact=True).fill(second.secret)
        page.get_by_role("button", name="Log in").click()
        visitor.wait_until_live()
        expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
        expect(page.get_by_test_id("tasks")).to_have_count(0)
    client.tokens.revoke(second.token.id)


def test_a_type_is_found_on_whatever_page_of_the_list_it_is(visitor: Visitor, client: rota.Client) -> None:
    for name in ("deeds.page-1", "deeds.page-2", "deeds.page-3"):
        client.configs.put(name, {"executor": {"type": "local"}, "description": "Found by its last words."})
    page = visitor.page
    page.route(
        "**/api/v1/task-configs?*",
        lambda route: route.continue_(url=route.request.url.replace("limit=200", "limit=2")),
    )
    visitor.go("/task-configs")
    page.get_by_label("Search types").fill("by its last words")
    expect(page.get_by_test_id("configs").get_by_role("link")).to_have_text(
        ["deeds.page-1", "deeds.page-2", "deeds.page-3"]
    )
    page.get_by_label("Search types").fill("no such words")
    expect(page.get_by_text("Nothing matches")).to_be_visible()


def test_metadata_is_searched_for_however_slowly_it_is_typed(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("deeds.facts", {"executor": {"type": "local"}})
    ada, _ = (client.submit("deeds.facts", metadata={"of": name, "order": "42"}) for name in ("Ada L.", "Ada B."))
    page = visitor.page
    page.clock.install()
    visitor.go("/tasks?type=deeds.facts")
    rows = page.get_by_test_id("tasks").locator("[data-task]")
    expect(rows).to_have_count(2)
    page.clock.pause_at("2100-01-01")
    facts = page.get_by_label("Metadata")
    for piece in ("ord", "er=42 ", 'of="Ada', ' L."'):
        facts.press_sequentially(piece)
        page.clock.run_for(1000)  # whoever types takes a rest
    expect(facts).to_have_value('order=42 of="Ada L."')
    page.clock.resume()
    expect(rows).to_have_count(1)
    expect(rows).to_have_attribute("data-task", ada.id)
    page.reload()
    expect(facts).to_have_value('order=42 of="Ada L."')
    expect(rows).to_have_count(1)


def test_metadata_without_a_value_is_searched_for_and_of_two_values_the_last(
    visitor: Visitor, client: rota.Client
) -> None:
    client.configs.put("deeds.blank", {"executor": {"type": "local"}})
    blank, other = (client.submit("deeds.blank", metadata={"note": note, "order": "2"}) for note in ("", "a"))
    page = visitor.page
    rows = page.get_by_test_id("tasks").locator("[data-task]")
    facts = page.get_by_label("Metadata")
    visitor.go("/tasks?type=deeds.blank&fact=note%3D&fact=order%3D1&fact=order%3D2")
    expect(rows).to_have_count(1)
    expect(rows).to_have_attribute("data-task", blank.id)
    expect(facts).to_have_value('note="" order=2')
    facts.fill('note="a"')
    expect(rows).to_have_attribute("data-task", other.id)
    facts.fill('note=""')
    expect(rows).to_have_attribute("data-task", blank.id)


def test_an_executor_is_set_by_fields_or_as_json(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/task-configs/+new")
    page.get_by_label("Type").fill("fields.refund")
    page.get_by_label("URL").fill("ftp://shop.example.com")
    page.get_by_label("Method").select_option("PUT")
    page.get_by_label("Headers").fill("X-Team: orders\nX-Order: {payload.order}")
    page.get_by_label("Requests at once").fill("3")
    page.get_by_role("button", name="Save").first.click()
    wrong = page.locator("[id$=-error]")
    expect(wrong).to_have_count(1)
    page.get_by_label("URL").fill("https://shop.example.com/refunds")
    expect(wrong).to_have_count(0)
    page.get_by_text("JSON", exact=True).click()
    settings = page.get_by_label("Executor settings (JSON)").last
    expect(settings).to_have_value(re.compile('"method": "PUT"'))
    settings.fill(settings.input_value().replace('"PUT"', '"PUT", "query": {"a": "b"}'))
    page.get_by_text("Form", exact=True).click()
    expect(page.get_by_text("Also set, see JSON: query")).to_be_visible()
    expect(page.get_by_label("Headers")).to_have_value("X-Team: orders\nX-Order: {payload.order}")
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_role("heading", name="fields.refund")).to_be_visible()
    assert client.configs.get("fields.refund").executor == {
        "type": "http",
        "url": "https://shop.example.com/refunds",
        "method": "PUT",
        "headers": {"X-Team": "orders", "X-Order": "{payload.order}"},
        "concurrency": 3,
        "query": {"a": "b"},
    }


def test_a_function_is_set_by_a_field(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/task-configs/+new")
    page.get_by_label("Type").fill("fields.greet")
    page.get_by_label("Executor", exact=True).select_option("local")
    function = page.get_by_label("Function")
    function.fill("console_app.greet")
    page.get_by_role("button", name="Save").first.click()
    wrong = page.locator("[id$=-error]")
    expect(wrong).to_contain_text("module:function")
    function.fill(" console_app:greet")
    expect(wrong).to_have_count(0)
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_role("heading", name="fields.greet")).to_be_visible()
    assert client.configs.get("fields.greet").executor == {"type": "local", "function": "console_app:greet"}
    assert client.submit("fields.greet", {"name": "Ada"}).wait("60s").status == "SUCCESS"
    page.get_by_role("button", name="Edit").click()
    expect(function).to_have_value("console_app:greet")
    function.fill("")
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_role("heading", name="fields.greet")).to_be_visible()
    assert client.configs.get("fields.greet").executor == {"type": "local"}


def test_a_grpc_service_is_set_by_fields(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/task-configs/+new")
    page.get_by_label("Type").fill("fields.place")
    page.get_by_label("Executor", exact=True).select_option("grpc")
    page.get_by_label("Address").fill("shop.internal:50051")
    page.get_by_label("Service", exact=True).fill("shop.v1.Orders")
    page.get_by_label("Method").fill("Place")
    page.get_by_label("Metadata").fill("x-team: orders")
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_role("heading", name="fields.place")).to_be_visible()
    assert client.configs.get("fields.place").executor == {
        "type": "grpc",
        "address": "shop.internal:50051",
        "service": "shop.v1.Orders",
        "method": "Place",
        "metadata": {"x-team": "orders"},
    }


def test_filters_that_are_cleared_while_one_is_typed_stay_cleared(visitor: Visitor) -> None:
    page = visitor.page
    page.clock.install()
    visitor.go("/tasks?priority=9")
    search = page.get_by_role("textbox", name="Search")
    expect(search).to_be_visible()
    page.clock.pause_at("2100-01-01")
    search.press_sequentially("refund")
    page.get_by_role("button", name="Clear filters").first.click()
    page.clock.run_for(1000)
    expect(page).to_have_url(re.compile("/tasks$"))
    expect(search).to_have_value("")


def test_what_is_typed_stays_with_a_filter_that_is_chosen_at_once(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/tasks")
    page.get_by_role("textbox", name="Search").press_sequentially("refund")
    page.get_by_label("Priority").select_option("9")
    expect(page).to_have_url(re.compile(r"\?(?=.*q=refund)(?=.*priority=9)"))


def test_going_back_while_a_filter_is_typed_leaves_it(visitor: Visitor) -> None:
    page = visitor.page
    page.clock.install()
    visitor.go("/tasks?q=charge")
    search = page.get_by_role("textbox", name="Search")
    expect(search).to_have_value("charge")
    visitor.go("/tasks?q=refund")
    expect(search).to_have_value("refund")
    page.clock.pause_at("2100-01-01")
    search.press_sequentially("s")
    page.evaluate("history.back()")
    expect(search).to_have_value("charge")
    page.clock.run_for(1000)
    expect(page).to_have_url(re.compile(r"\?q=charge$"))


@pytest.mark.parametrize("catalog", ["zh-CN", "settings.zh-CN"])
def test_a_language_that_comes_late_does_not_replace_the_one_chosen_since(visitor: Visitor, catalog: str) -> None:
    page = visitor.page
    held: list[Route] = []
    page.route(re.compile(rf"/assets/{re.escape(catalog)}-"), lambda route: held.append(route))
    visitor.go("/settings")
    words = page.get_by_text("How long a leader")
    expect(words.first).to_be_visible()
    with page.expect_request(re.compile(rf"/assets/{re.escape(catalog)}-")) as asked:
        page.locator("select:has(option[value='zh-CN'])").select_option("zh-CN")
    page.locator("select:has(option[value='zh-CN'])").select_option("en")
    for route in held:
        route.continue_()
    page.evaluate("async address => { await import(address); }", asked.value.url)
    expect(words.first).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "en"
