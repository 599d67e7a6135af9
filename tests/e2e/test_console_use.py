"""What people do all day in the console: look at the figures, go through lists by keyboard, read logs, plan."""

import json
import re
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Route, expect

import rota
from tests.support.console import Visitor

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]


def test_the_overview_counts_what_is_due_though_nobody_takes_it_and_shows_whole_numbers(
    visitor: Visitor, client: rota.Client
) -> None:
    client.configs.put("late.nobody", {"executor": {"type": "local"}})
    client.submit_many("late.nobody", [{} for _ in range(7)])
    for handle in client.submit_many("shop.charge", [{"order": number} for number in range(1200, 1212)]):
        handle.wait("60s")
    visitor.go("/")
    page = visitor.page
    lag = page.get_by_role("link", name=re.compile("Queue lag"))
    expect(lag).to_contain_text(re.compile(r"([7-9]|\d\d+) due but waiting"))  # other tests leave some, too
    failures = page.get_by_role("row", name=re.compile(r"shop\.charge ValueError"))
    number = failures.get_by_role("cell").first.locator(".mantine-Badge-label")
    assert int(number.inner_text().replace(",", "")) >= 12
    assert number.evaluate("label => label.scrollWidth <= label.clientWidth"), "no digit is cut off"
    expect(page.get_by_role("link", name=re.compile("Due later"))).to_have_attribute("href", "#/queues")
    page.get_by_text("Live", exact=True).last.click()
    expect(page.get_by_role("img", name="Rates per second")).to_be_visible()
    lag.click()
    expect(page.locator("[data-type='late.nobody']")).to_contain_text("7")
    visitor.go("/cluster")
    expect(page.get_by_text("Nothing waits for a worker")).to_have_count(0)


def test_success_and_durations_are_those_of_the_reports(visitor: Visitor) -> None:
    durations = {"count": 9, "mean_seconds": 2.0, "min_seconds": 1.0, "max_seconds": 9.0}
    quantiles = {"p50_seconds": 1.5, "p95_seconds": 8.0, "p99_seconds": 9.0}
    counts = {"submitted": 1000, "succeeded": 987, "failed": 13, "timed_out": 0, "cancelled": 0, "quarantined": 0}
    more = {
        "attempts": 1000,
        "retries": 0,
        "success_rate": 0.987,
        "run": durations | quantiles,
        "wait": durations | quantiles,
    }
    figures = counts | more
    hour = {"start": "2026-01-31T08:00:00Z", "end": "2026-01-31T09:00:00Z", "type": "shop.greet"}
    lists = {"items": [hour | figures], "types": [{"type": "shop.greet"} | figures], "slowest": [], "most_failing": []}
    span = {"begin": hour["start"], "end": hour["end"], "by": "hour", "zone": "UTC", "complete_until": None}

    def answer(route: Route) -> None:
        route.fulfill(status=200, content_type="application/json", body=json.dumps(span | lists | {"totals": figures}))

    visitor.page.route("**/api/v1/reports?*", answer)
    visitor.go("/")
    success = visitor.page.get_by_role("link", name=re.compile("Success rate"))
    expect(success).to_contain_text("98.7%")
    expect(success).to_contain_text("1,000 ended in 24 hours")
    expect(visitor.page.get_by_role("link", name=re.compile("Duration, median"))).to_contain_text("1.5 s")
    expect(visitor.page.get_by_role("link", name=re.compile("Duration, p95"))).to_contain_text("p99 9 s")


def test_a_list_is_gone_through_by_keyboard(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("keys.nobody", {"executor": {"type": "local"}})
    handles = client.submit_many("keys.nobody", [{} for _ in range(3)])
    page = visitor.page
    visitor.go("/tasks?type=keys.nobody")
    newest, next_one = (page.locator(f"[data-task='{handle.id}']") for handle in (handles[2], handles[1]))
    expect(newest).to_be_visible()
    page.keyboard.press("j")
    expect(newest.get_by_role("link").first).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(next_one.get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("k")
    expect(newest.get_by_role("link").first).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_role("textbox", name="Search")).to_be_focused()
    expect(page.get_by_role("textbox", name="Search")).to_have_value("")
    page.get_by_role("textbox", name="Search").blur()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/tasks/{handles[2].id}$"))


def test_of_one_process_another_worker_is_not_advised_in_either_language(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("left.over", {"executor": {"type": "local"}})
    task = client.submit("left.over")
    page = visitor.page
    visitor.go(f"/tasks/{task.id}")
    why = page.get_by_test_id("why")
    expect(why).to_contain_text("all of Rota is one process here, which no other worker can join")
    page.get_by_label("Language").select_option("zh-CN")
    expect(why).to_contain_text(re.compile("其他工作节点无法加入.*rota dev FILE.py 或 rota server --app FILE.py"))
    page.get_by_label("语言").select_option("en")
    expect(why.get_by_text("rota worker")).to_have_count(0)
    client.tasks.cancel(task.id)


@pytest.mark.parametrize(
    ("lack", "words", "command"),
    [
        ({"executor": "local"}, "请用 --app 启动一个包含其函数的工作节点", "rota worker --app FILE.py"),
        ({"executor": "local", "module": "shop.jobs"}, "其函数在模块 shop.jobs 中", "rota worker --app shop.jobs"),
        ({"executor": "sql"}, "它需要执行器 sql", None),
        ({"executor": "sql", "overlap": "skip"}, "其调度的触发都会被跳过", None),
        ({"executor": "sql", "keeps_firing": True}, "可用 rota schedule pause wanted.nobody 暂停。", None),
    ],
)
def test_what_no_worker_has_is_told_in_chinese_with_a_command_that_helps(
    visitor: Visitor, client: rota.Client, lack: dict[str, object], words: str, command: str | None
) -> None:
    client.configs.put("wanted.nobody", {"executor": {"type": "local"}})
    task, page = client.submit("wanted.nobody"), visitor.page

    def answer(route: Route, changes: dict[str, object]) -> None:
        route.fulfill(json=route.fetch().json() | changes)

    page.route("**/explain", lambda route: answer(route, lack))
    page.route("**/api/v1/cluster", lambda route: answer(route, {"coordinator": "redis"}))
    visitor.go(f"/tasks/{task.id}")
    why = page.get_by_test_id("why")
    expect(why).to_contain_text("No worker takes this type")
    page.get_by_label("Language").select_option("zh-CN")
    expect(why).to_contain_text(words)
    expect(why.locator(".mono")).to_have_text([] if command is None else [command])
    page.get_by_label("语言").select_option("en")
    client.tasks.cancel(task.id)


def test_a_log_has_the_colours_of_the_program_and_stays_where_one_reads(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.export", {"rows": 300})
    page = visitor.page
    visitor.go(f"/tasks/{task.id}")
    expect(page.get_by_role("log")).to_contain_text("299")
    follow = page.get_by_role("switch", name="Follow")
    expect(follow).to_be_checked()
    page.get_by_role("log").hover()
    page.mouse.wheel(0, -300)
    expect(follow).not_to_be_checked()
    page.get_by_label("Search the log").fill("opened")
    opened = page.get_by_role("log").locator(".ansi-green")
    expect(opened).to_have_text("opened")
    expect(opened).to_have_class(re.compile("ansi-bold"))
    expect(page.get_by_role("log").locator(".ansi-yellow")).to_have_text("2 sheets are protected")
    expect(page.get_by_role("log")).not_to_contain_text("[0m")
    client.tasks.cancel(task.id)


def test_a_schedule_keeps_out_of_a_calendar_that_is_chosen(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/task-configs/+new")
    page.get_by_label("Type").fill("planned.report")
    page.get_by_text("cron", exact=True).click()
    expect(page.get_by_text("rota calendar put holidays")).to_be_visible()
    client.calendars.put("weekends", {"windows": [{"weekdays": [6, 7]}]})
    page.reload()
    page.get_by_label("Type").fill("planned.report")
    page.get_by_label("URL").fill("https://reports.example.com/run")
    page.get_by_text("cron", exact=True).click()
    page.get_by_label("Cron expression").fill("0 9 * * *")
    page.get_by_role("combobox", name="Never within calendars").click()
    page.get_by_role("option", name="weekends").click()
    page.get_by_label("Fires that a calendar forbids").select_option("run_after")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="planned.report")).to_be_visible()
    schedule = client.configs.get("planned.report").schedule
    assert schedule is not None
    assert (schedule["exclude"], schedule["on_excluded"]) == (["weekends"], "run_after")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Name").fill("Report")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Report", exact=True)).to_be_visible()
    stored = client.configs.get("planned.report")
    assert stored.schedule == schedule, "what the form shows is what it stores again"
    client.configs.delete("planned.report")
    client.calendars.delete("weekends")


def test_what_calendars_make_of_the_next_fires_is_told_in_either_language(
    visitor: Visitor, client: rota.Client
) -> None:
    client.calendars.put("off-days", {"windows": [{"weekdays": [6, 7]}]})
    schedule = {"cron": "0 9 * * 5,6", "exclude": ["off-days"]}
    client.configs.put("planned.closing", {"executor": {"type": "local"}, "schedule": schedule})
    page = visitor.page
    visitor.go("/task-configs/planned.closing")
    fires = page.get_by_test_id("preview").get_by_role("listitem")
    expect(fires).to_have_count(8)
    expect(fires.filter(has_text="does not fire: in off-days")).to_have_count(4)
    page.get_by_label("Language").select_option("zh-CN")
    expect(fires.filter(has_text="不会触发: 在日历 off-days 之内")).to_have_count(4)
    moved = schedule | {"cron": "0 9 * * 6", "on_excluded": "run_before"}
    client.configs.put("planned.closing", {"executor": {"type": "local"}, "schedule": moved})
    page.reload()
    expect(fires.filter(has_text=re.compile(r"代替 .* 09:00:00: 在日历 off-days 之内"))).to_have_count(8)
    client.configs.delete("planned.closing")
    client.calendars.delete("off-days")


def test_workers_are_known_by_name_with_their_version_and_what_they_hold(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.export", {"rows": 1})
    page = visitor.page
    (worker,) = client.workers.list()
    visitor.go("/workers")
    row = page.locator(f"[data-worker='{worker.id}']")
    expect(row).to_contain_text(rota.__version__)
    expect(row).to_contain_text("every http type")
    row.get_by_title("The tasks that it runs").click()
    expect(page).to_have_url(re.compile(f"worker={worker.id}&status=PROCESSING"))
    expect(page.locator(f"[data-task='{task.id}']").get_by_role("link", name=worker.name)).to_be_visible()
    visitor.go(f"/tasks/{task.id}")
    expect(page.get_by_test_id("why")).to_contain_text(worker.name)
    client.tasks.cancel(task.id)


def test_a_worker_that_has_ended_keeps_its_name_in_the_history(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.greet").wait("60s")
    page = visitor.page
    (worker,) = client.workers.list()

    def answer(route: Route) -> None:  # as after a restart: of those that live it is none
        if "all=true" in route.request.url:
            route.continue_()
        else:
            route.fulfill(json={"items": [], "next_cursor": None})

    page.route("**/api/v1/workers?*", answer)
    visitor.go("/tasks?type=shop.greet")
    expect(page.locator(f"[data-task='{task.id}']").get_by_role("link", name=worker.name)).to_be_visible()
    visitor.go(f"/tasks/{task.id}")
    expect(page.get_by_test_id("attempts").get_by_role("link", name=worker.name)).to_be_visible()


def test_the_cluster_tells_whether_its_store_and_coordinator_answer(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/cluster")
    expect(page.get_by_text(re.compile("answers in "))).to_have_count(2)

    def silence(route: Route) -> None:
        found = route.fetch().json()
        silent = {"leader": None, "coordinator_seconds": None, "coordinator_answers": False}
        route.fulfill(json=found | silent)

    page.route("**/api/v1/cluster", silence)
    expect(page.get_by_role("alert")).to_contain_text("The coordinator gives no answer")
    expect(page.get_by_text("No node leads")).to_have_count(0)


@pytest.mark.parametrize("path", ["/cluster", "/queues"])
def test_what_waits_and_runs_is_named_so_and_by_priority_is_what_is_ready(visitor: Visitor, path: str) -> None:
    page = visitor.page
    level = {"priority": 5, "ready": 2, "oldest_age_seconds": 1.5}
    figures = {"items": [level], "delayed": 1, "assigned": 0, "running": 3}
    page.route("**/api/v1/queues", lambda route: route.fulfill(json=figures))
    visitor.go(path)
    expect(page.get_by_role("heading", name="Waiting and running")).to_be_visible()
    table = page.get_by_role("table", name="In the queue, by priority")
    expect(table.get_by_role("row")).to_contain_text("Priority 5")


@pytest.mark.parametrize("path", ["/cluster", "/queues"])
@pytest.mark.parametrize(
    ("set_aside", "told"), [(4, "4 more are due but set aside"), (0, "Nothing waits"), (None, None)]
)
def test_what_is_set_aside_is_what_the_server_says(
    visitor: Visitor, path: str, set_aside: int | None, told: str | None
) -> None:
    page = visitor.page
    mine = {"type": "mine", "ready": 1, "delayed": 0, "blocked": 0, "running": 0, "oldest_age_seconds": 1.5}
    types = {"items": [mine], "complete": set_aside is not None, "set_aside": set_aside}
    empty = {"items": [], "delayed": 0, "assigned": 0, "running": 0}
    page.route("**/api/v1/queues", lambda route: route.fulfill(json=empty))
    page.route("**/api/v1/queues/types", lambda route: route.fulfill(json=types))
    visitor.go(path)
    expect(page.get_by_role("heading", name="Waiting and running")).to_be_visible()
    said = page.get_by_text(re.compile("more are due but set aside|Nothing waits for a worker"))
    expect(said).to_contain_text([told] if told else [])


def test_a_page_that_breaks_leaves_the_menu_and_says_what_to_do(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/")
    visitor.wait_until_live()
    page.route(re.compile(r"/assets/Workers-.*\.js$"), lambda route: route.abort())
    page.get_by_role("link", name="Workers", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("This page cannot be shown")
    page.get_by_role("link", name="Queues", exact=True).click()
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    visitor.complaints.clear()  # of what did not come


@pytest.mark.parametrize(
    "address",
    [
        "/tasks?since=toString",
        "/reports?range=constructor",
        "/forecast?span=valueOf",
        "/audit?since=valueOf&action=x",
        "/calendars/+new?year=x",
    ],
)
def test_an_address_that_somebody_made_up_shows_the_page_all_the_same(visitor: Visitor, address: str) -> None:
    visitor.go(address)
    expect(visitor.page.locator("main h1")).to_be_visible()
    expect(visitor.page.get_by_role("alert")).to_have_count(0)


def test_a_cancelled_task_is_no_error_and_an_attempt_that_was_retried_says_so(
    visitor: Visitor, client: rota.Client
) -> None:
    cancelled = client.submit("shop.greet", delay="20h")
    client.tasks.cancel(cancelled.id)
    retried = client.submit("shop.sync").wait("60s")
    page = visitor.page
    visitor.go("/tasks?status=CANCELLED")
    expect(page.locator(f"[data-task='{cancelled.id}']")).to_contain_text("Cancelled")
    expect(page.locator(f"[data-task='{cancelled.id}']")).not_to_contain_text("cancelled:")
    visitor.go(f"/tasks/{cancelled.id}")
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    expect(page.get_by_role("heading", name="Error")).to_have_count(0)
    visitor.go(f"/tasks/{retried.id}")
    attempts = page.get_by_test_id("attempts").get_by_role("row")
    expect(attempts.nth(1)).to_contain_text("Failed, tried again")
    expect(attempts.nth(3)).to_contain_text("Succeeded")


def test_an_attempt_that_came_back_says_why_in_either_language(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.settle").wait("60s")
    page = visitor.page
    visitor.go(f"/tasks/{task.id}")
    first = page.get_by_test_id("attempts").get_by_role("row").nth(1)
    expect(first).to_contain_text("Put off by itself")
    expect(first).not_to_contain_text("Pending")
    page.get_by_label("Language").select_option("zh-CN")
    expect(first).to_contain_text("任务自行推迟")
    page.get_by_label("语言").select_option("en")


def test_what_is_wrong_is_shown_at_its_field_until_that_is_changed(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/task-configs/+new")
    page.get_by_label("URL").fill("https://reports.example.com/run")
    page.get_by_label("Type").fill("no type!")
    page.get_by_role("button", name="Save").first.click()
    problem = page.locator("[id$=-error]")
    expect(problem).to_contain_text("no type!")
    page.get_by_label("Name").fill("Of another field")
    expect(problem).to_have_count(1)
    page.get_by_label("Type").fill("form.mended")
    expect(problem).to_have_count(0)


def test_whether_a_schedule_fired_can_be_read(visitor: Visitor, client: rota.Client) -> None:
    greet = {"type": "local", "function": "console_app:greet"}
    client.configs.put("fired.often", {"executor": greet, "schedule": {"every_seconds": 1}})
    visitor.go("/task-configs/fired.often")
    word = visitor.page.get_by_test_id("occurrences").get_by_text("Succeeded").first
    expect(word).to_be_visible()
    client.configs.pause("fired.often")
    assert word.evaluate("label => label.scrollWidth <= label.clientWidth"), "nothing of it is cut off"


def test_the_palette_shows_what_is_chosen_and_says_so_to_who_does_not_see_it(visitor: Visitor) -> None:
    page = visitor.page
    page.set_viewport_size({"width": 1280, "height": 500})
    visitor.go("/")
    visitor.wait_until_live()
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    for _ in range(11):
        page.keyboard.press("ArrowDown")
    chosen = page.get_by_role("dialog").get_by_role("option", selected=True)
    expect(chosen).to_have_text("Settings")
    expect(chosen).to_be_in_viewport(ratio=1)
    expect(field).to_have_attribute("aria-activedescendant", str(chosen.get_attribute("id")))


def test_limits_and_times_are_the_exact_ones(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("exact.rate", {"executor": {"type": "local"}, "rate_per_second": 0.0002})
    page = visitor.page
    visitor.go("/queues")
    expect(page.locator("[data-type='exact.rate']")).to_contain_text("0.0002 per second")
    client.configs.delete("exact.rate")
    with page.expect_response(re.compile(r"/reports\?.*by=hour")) as waiting:
        visitor.go("/reports?range=24h")
    found = waiting.value.json()
    begin, end = (datetime.fromisoformat(found[name]) for name in ("begin", "end"))
    assert end - begin == timedelta(hours=24)
