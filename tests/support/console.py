"""A live `rota dev`, and the browser of this machine in front of it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Playwright, StorageState, sync_playwright

from rota.interfaces.http.console import is_built
from tests.support.cluster import bare_environment, wait_until
from tests.support.require import require_server
from tests.support.servers.binaries import get_binary
from tests.support.servers.process import free_port

APP = Path(__file__).with_name("console_app.py")
PATIENCE_MS = 60_000  # for what is there at once on a machine that has nothing else to do
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, slots=True)
class Dev:
    """A `rota dev` that has said where it is."""

    popen: subprocess.Popen[bytes]
    said: str

    @property
    def url(self) -> str:
        return self.link.partition("/#")[0]

    @property
    def link(self) -> str:
        """It opens the console once."""
        return str(re.findall(r"^  Console (\S+)", self.said, re.MULTILINE)[0])

    @property
    def token(self) -> str:
        return str(re.findall(r"^rota_\S+$", self.said, re.MULTILINE)[0])


@contextmanager
def a_dev(folder: Path, *flags: str) -> Iterator[Dev]:
    """`rota dev` with the tasks of `console_app`."""
    log = folder / "dev.log"
    command = [sys.executable, "-m", "rota.interfaces.cli.main", "dev", str(APP), "--port", str(free_port()), *flags]
    with log.open("wb") as output:
        popen = subprocess.Popen(  # noqa: S603 our own program
            command, stdout=output, stderr=subprocess.DEVNULL, cwd=folder, env=bare_environment()
        )
    try:
        wait_until(lambda: "rota top" in log.read_text("utf-8"), "rota dev to say what to type")
        yield Dev(popen, log.read_text("utf-8"))
    finally:
        popen.kill()
        popen.wait(60)


def require_console() -> None:
    """Skip, or fail in CI, unless there is a browser and something to show in it."""
    require_server("chromium")
    if not is_built():
        reason = "the console is not built: make console"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@contextmanager
def a_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        try:
            yield browser
        finally:
            browser.close()


def launch(playwright: Playwright) -> Browser:
    """Without the sandbox, which root cannot have; the pages are our own."""
    return playwright.chromium.launch(executable_path=get_binary(*CHROMIUM), args=["--no-sandbox"])


@dataclass(slots=True)
class Visitor:
    """Somebody in front of the console. What the browser complains about is kept."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(f"{self.url}/#{path}")

    def log_in(self, token: str) -> None:
        self.page.goto(self.url)
        self.page.get_by_label("Token", exact=True).fill(token)
        self.page.get_by_role("button", name="Log in").click()
        self.wait_until_live()

    def wait_until_live(self) -> None:
        self.page.locator("[data-testid=live][data-state=live]").wait_for()


@contextmanager
def a_visitor(
    browser: Browser, url: str, *, language: str = "en-GB", width: int = 1280, session: StorageState | None = None
) -> Iterator[Visitor]:
    context = browser.new_context(
        locale=language, viewport={"width": width, "height": 900}, timezone_id="UTC", storage_state=session
    )
    context.set_default_timeout(PATIENCE_MS)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    visitor = Visitor(page, url)
    page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
    page.on(
        "console",
        lambda said: (
            visitor.complaints.append(said.text)
            if said.type in ("error", "warning")
            and "Failed to load resource" not in said.text  # what is refused on purpose
            else None
        ),
    )
    try:
        yield visitor
    finally:
        context.close()
