"""Calendars in SQL whose rows are not as this release writes them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from rota.domain.calendar import NAMED_USERS, Calendar, StoredCalendar
from rota.domain.errors import CalendarInUseError, InvalidError
from rota.domain.ids import DEFAULT_TENANT
from rota.domain.schedule import Schedule
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.store.sql.store import sql_store
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.values import replace
from tests.support.builders import a_config

CLOSED = StoredCalendar(calendar=Calendar(name="closed"))
NAMES_IT = Schedule(cron="0 9 * * *", exclude=("closed",))


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    url = f"sqlite:///{tmp_path}/rota.db"
    await upgrade(url)
    opened = open_database(url, clock=SystemClock(), random=SystemRandom())
    yield opened
    await opened.close()


async def run(database: Database, statement: str, **values: str) -> None:
    await database.transact(lambda connection: connection.execute(text(statement), values).close())


@pytest.mark.parametrize("written", ["{", '{"calendar": {"moons": []}}', "{}"])
async def test_a_calendar_that_cannot_be_read_is_not_there_to_fire_with(database: Database, written: str) -> None:
    store = sql_store(database, SystemRandom())
    stored = await store.calendars.put(CLOSED)
    await run(database, "UPDATE calendar SET calendar_json = :written", written=written)
    assert await store.calendars.load([(DEFAULT_TENANT, "closed")]) == {}
    assert await store.calendars.list_page(DEFAULT_TENANT) == []
    with pytest.raises(InvalidError, match="what is stored as 'closed' cannot be read"):
        await store.calendars.find(DEFAULT_TENANT, "closed")
    mended = await store.calendars.put(CLOSED)
    assert mended == replace(stored, revision=2, updated_at=mended.updated_at)


async def test_uses_that_another_release_left_behind_do_not_count(database: Database) -> None:
    store = sql_store(database, SystemRandom())
    await store.calendars.put(CLOSED)
    stale = [f"a{number}" for number in range(NAMED_USERS)]
    for task_type in stale:
        await store.configs.put(a_config(task_type))
        await run(database, "INSERT INTO calendar_use VALUES ('default', 'closed', :type)", type=task_type)
    await store.configs.put(a_config("b", schedule=NAMES_IT))
    with pytest.raises(CalendarInUseError, match="of b;"):
        await store.calendars.delete(DEFAULT_TENANT, "closed")
    await store.configs.delete(DEFAULT_TENANT, "b")
    assert await store.calendars.delete(DEFAULT_TENANT, "closed")
