"""Pictures of every page of the console, in both languages and themes: `python -m tools.screenshots`.

They are for looking at: what one would not show to a customer is to be mended. Two of them, in docs/images/, stand in
the READMEs and are renewed by `--readme`.
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page

import rota
from tests.support.cluster import wait_until
from tests.support.console import Dev, a_browser, a_dev, a_visitor

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "screenshots"
IMAGES = ROOT / "docs" / "images"
LANGUAGES = {"en": "en-GB", "zh": "zh-CN"}
PHONE = 390  # pixels
BUSY_SECONDS = 75  # of load, for a chart with something in it, and figures from the first reports
SETTLE_MS = 1_200  # charts and lists have drawn themselves
PLACES = {
    "overview": "/",
    "tasks": "/tasks",
    "tasks-failed": "/tasks?status=FAILED&status=TIMEOUT",
    "tasks-none": "/tasks?q=nothing-like-this",
    "configs": "/task-configs",
    "config-new": "/task-configs/+new",
    "forecast": "/forecast",
    "forecast-week": "/forecast?span=7d",
    "calendars": "/calendars",
    "calendar": "/calendars/china",
    "calendar-hours": "/calendars/office",
    "calendar-new": "/calendars/+new",
    "queues": "/queues",
    "workers": "/workers",
    "cluster": "/cluster",
    "reports": "/reports",
    "audit": "/audit",
    "audit-cluster": "/audit?scope=cluster",
    "tokens": "/tokens",
    "settings": "/settings",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readme", action="store_true", help="also renew those of the READMEs")
    chosen = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder, a_dev(Path(folder), "--ephemeral") as dev, a_browser() as browser:
        for picture in take_all(browser, dev):
            print(picture.relative_to(ROOT))
    if chosen.readme:
        IMAGES.mkdir(exist_ok=True)
        shutil.copy(FOLDER / "busy-overview.png", IMAGES / "console-overview.png")
        shutil.copy(FOLDER / "en-dark-task-running.png", IMAGES / "console-task.png")


def define(client: rota.Client) -> None:
    """Calendars, and types beside those of the app."""
    client.calendars.put(
        "china", {"country": "CN", "description": "Business days, with those that are worked instead."}
    )
    office = {"dates": ["2026-12-24", "2026-12-31"], "windows": [{"begin": "22:00", "end": "06:00"}]}
    client.calendars.put("office", {**office, "description": "When the office is closed."})
    report: dict[str, object] = {
        "name": "Morning report",
        "description": "What was sold yesterday, to everybody who wants to know.",
        "executor": {"type": "http", "url": "https://reports.example.com/run"},
        "schedule": {"cron": "0 9 * * *", "zone": "Asia/Shanghai"},
    }
    client.configs.put("shop.report", report)
    report["schedule"] = {"cron": "30 9 * * *", "zone": "Asia/Shanghai", "only": ["china"]}
    client.configs.put("shop.report", {**report, "timeout_seconds": 120})
    client.configs.put("shop.report", {**report, "timeout_seconds": 120, "max_concurrent": 2, "rate_per_second": 5})
    client.configs.put("shop.stock", {"executor": {"type": "local"}, "schedule": {"cron": "*/10 8-18 * * *"}})
    client.configs.put("shop.archive", {"executor": {"type": "local"}, "max_concurrent": 1})
    client.configs.pause("shop.archive")
    client.configs.put(
        "shop.tick",
        {
            "name": "Stock check",
            "executor": {"type": "local", "function": "console_app:greet"},
            "schedule": {"every_seconds": 30},
        },
    )
    client.configs.put("shop.nightly", {"executor": {"type": "local"}, "schedule": {"cron": "0 2 * * *"}})
    client.configs.put("shop.nobody", {"name": "Nobody takes this", "executor": {"type": "local"}})


def prepare(client: rota.Client) -> Iterator[tuple[str, str]]:
    """Make something to see; the name and the place of each page."""
    define(client)
    for name in ("Ada", "Grace", "Edsger", "Barbara", "Alan", "Katherine", "Linus", "Margaret"):
        client.submit("shop.greet", {"name": name}, name=f"Greet {name}", metadata={"customer": name.lower()})
    failed = [
        client.submit("shop.charge", {"order": number}, name=f"Charge order {number}") for number in range(40, 45)
    ]
    retried = client.submit("shop.sync", name="Keep the warehouse in step")
    client.submit("shop.greet", {"name": "later"}, name="Greet tomorrow", delay="20h")
    client.submit("shop.nobody", name="Nobody takes this")
    client.submit_many("shop.nobody", [{} for _ in range(41)], priority="high")
    running = client.submit("shop.export", {"rows": 60}, name="Export the year")
    client.tokens.create("deploy pipeline", role="operator")
    client.tokens.create("wall display", role="viewer")
    retried.wait("60s")
    again = client.tasks.retry(failed[0].id, payload={"order": 40})
    failed[-1].wait("60s")
    wait_until(lambda: client.tasks.get(running.id).progress, "the export to get going")
    wait_until(lambda: client.report().types, "the first report")
    yield "task-failed", f"/tasks/{failed[-1].id}"
    yield "task-retried", f"/tasks/{retried.id}"
    yield "task-again", f"/tasks/{again.id}"
    yield "task-running", f"/tasks/{running.id}"
    yield "config", f"/task-configs/{quote('shop.report')}"
    yield from PLACES.items()


def take_all(browser: Browser, dev: Dev) -> Iterator[Path]:
    FOLDER.mkdir()
    with rota.Client(dev.url, dev.token) as client:
        pages = dict(prepare(client))
    for language, locale in LANGUAGES.items():
        for theme in ("light", "dark"):
            with a_visitor(browser, dev.url, language=locale) as visitor:
                visitor.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
                yield from _take(visitor.page, f"{language}-{theme}", dev=dev, pages=pages)
    with a_visitor(browser, dev.url, width=PHONE) as visitor:
        yield from _take(visitor.page, "phone", dev=dev, pages=pages)
    with a_visitor(browser, dev.url) as visitor, rota.Client(dev.url, dev.token) as client:
        visitor.log_in(dev.token)
        visitor.page.get_by_text("Live", exact=True).last.click()  # the chart, not the mark above
        for second in range(BUSY_SECONDS):
            client.submit_many("shop.greet", [{"name": str(second)}] * (20 + 15 * (second % 5)))
            client.submit_many("shop.charge", [{"order": second}] * (second % 4))
            visitor.page.wait_for_timeout(1_000)
        yield _shoot(visitor.page, "busy-overview")


def _take(page: Page, name: str, *, dev: Dev, pages: dict[str, str]) -> Iterator[Path]:
    page.goto(dev.url)
    page.locator("input[type=password]").wait_for()
    yield _shoot(page, f"{name}-login")
    page.locator("input[type=password]").fill(dev.token)
    page.locator("button[type=submit]").click()
    page.locator("[data-testid=live][data-state=live]").wait_for()
    for title, path in pages.items():
        page.goto(f"{dev.url}/#{path}")
        page.locator("main h1").first.wait_for()
        page.wait_for_timeout(SETTLE_MS)
        yield _shoot(page, f"{name}-{title}")
    page.goto(f"{dev.url}/#/")
    page.keyboard.press("Control+k")
    page.wait_for_timeout(SETTLE_MS)
    yield _shoot(page, f"{name}-palette")


def _shoot(page: Page, name: str) -> Path:
    path = FOLDER / f"{name}.png"
    page.mouse.move(0, 0)  # nothing is pointed at
    page.screenshot(path=path, full_page=True)
    return path


if __name__ == "__main__":
    main()
