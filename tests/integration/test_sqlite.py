"""SQLite's own quirks."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from rota.domain.errors import ConfigError
from rota.domain.paging import MAX_PURGE
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.database.schema import leadership, worker_registry
from rota.infrastructure.store.sql.workers import SqlWorkerRegistry
from rota.infrastructure.system import SystemClock, SystemRandom

MANY_PARAMETERS = 260_000  # Debian's SQLite allows 250,000, others 32,766


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "rota.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[Database]:
    await upgrade(f"sqlite:///{path}")
    opened = open_database(f"sqlite:///{path}", clock=SystemClock(), random=SystemRandom())
    yield opened
    await opened.close()


async def test_a_commit_is_on_disk_when_it_returns(database: Database) -> None:
    mode = await database.read(lambda link: link.exec_driver_sql("PRAGMA journal_mode").scalar_one())
    synchronous = await database.read(lambda link: link.exec_driver_sql("PRAGMA synchronous").scalar_one())
    assert (mode, synchronous) == ("wal", 2)


async def test_a_write_waits_for_another_process_that_holds_the_file(database: Database, path: Path) -> None:
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    with closing(holder):
        holder.execute("BEGIN IMMEDIATE")
        releasing = threading.Timer(0.2, holder.execute, ["COMMIT"])
        releasing.start()
        changed = await database.transact(lambda link: link.execute(leadership.update().values(term=9)).rowcount)
        releasing.join()
    assert changed == 1


async def test_a_read_sees_one_moment_while_writes_go_on(database: Database) -> None:
    seen, written = threading.Event(), threading.Event()

    def read_term(link: Connection) -> int:
        return int(link.execute(select(leadership.c.term)).scalar_one())

    def read_twice(link: Connection) -> tuple[int, int]:
        first = read_term(link)
        seen.set()
        assert written.wait(10)
        return first, read_term(link)

    await database.transact(lambda link: link.execute(leadership.update().values(term=5)))
    reading = asyncio.create_task(database.read(read_twice))
    assert await asyncio.to_thread(seen.wait, 10)
    await database.transact(lambda link: link.execute(leadership.update().values(term=6)))
    written.set()
    assert await reading == (5, 5), "the write in between is not seen"
    assert await database.read(read_term) == 6


async def test_a_purge_has_no_more_parameters_than_a_statement_may(database: Database) -> None:
    rows = [(number, "[]", "{}", 1) for number in range(1, MANY_PARAMETERS + 1)]
    columns = ("id", "types_json", "labels_json", "retired_us")
    await database.transact(lambda link: database.bulk.insert(link, worker_registry, columns=columns, rows=rows))
    workers = SqlWorkerRegistry(database)
    assert await workers.purge(retired_before=SystemClock().now(), limit=MANY_PARAMETERS) == MAX_PURGE


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_url_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="path of a file"):
        open_database(url, clock=SystemClock(), random=SystemRandom())


@pytest.mark.parametrize("url", ["no url at all", "oracle://localhost/x"])
def test_an_unknown_url_is_refused_with_what_is_known(url: str) -> None:
    with pytest.raises(ConfigError, match="sqlite"):
        open_database(url, clock=SystemClock(), random=SystemRandom())


async def test_a_new_file_and_its_folder_are_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "rota.db"
    await upgrade(f"sqlite:///{path}")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
