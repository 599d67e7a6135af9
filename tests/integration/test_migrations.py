"""The schema in the wheel: complete, repeatable, and safe when two processes migrate at once."""

import asyncio
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from rota.infrastructure.database import coordination_schema
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.migrate import VERSION_TABLE, status, upgrade
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support.names import fresh_name


@pytest.fixture(params=["sqlite", "mariadb", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rota.db"
    server = request.getfixturevalue(f"{request.param}_server")
    name = fresh_name("migrate")
    server.create_database(name)
    return str(server.url(name))


async def test_an_empty_database_is_behind_and_upgrade_brings_it_up(url: str) -> None:
    before = await status(url)
    assert before.current is None
    assert not before.is_current
    assert (await upgrade(url)).is_current
    assert (await upgrade(url)).is_current, "a second upgrade finds nothing to do"


async def test_the_migrations_make_exactly_the_schema_of_the_code(url: str) -> None:
    await upgrade(url)
    database = open_database(url, clock=SystemClock(), random=SystemRandom())
    try:
        assert await database.read(_differences) == []
    finally:
        await database.close()


async def test_two_processes_that_migrate_at_once_take_turns(url: str) -> None:
    both = await asyncio.gather(upgrade(url), upgrade(url))
    assert [state.is_current for state in both] == [True, True]


def _differences(connection: Connection) -> list[object]:
    options = {"version_table": VERSION_TABLE, "compare_type": False}
    context = MigrationContext.configure(connection, opts=options)
    return list(compare_metadata(context, coordination_schema.lease.metadata))
