"""When the record cannot be written, the change it tells of is not made."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from rota.application.ports.store import Store
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import Database, DatabaseDefectError
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.store.sql.store import sql_store
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.values import replace
from tests.support.builders import EMAIL, NOW, a_config, a_new_task, a_state, a_token, an_audit_entry
from tests.support.names import fresh_name

ENTRY = an_audit_entry(1)
CHANGES: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "add": lambda s: s.tasks.add([replace(a_new_task(2), audit=(ENTRY,))]),
    "advance": lambda s: s.tasks.advance([a_state(1).cancelled("", at=NOW)], audit=[ENTRY]),
    "put": lambda s: s.configs.put(a_config(EMAIL, name="changed"), audit=[ENTRY]),
    "delete": lambda s: s.configs.delete(DEFAULT_TENANT, EMAIL, audit=[ENTRY]),
    "issue": lambda s: s.tokens.add(a_token("2"), audit=[ENTRY]),
    "revoke": lambda s: s.tokens.revoke(DEFAULT_TENANT, "1", at=NOW, audit=[ENTRY]),
}


@pytest.fixture(params=["sqlite", "mariadb", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rota.db"
    server = request.getfixturevalue(f"{request.param}_server")
    name = fresh_name("audit")
    server.create_database(name)
    return str(server.url(name))


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    await upgrade(url)
    opened = open_database(url, clock=SystemClock(), random=SystemRandom())
    yield opened
    await opened.close()


async def everything(store: Store) -> list[Any]:
    return [
        await store.tasks.load([TaskId(1), TaskId(2)]),
        await store.configs.list_page(DEFAULT_TENANT),
        await store.configs.list_revisions(DEFAULT_TENANT, EMAIL),
        await store.tokens.list_page(DEFAULT_TENANT),
    ]


async def test_a_change_that_cannot_be_recorded_is_not_made(database: Database) -> None:
    store = sql_store(database, SystemRandom())
    await store.tasks.add([a_new_task(1)])
    await store.configs.put(a_config(EMAIL))
    await store.tokens.add(a_token("1"))
    before = await everything(store)
    await database.transact(lambda connection: connection.execute(text("DROP TABLE audit_log")).close())
    for change in CHANGES.values():
        with pytest.raises(DatabaseDefectError):
            await change(store)
        assert await everything(store) == before
