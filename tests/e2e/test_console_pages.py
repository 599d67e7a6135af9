"""Queues, forecast and revisions in a real browser, in front of a live `rota dev`."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, StorageState, expect

import rota
from tests.support.console import Dev, Visitor, a_browser, a_dev, a_visitor, require_console

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    require_console()
    with a_dev(tmp_path_factory.mktemp("pages"), "--ephemeral") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    require_console()
    with a_browser() as started:
        yield started


@pytest.fixture
def client(dev: Dev) -> Iterator[rota.Client]:
    with rota.Client(dev.url, dev.token) as made:
        yield made


@pytest.fixture(scope="module")
def session(browser: Browser, dev: Dev) -> StorageState:
    """What the browser of an administrator keeps."""
    with a_visitor(browser, dev.url) as arrived:
        arrived.log_in(dev.token)
        return arrived.page.context.storage_state()


@pytest.fixture
def visitor(browser: Browser, dev: Dev, session: StorageState) -> Iterator[Visitor]:
    """Somebody who has logged in as an administrator, and to whom the browser complained of nothing at the end."""
    with a_visitor(browser, dev.url, session=session) as arrived:
        yield arrived
        assert arrived.complaints == []


def row_of(visitor: Visitor, task_type: str) -> Locator:
    return visitor.page.locator(f"[data-type='{task_type}']")


def test_what_waits_of_a_type_is_seen_limited_and_paused(visitor: Visitor, client: rota.Client) -> None:
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
    row.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("Paused")
    row.get_by_role("button", name="Resume").click()
    expect(row.get_by_text("Paused")).to_have_count(0)
    row.get_by_role("link", name="3", exact=True).click()
    expect(page).to_have_url(re.compile(r"/tasks\?type=queued\.nobody&status=PENDING"))
    expect(page.get_by_test_id("tasks").get_by_role("row")).to_have_count(5)


def test_limits_that_somebody_else_changed_meanwhile_are_not_overwritten(visitor: Visitor, client: rota.Client) -> None:
    client.configs.put("queued.shared", {"executor": {"type": "local"}, "max_concurrent": 3})
    visitor.go("/queues")
    visitor.page.get_by_role("button", name="Pause updates").click()
    row = row_of(visitor, "queued.shared")
    row.get_by_role("button", name="Limits").click()
    client.configs.put("queued.shared", {"executor": {"type": "local"}, "max_concurrent": 7})
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
    expect(row.get_by_role("cell").nth(1)).to_have_text("24")
    expect(page.get_by_text("Cannot be foreseen")).to_contain_text("foreseen.after")
    page.get_by_text("7 days", exact=True).click()
    expect(row.get_by_role("cell").nth(1)).to_have_text("168")
    cells = page.get_by_test_id("forecast").get_by_role("button")
    expect(cells).to_have_count(168)
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
