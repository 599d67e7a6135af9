"""Safeguards that live in adapters, each switched off on a real server: what would happen without it."""

import asyncio

import pytest
from sqlalchemy import text

from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.paging import TaskFilter
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.store.sql import transitions
from rota.infrastructure.store.sql.store import sql_store
from rota.infrastructure.system import SystemRandom
from tests.integration.test_database import Server, behind_proxy, opened
from tests.support.builders import a_new_task
from tests.support.names import fresh_name
from tests.support.servers.mariadb import MariaDbServer

DROP_KEY = {
    "mariadb": "ALTER TABLE task_key DROP PRIMARY KEY",
    "postgres": "ALTER TABLE task_key DROP CONSTRAINT task_key_pkey",
}
AT_ONCE = 8
LONGEST_SLEEP_US = 60_000_000  # what the cancelled call would have answered is less


@pytest.fixture(params=["mariadb", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(kind: str, request: pytest.FixtureRequest) -> Server:
    shared: Server = request.getfixturevalue(f"{kind}_server")
    return shared


@pytest.fixture
def name(server: Server) -> str:
    return asyncio.run(a_database(server))


async def a_database(server: Server) -> str:
    """A migrated one of the test's own."""
    name = fresh_name("ablation")
    server.create_database(name)
    await upgrade(server.url(name))
    return name


async def test_without_reading_back_a_step_whose_commit_was_not_answered_counts_as_refused(
    mariadb_server: MariaDbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await a_database(mariadb_server)
    monkeypatch.setattr(transitions, "_is_written", lambda _step, **_rows: False)
    async with behind_proxy(mariadb_server, name) as (proxy, url), opened(url) as database:
        store = sql_store(database, SystemRandom())
        await store.tasks.add([a_new_task(1)])
        (live,) = await store.tasks.find_live([TaskId(1)])
        lost = proxy.drop_reply_after(b"COMMIT")
        written = await store.tasks.advance([live.state.cancelled("enough", at=live.state.due_at)])
        assert lost.is_set()
        assert written.stale == {TaskId(1)}


async def test_without_unique_keys_a_request_that_is_repeated_at_once_makes_several_tasks(
    kind: str, server: Server, name: str
) -> None:
    async with opened(server.url(name)) as database:
        await database.transact(lambda link: link.execute(text(DROP_KEY[kind])))
        store = sql_store(database, SystemRandom())
        again = [a_new_task(id_, key="the same", digest="d") for id_ in range(1, AT_ONCE + 1)]
        await asyncio.gather(*(store.tasks.add([new]) for new in again))
        page = await store.tasks.list_page(TaskFilter(tenant_id=DEFAULT_TENANT))
        assert len(page.items) > 1
