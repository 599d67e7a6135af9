"""What the tests of the console share. A server serves the whole run; a browser one module, since what drives it keeps
an event loop running, beside which no other test can have its own."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, StorageState, expect

import rota
from tests.support.console import PATIENCE_MS, Dev, Visitor, a_browser, a_dev, a_visitor, require_console

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """Shared: keep to types of your own, and leave it as it was."""
    require_console()
    with a_dev(tmp_path_factory.mktemp("console"), "--ephemeral") as running:
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
