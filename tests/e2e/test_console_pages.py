"""Queues, forecast, revisions, saved views and export in a real browser, in front of a live `rota dev`."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Route, StorageState, expect

import rota
from rota.config.settings import SCHEMA
from tests.support.console import Dev, Visitor, a_visitor

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]


def row_of(visitor: Visitor, task_type: str) -> Locator:
    return visitor.page.locator(f"[data-type='{task_type}']")


def test_what_waits_of_a_type_is_seen_limited_and_disabled(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("queued.nobody", {"executor": {"type": "local"}, "payload": {"kept": True}})
    client.submit_many("queued.nobody", [{} for _ in range(3)], priority=5)
    client.submit("queued.nobody", delay="1h")
    visitor.go("/queues")
    page, row = visitor.page, row_of(visitor, "queued.nobody")
    expect(row.get_by_role("cell").nth(1)).to_have_text("3")
    expect(row.get_by_role("cell").nth(3)).to_have_text("1")
    row.get_by_role("button", name="Limits").click()
    page.get_by_label("At most at once").fill("4")
    page.get_by_label("At most per second").fill("2.5")
    page.get_by_role("button", name="Apply").click()
    expect(row).to_contain_text("4 at once · 2.5 per second")
    stored = client.configs.get("queued.nobody")
    assert (stored.max_concurrent, stored.rate_per_second, stored.payload) == (4, 2.5, {"kept": True})
    row.get_by_role("button", name="Disable").click()
    page.get_by_role("dialog").get_by_role("button", name="Disable").click()
    expect(row).to_contain_text("Disabled")
    row.get_by_role("button", name="Enable").click()
    expect(row.get_by_text("Disabled")).to_have_count(0)
    row.get_by_role("link", name="3", exact=True).click()
    expect(page).to_have_url(re.compile(r"/tasks\?type=queued\.nobody&status=PENDING"))
    expect(page.get_by_test_id("tasks").get_by_role("row")).to_have_count(5)


def test_a_schedule_rests_with_a_note_while_its_type_can_be_run(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("rests.nightly", {"executor": {"type": "local"}, "schedule": {"cron": "0 3 * * *"}})
    page = visitor.page
    visitor.go("/task-configs/rests.nightly")
    page.get_by_role("button", name="Pause the schedule").click()
    page.get_by_label("Why").fill("stocktaking")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Its schedule is paused")).to_be_visible()
    expect(page.get_by_text("stocktaking", exact=True).first).to_be_visible()
    expect(page.get_by_role("button", name="Run now")).to_be_enabled()
    assert client.configs.get("rests.nightly").enabled
    page.get_by_role("button", name="Resume the schedule").click()
    expect(page.get_by_text("Its schedule is paused")).to_have_count(0)


def test_limits_that_somebody_else_changed_meanwhile_are_not_overwritten(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("queued.shared", {"executor": {"type": "local"}, "max_concurrent": 3})
    visitor.go("/queues")
    row = row_of(visitor, "queued.shared")
    row.get_by_role("button", name="Limits").click()
    client.configs.put("queued.shared", {"executor": {"type": "local"}, "max_concurrent": 7})
    client.submit("queued.shared", delay="20h")  # an event, after which the console reads anew
    expect(row).to_contain_text("7 at once")
    visitor.page.get_by_label("At most at once").fill("1")
    visitor.page.get_by_role("button", name="Apply").click()
    expect(visitor.page.get_by_role("alert")).to_contain_text("Somebody else changed it meanwhile")
    assert client.configs.get("queued.shared").max_concurrent == 7


def test_the_forecast_shows_when_what_fires_and_is_looked_at_closer(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("foreseen.hourly", {"executor": {"type": "local"}, "schedule": {"cron": "30 * * * *"}})
    client.configs.put("foreseen.after", {"executor": {"type": "local"}, "schedule": {"after_end_seconds": 86_400}})
    visitor.go("/forecast")
    page = visitor.page
    row = page.get_by_test_id("forecast-types").get_by_role("row", name="foreseen.hourly")
    expect(row.get_by_role("cell").nth(1)).to_have_text(re.compile("^2[34]$"))  # one may have passed
    reason = "foreseen.after (waits for the end of each run)"
    expect(page.get_by_text("Cannot be foreseen")).to_contain_text(reason)
    page.get_by_label("Language").select_option("zh-CN")
    expect(page.get_by_text("无法预测")).to_contain_text("foreseen.after (须等待每次运行结束)")
    page.get_by_label("语言").select_option("en")
    page.get_by_text("7 days", exact=True).click()
    expect(row.get_by_role("cell").nth(1)).to_have_text(re.compile("^16[78]$"))
    cells = page.get_by_test_id("forecast").get_by_role("button")
    expect(cells).to_have_count(168)
    ground = cells.first.evaluate("cell => getComputedStyle(cell).backgroundColor")
    assert ground != "rgba(0, 0, 0, 0)", "colours that depend on the theme are there"
    row.get_by_role("button", name="Only this").click()
    expect(page).to_have_url(re.compile("type=foreseen.hourly"))
    cells.nth(30).click()
    expect(row.get_by_role("cell").nth(1)).to_have_text("1")
    expect(page).to_have_url(re.compile("span=1h"))
    page.get_by_role("button", name="From now on").click()
    expect(cells).to_have_count(168)


def test_a_revision_is_compared_and_brought_back(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("revised.report", {"executor": {"type": "local"}, "timeout_seconds": 60})
    client.configs.put("revised.report", {"executor": {"type": "local"}, "timeout_seconds": 90, "name": "Report"})
    visitor.go("/task-configs/revised.report")
    page = visitor.page
    newest = page.locator("[data-revision='2']")
    expect(newest).to_contain_text("timeout_seconds")
    expect(newest).to_contain_text("dev")
    newest.get_by_role("button", name="Compare").click()
    expect(page.get_by_test_id("diff").get_by_role("row", name="timeout_seconds")).to_contain_text("60")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.locator("[data-revision='1']").get_by_role("button", name="Compare").click()
    expect(page.get_by_label("Before")).to_have_value("1")
    expect(page.get_by_label("After")).to_have_value("2")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.locator("[data-revision='1']").get_by_role("button", name="Roll back").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(page.locator("[data-revision='3']")).to_contain_text("current")
    stored = client.configs.get("revised.report")
    assert (stored.revision, stored.timeout_seconds, stored.name) == (3, 60, "")
    client.configs.delete("revised.report")
    page.reload()
    page.locator("[data-revision='2']").get_by_role("button", name="Roll back").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("heading", name="Report")).to_be_visible()


def test_a_view_is_saved_chosen_again_and_removed(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/tasks?status=FAILED&priority=9")
    page.get_by_role("button", name="Views").click()
    page.get_by_label("Name of the view").fill("Urgent failures")
    page.get_by_role("button", name="Save").click()
    visitor.go("/tasks")
    page.reload()
    page.get_by_role("button", name="Views").click()
    page.get_by_role("menuitem", name="Urgent failures").click()
    expect(page).to_have_url(re.compile(r"status=FAILED&priority=9$"))
    page.get_by_role("button", name="Views").click()
    page.get_by_role("button", name="Remove Urgent failures").click()
    expect(page.get_by_role("menuitem", name="Urgent failures")).to_have_count(0)


def test_what_matches_is_exported_whole(visitor: Visitor, client: rota.Client, tmp_path: Path) -> None:
    client.configs.put("exported.nobody", {"executor": {"type": "local"}})
    formula = "=cmd|' /C calc'!A0"
    long = "x" * 5_000
    client.submit_many("exported.nobody", [{"text": long, "number": number} for number in range(60)], name=formula)
    visitor.go("/tasks?type=exported.nobody")
    page = visitor.page
    for kind in ("CSV", "JSON lines"):
        page.get_by_role("button", name="Export").click()
        with page.expect_download() as waiting:
            page.get_by_role("menuitem", name=kind).click()
        waiting.value.save_as(tmp_path / waiting.value.suggested_filename)
    rows = list(csv.DictReader((tmp_path / "tasks.csv").read_text("utf-8-sig").splitlines()))
    assert len(rows) == 60
    assert {row["name"] for row in rows} == {f"'{formula}"}, "a spreadsheet must not take it for a formula"
    lines = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text("utf-8").splitlines()]
    assert {line["payload"]["text"] for line in lines} == {long}
    assert sorted(line["payload"]["number"] for line in lines) == list(range(60))


def test_some_tasks_that_are_chosen_are_made_urgent_and_what_runs_is_left(
    visitor: Visitor, client: rota.Client
) -> None:
    client.configs.put("urgent.nobody", {"executor": {"type": "local"}})
    first, second, third = client.submit_many("urgent.nobody", [{} for _ in range(3)])
    client.tasks.cancel(third.id)
    visitor.go("/tasks?type=urgent.nobody")
    page = visitor.page
    for handle in (first, third):
        page.get_by_role("checkbox", name=f"Choose task {handle.id}").check()
    page.get_by_role("button", name="Priority").click()
    page.get_by_role("menuitem", name="7", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("2 chosen")
    page.get_by_role("dialog").get_by_role("button", name="Change to 7").click()
    expect(page.get_by_text("1 of 2 changed")).to_be_visible()
    assert [client.tasks.get(handle.id).priority for handle in (first, second, third)] == [7, 0, 0]
    visitor.go("/tasks?type=urgent.nobody&status=CANCELLED")
    page.get_by_role("switch", name="All that match").check()
    page.get_by_role("button", name="Priority").click()
    page.get_by_role("menuitem", name="0 (normal)").click()
    expect(page.get_by_text("None of the tasks that match")).to_be_visible()


def test_the_settings_in_effect_are_found_with_their_origin(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/settings")
    rows = page.get_by_test_id("settings").locator("tbody tr")
    expect(rows).to_have_count(len(SCHEMA))
    port = page.locator("[data-setting='api.port']")
    expect(port).to_contain_text("Flag")
    expect(port).to_contain_text("8420")
    expect(port).to_contain_text("after a restart")
    expect(page.locator("[data-setting='api.rate']")).to_contain_text("at once")
    page.get_by_label("Search settings").fill("heartbeat")
    expect(page.locator("[data-setting='worker.heartbeat_interval']")).to_be_visible()
    expect(port).to_have_count(0)
    page.get_by_label("Search settings").fill("")
    page.get_by_role("switch", name="Only those that somebody set").check()
    expect(port).to_be_visible()
    expect(page.locator("[data-setting='api.rate']")).to_have_count(0)
    page.get_by_label("Language").select_option("zh-CN")
    expect(port).to_contain_text("HTTP 与控制台的端口")


PAGES = (
    *("/forecast", "/forecast?span=30d", "/queues", "/task-configs/usable.type", "/tasks"),
    *("/calendars", "/calendars/usable.days?year=2026", "/calendars/+new"),
)
DAYS = {
    "windows": [{"weekdays": [6], "begin": "09:00"}],
    "business_days": {"holidays": ["2026-10-01"], "workdays": ["2026-10-10"]},
    "years": [2026, 2027],
}
AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_use_these_pages_also_on_a_phone(
    browser: Browser, dev: Dev, session: StorageState, *, client: rota.Client, theme: str
) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not there: make console")
    for seconds in (60, 90):
        named = {"executor": {"type": "local"}, "timeout_seconds": seconds, "schedule": {"cron": "0 * * * *"}}
        client.configs.put("usable.type", named)
    client.calendars.put("usable.days", DAYS)
    faults: list[str] = []
    with a_visitor(browser, dev.url, session=session, width=390) as visitor:
        visitor.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        for path in PAGES:
            visitor.go(path)
            visitor.wait_until_live()
            expect(visitor.page.locator("main h1")).to_be_visible()
            expect(visitor.page.locator("main [role=status]")).to_have_count(0)  # nothing is being loaded
            assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 390, path
            visitor.page.evaluate(AXE.read_text("utf-8"))
            found = visitor.page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa']})")
            for fault in found["violations"]:
                faults += [f"{path} {fault['id']} {node['html'][:300]}" for node in fault["nodes"][:3]]
    client.calendars.delete("usable.days")
    assert faults == []


SCRIPT = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
DIRECTIONS = "\u202eesrever\u202c \u2067isolated\u2069 \u200b\ufeff"
CONTROLS = "\x07\x1b[31mred\x1b[0m\x08\x9b2J"
HOSTILE = f"{SCRIPT} {DIRECTIONS} {CONTROLS}"
MOST_DRAWN = 150_000  # characters of a page: what is longer is shown when it is asked for
MEBIBYTE = 1024**2


def nested(depth: int) -> object:
    value: object = HOSTILE
    for _ in range(depth):
        value = [value]
    return value


def hostile_tasks(client: rota.Client) -> Iterator[str]:
    """Tasks that are long, deep, or not what they seem, in every place where somebody may write."""
    metadata = {f"key-{number}": f"{SCRIPT} {DIRECTIONS}"[:200] for number in range(60)}
    text = HOSTILE + "\n".join([HOSTILE] * 1000)
    yield client.submit("shop.hostile", {"text": text}, name=f"{SCRIPT}{DIRECTIONS}"[:200], metadata=metadata).id
    yield client.submit("shop.greet", {"name": HOSTILE + "x" * 200_000}).id
    yield client.submit("shop.greet", {"name": "deep", "more": nested(55)}).id
    yield client.submit("shop.greet", {"name": "wide", "more": {f"{number} {SCRIPT}": [] for number in range(2000)}}).id


def check_harmless(visitor: Visitor) -> None:
    page = visitor.page
    assert page.title() != "owned"
    assert page.locator("img[src=x]").count() == 0
    assert page.evaluate("document.body.innerText.length") < MOST_DRAWN
    assert page.evaluate("document.querySelectorAll('*').length") < 10_000
    shown = page.evaluate("document.body.innerText")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x07\x08\x1b\x9b]", shown), "it turns or hides the text around"


def test_long_deep_and_hostile_data_is_harmless_and_bounded_on_every_page(
    visitor: Visitor, client: rota.Client
) -> None:
    long = (f"{SCRIPT}{DIRECTIONS}" * 20)[:2000]
    schedule = {"cron": "0 * * * *"}
    for number in range(2):
        named = {"name": f"{SCRIPT} {number}"[:200], "description": long, "executor": {"type": "local"}}
        client.configs.put("hostile.type", {**named, "payload": {HOSTILE: nested(50)}, "schedule": schedule})
    client.calendars.put("hostile.days", {"description": long, "dates": ["2026-12-24"]})
    tasks = list(hostile_tasks(client))
    for task_id in tasks:
        client.tasks.wait(task_id, "60s")
    page = visitor.page
    pages = ["/", "/tasks", "/task-configs", "/task-configs/hostile.type", "/forecast", "/queues", "/workers"]
    pages += ["/calendars", "/calendars/hostile.days", "/calendars/+new"]
    for path in (*pages, "/cluster", "/audit", "/tokens", "/settings", f"/tasks?q={'%3Cscript%3E'}&fact=%E2%80%AE%3D1"):
        visitor.go(path)
        expect(page.locator("main h1")).to_be_visible()
        check_harmless(visitor)
    for task_id in tasks:
        visitor.go(f"/tasks/{task_id}")
        expect(page.locator("main h1")).to_be_visible()
        for tab in ("Input", "Output", "Metadata", "Log"):
            page.get_by_role("tab", name=tab).click()
            check_harmless(visitor)
    visitor.go("/task-configs/hostile.type")
    page.get_by_role("button", name="Compare").first.click()
    expect(page.get_by_test_id("diff")).to_be_visible()
    check_harmless(visitor)
    client.calendars.delete("hostile.days")


def test_a_mebibyte_is_shown_in_part_and_whole_on_demand(visitor: Visitor, client: rota.Client) -> None:
    """No server of ours takes as much; a console must bear it all the same."""
    task = client.submit("shop.greet").wait("30s")
    answer = client.tasks.get(task.id)
    page = visitor.page
    text = (SCRIPT + "y" * 1000) * (MEBIBYTE // 1000)

    def enlarge(route: Route) -> None:
        body = route.fetch().json()
        route.fulfill(json={**body, "payload": {"text": text}, "name": text[:100_000]})

    page.route(re.compile(rf"/tasks/{answer.id}$"), enlarge)
    visitor.go(f"/tasks/{task.id}")
    page.get_by_role("tab", name="Input").click()
    check_harmless(visitor)
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_role("button", name="Show all")).to_have_count(0)
    assert page.evaluate("document.body.innerText.length") > 900_000
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download").last.click()
    assert json.loads(waiting.value.path().read_text("utf-8"))["text"] == text
    assert page.title() != "owned"
