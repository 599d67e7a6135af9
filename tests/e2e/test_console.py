"""The console in a real browser, in front of a live `rota dev`."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, StorageState, expect

import rota
from tests.support.console import Dev, Visitor, a_dev, a_visitor, require_console

pytestmark = pytest.mark.timeout(240)
PAGES = (
    *("/", "/tasks", "/task-configs", "/task-configs/+new", "/calendars", "/calendars/+new"),
    *("/workers", "/cluster"),
    *("/reports", "/audit", "/tokens", "/settings"),
)
AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
MOST_BYTES = 260_000  # of scripts and styles, compressed, that the first page loads


def test_the_link_opens_the_console_once_and_a_task_is_seen_from_submit_to_end(
    browser: Browser, dev: Dev, client: rota.Client
) -> None:
    with a_visitor(browser, dev.url) as first:
        first.page.goto(dev.link)
        first.wait_until_live()
        assert "code" not in first.page.url
        first.page.get_by_role("link", name="Tasks", exact=True).click()
        task = client.submit("shop.greet", {"name": "Ada"}, name="seen live").wait("30s")
        row = first.page.locator(f"[data-task='{task.id}']")
        expect(row).to_contain_text("Succeeded")  # nobody reloaded
        row.get_by_role("link", name="seen live").click()
        expect(first.page.get_by_test_id("attempts")).to_contain_text("Succeeded")
        expect(first.page.get_by_role("log")).to_contain_text("greeting")
        first.page.get_by_role("tab", name="Output").click()
        expect(first.page.get_by_text("Hello, Ada!")).to_be_visible()
        assert first.complaints == []
    with a_visitor(browser, dev.url) as second:
        second.page.goto(dev.link)
        expect(second.page.get_by_role("alert")).to_contain_text("this link was used")


@pytest.mark.slow
def test_a_link_is_used_up_by_whoever_opens_it_and_shuts_nobody_out(tmp_path: Path, browser: Browser) -> None:
    require_console()
    with a_dev(tmp_path, "--ephemeral") as dev, a_visitor(browser, dev.url) as there_already:
        there_already.log_in(dev.token)
        page = there_already.page
        for _ in range(2):
            page.goto(dev.link)
            expect(page.get_by_role("heading", name="Overview")).to_be_visible()
            expect(page).not_to_have_url(re.compile("code"))
            page.goto("about:blank")
        with a_visitor(browser, dev.url) as late:
            late.page.goto(dev.link)
            expect(late.page.get_by_role("alert")).to_contain_text("this link was used")


def test_a_failure_shows_its_traceback_and_can_be_tried_again(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.charge", {"order": 7}).wait("30s")
    visitor.go(f"/tasks/{task.id}")
    page = visitor.page
    expect(page.get_by_text("Traceback").first).to_be_visible()
    expect(page.get_by_text("order 7 has no card").first).to_be_visible()
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_text("Rerun of")).to_be_visible()
    assert task.id not in page.url


def test_language_and_theme_are_chosen_and_remembered(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/")
    page.get_by_label("Language").select_option("zh-CN")
    expect(page.get_by_role("heading", name="概览")).to_be_visible()
    page.get_by_label("配色").select_option("dark")
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
    page.reload()
    expect(page.get_by_role("heading", name="概览")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")


@pytest.mark.slow
def test_a_viewer_sees_and_changes_nothing(browser: Browser, dev: Dev, client: rota.Client) -> None:
    secret = client.tokens.create("viewer of the test", role="viewer").secret
    task = client.submit("shop.greet").wait("30s")
    with a_visitor(browser, dev.url) as viewer:
        viewer.log_in(secret)
        for hidden in ("Tokens", "Settings"):
            expect(viewer.page.get_by_role("link", name=hidden)).to_have_count(0)
        viewer.go(f"/tasks/{task.id}")
        expect(viewer.page.get_by_role("button", name="Copy as")).to_be_visible()
        expect(viewer.page.get_by_role("button", name="Retry")).to_have_count(0)
        for path in ("/tokens", "/settings"):  # by their address, which anybody can type
            viewer.go(path)
            expect(viewer.page.get_by_role("alert")).to_contain_text("Your role does not cover this")
            expect(viewer.page.locator("main").get_by_role("button")).to_have_count(0)


HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "'\"`${7*7}{{7*7}} \u202eesrever\u202c \x07\x1b[31mred\x1b[0m \u200b end"
)


def test_hostile_words_are_shown_and_do_nothing(visitor: Visitor, client: rota.Client) -> None:
    metadata = {"note": HOSTILE.replace("\x07", "").replace("\x1b", "")[:200]}
    task = client.submit("shop.hostile", {"text": HOSTILE}, name="<i>name</i>", metadata=metadata).wait("30s")
    page = visitor.page
    for path in ("/", "/tasks", f"/tasks/{task.id}", f"/tasks?q={'%3Cscript%3E'}", "/audit"):
        visitor.go(path)
        expect(page.get_by_role("heading").first).to_be_visible()
    visitor.go(f"/tasks/{task.id}")
    expect(page.get_by_role("heading", name="<i>name</i>")).to_be_visible()
    for tab in ("Input", "Metadata", "Log"):
        page.get_by_role("tab", name=tab).click()
    expect(page.get_by_text("⟨U+202E⟩").first).to_be_visible()
    assert "owned" not in page.title()
    assert page.locator("img[src=x]").count() == 0


def test_the_first_page_is_small_and_all_from_this_server(browser: Browser, dev: Dev) -> None:
    sizes: dict[str, int] = {}
    asked: set[str] = set()
    with a_visitor(browser, dev.url) as visitor:
        page = visitor.page
        page.on("request", lambda request: asked.add(request.url))
        page.on("response", lambda answer: sizes.update({answer.url: int(answer.headers.get("content-length", "0"))}))
        visitor.log_in(dev.token)
        expect(page.get_by_role("img", name=re.compile("Tasks that ended|Rates"))).to_be_visible()
    loaded = {url: size for url, size in sizes.items() if re.search(r"\.(js|css)$", url)}
    assert 50_000 < sum(loaded.values()) <= MOST_BYTES, loaded
    assert all(url.startswith(dev.url) for url in asked), asked


def test_a_type_is_defined_and_fires_by_itself(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/task-configs")
    page.get_by_role("button", name="New type").click()
    page.get_by_label("Type").fill("shop.greet_often")
    page.get_by_label("Executor", exact=True).select_option("local")
    page.get_by_text("every", exact=True).click()
    page.get_by_label("Seconds", exact=True).fill("0")
    expect(page.get_by_role("alert")).to_contain_text("every_seconds")
    page.get_by_label("Seconds", exact=True).fill("1")
    expect(page.get_by_test_id("preview").get_by_role("listitem")).to_have_count(5)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_test_id("occurrences")).to_contain_text("Pending")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Task configs")).to_be_visible()


@pytest.mark.slow
def test_what_is_wrong_is_shown_at_its_field(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/task-configs/+new")
    page.get_by_label("Type").fill("shop.wrong")
    page.get_by_text("cron", exact=True).click()
    page.get_by_label("Cron expression").fill("61 * * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("61 is not from 0 to 59").first).to_be_visible()
    assert page.url.endswith("+new")


def test_a_thousand_tasks_that_match_are_made_urgent_and_cancelled(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("shop.nobody", {"executor": {"type": "local"}})
    handles = client.submit_many("shop.nobody", [{} for _ in range(1000)])
    page = visitor.page
    visitor.go("/tasks?type=shop.nobody&status=PENDING")
    page.get_by_role("switch", name="All that match").check()
    page.get_by_role("button", name="Priority").click()
    page.get_by_role("menuitem", name="9 (urgent)").click()
    expect(page.get_by_role("dialog")).to_contain_text("1,000 tasks")
    page.get_by_role("dialog").get_by_role("button", name="Change to 9").click()
    expect(page.get_by_text("1,000 of 1,000 changed")).to_be_visible()
    assert {client.tasks.get(handle.id).priority for handle in (handles[0], handles[-1])} == {9}
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_contain_text("1,000 tasks")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    assert client.tasks.get(handles[0].id).status == "CANCELLED"


def test_a_long_log_is_followed_searched_and_the_task_cancelled(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.export", {"rows": 5000})
    page = visitor.page
    visitor.go(f"/tasks/{task.id}")
    expect(page.get_by_text("42 of 100 sheets").first).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("4999")
    assert page.locator(".log-line").count() < 200  # only what is seen is drawn
    page.get_by_label("Search the log").fill('"row":4321')
    expect(page.locator(".log-line")).to_have_count(1)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Cancelled").first).to_be_visible()
    expect(page.locator("[data-testid=log-state][data-state=ended]")).to_be_visible()


def test_a_worker_is_drained_resized_and_resumed(visitor: Visitor, client: rota.Client) -> None:
    page = visitor.page
    visitor.go("/workers")
    page.get_by_role("button", name="Drain").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(page.get_by_test_id("workers")).to_contain_text("Draining")
    task = client.submit("shop.greet")
    visitor.go(f"/tasks/{task.id}")
    expect(page.get_by_test_id("why")).to_contain_text("All workers for it are draining")
    page.get_by_test_id("why").get_by_role("link", name="Workers").click()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_test_id("workers")).to_contain_text("Ready")
    page.get_by_role("button", name="Capacity").click()
    page.get_by_label("Tasks at once").fill("7")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_test_id("workers")).to_contain_text("/ 7")


@pytest.mark.slow
def test_a_waiting_task_is_made_more_urgent(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.greet", delay="1h")
    visitor.go(f"/tasks/{task.id}")
    expect(visitor.page.get_by_test_id("why")).to_contain_text("It is not due yet")
    visitor.page.get_by_label("Priority").select_option("9")
    expect(visitor.page.get_by_role("log")).to_contain_text("9")
    assert client.tasks.get(task.id).priority == 9


@pytest.mark.slow
def test_the_palette_finds_pages_types_and_tasks(visitor: Visitor, client: rota.Client) -> None:
    task = client.submit("shop.greet").wait("30s")
    page = visitor.page
    visitor.go("/")
    visitor.wait_until_live()
    for typed, place in (
        ("workers", "/workers"),
        ("shop.sync", "/task-configs/shop.sync"),
        (task.id, f"/tasks/{task.id}"),
    ):
        page.keyboard.press("Control+k")
        page.get_by_role("dialog").get_by_role("combobox").fill(typed)
        first = page.get_by_role("dialog").locator("button[data-active]")
        expect(first).to_contain_text(re.compile(re.escape(typed), re.I))
        expect(first).not_to_contain_text("Search tasks")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(re.escape(place) + "$"))


@pytest.mark.slow
def test_a_secret_is_shown_once_and_the_token_revoked(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("/tokens")
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill("made in the console")
    page.get_by_role("button", name="Issue").click()
    expect(page.get_by_text(re.compile("^rota_[0-9]+_"))).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Close").last.click()
    row = page.get_by_role("row", name=re.compile("made in the console"))
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_a_phone_shows_every_page_without_scrolling_sideways(
    browser: Browser, dev: Dev, session: StorageState, path: str
) -> None:
    with a_visitor(browser, dev.url, width=390, session=session) as visitor:
        visitor.go(path)
        expect(visitor.page.get_by_role("heading").first).to_be_visible()
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_shows_the_operations_of_the_api_without_scrolling_sideways(
    browser: Browser, dev: Dev, width: int
) -> None:
    with a_visitor(browser, dev.url, width=width) as visitor:
        page = visitor.page
        page.goto(f"{dev.url}/docs")
        expect(page.locator("#list_tasks")).to_contain_text("GET/api/v1/tasks")
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        box = page.get_by_role("group", name="Parameter, In, Type").first
        assert box.evaluate("box => (box.scrollLeft = 9999, box.scrollLeft)") > 0, "its last column can be read"
        assert visitor.complaints == []


@pytest.mark.slow
def test_it_works_behind_a_path_that_a_proxy_takes_away(browser: Browser, dev: Dev) -> None:
    with a_visitor(browser, f"{dev.url}/rota/") as visitor:
        visitor.page.route(
            re.compile("/rota/"), lambda route: route.continue_(url=route.request.url.replace("/rota/", "/", 1))
        )
        asked: set[str] = set()
        visitor.page.on("request", lambda request: asked.add(request.url))
        visitor.log_in(dev.token)
        visitor.page.get_by_role("link", name="Workers", exact=True).click()
        expect(visitor.page.get_by_test_id("workers")).to_contain_text("Ready")
        assert all(url.startswith(f"{dev.url}/rota/") for url in asked), asked


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_use_it(
    browser: Browser, dev: Dev, session: StorageState, *, client: rota.Client, theme: str
) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not there: make console")
    tasks = [client.submit("shop.charge", {"order": 1}).wait("30s"), client.submit("shop.sync").wait("60s")]
    faults: list[str] = []
    with a_visitor(browser, dev.url, session=session) as visitor:
        visitor.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        for path in (*PAGES, *(f"/tasks/{task.id}" for task in tasks), "/task-configs/shop.greet"):
            visitor.go(path)
            visitor.wait_until_live()
            expect(visitor.page.locator("main h1")).to_be_visible()
            visitor.page.evaluate(AXE.read_text("utf-8"))
            found = visitor.page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa']})")
            for fault in found["violations"]:
                faults += [f"{path} {fault['id']} {node['html'][:300]}" for node in fault["nodes"][:3]]
    assert faults == []
