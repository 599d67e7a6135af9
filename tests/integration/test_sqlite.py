"""SQLite's own quirks."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, make_url, select
from sqlalchemy.exc import OperationalError

from rota.domain.errors import ConfigError
from rota.domain.paging import MAX_PURGE
from rota.infrastructure.database.bulk_sqlite import SqliteBulk
from rota.infrastructure.database.connect import open_database, sqlite_engine
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.database.runners import SQLITE_READERS, SqliteRunner
from rota.infrastructure.database.schema import leadership, worker_registry
from rota.infrastructure.store.sql.workers import SqlWorkerRegistry
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support.patience import PATIENCE_S

MANY_PARAMETERS = 260_000  # Debian's SQLite allows 250,000, others 32,766


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "rota.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[Database]:
    await upgrade(f"sqlite:///{path}")
    opened = open_database(f"sqlite:///{path}", clock=SystemClock(), random=SystemRandom(), deadline_s=PATIENCE_S)
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


async def test_a_few_rows_are_read_without_a_thread(database: Database) -> None:
    assert await database.read(lambda _: threading.current_thread(), is_brief=True) is threading.current_thread()


async def test_what_is_locked_at_the_moment_is_left_to_a_thread_that_waits(database: Database) -> None:
    loop_thread = threading.current_thread()

    def read(link: Connection) -> int:
        if threading.current_thread() is loop_thread:
            assert link.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 0
            raise OperationalError("SELECT", None, sqlite3.OperationalError("database is locked"))
        return int(link.execute(select(leadership.c.term)).scalar_one())

    assert await database.read(read, is_brief=True) == 0
    await database.transact(lambda link: link.execute(leadership.update().values(term=5)))
    assert await database.read(lambda link: link.execute(select(leadership.c.term)).scalar_one(), is_brief=True) == 5


async def test_reads_that_were_given_up_hold_up_no_other(database: Database) -> None:
    begun, end = threading.Semaphore(0), threading.Event()

    def hang(_: Connection) -> None:
        begun.release()
        assert end.wait(10)

    hanging = [asyncio.create_task(database.read(hang)) for _ in range(SQLITE_READERS - 1)]
    for _ in hanging:
        assert await asyncio.to_thread(begun.acquire, timeout=10)
    for task in hanging:
        task.cancel()
    await asyncio.wait(hanging)
    assert await database.read(lambda link: link.execute(select(leadership.c.term)).scalar_one()) == 0
    end.set()


async def test_a_write_that_was_given_up_before_its_turn_is_not_done(database: Database) -> None:
    begun, end = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        begun.set()
        assert end.wait(10)

    holding = asyncio.create_task(database.transact(hold))
    assert await asyncio.to_thread(begun.wait, 10)
    waiting = asyncio.create_task(database.transact(lambda link: link.execute(leadership.update().values(term=7))))
    await database.read(database.now_us)  # by now it is in the queue
    waiting.cancel()
    end.set()
    await asyncio.wait([holding, waiting])
    assert await database.read(lambda link: link.execute(select(leadership.c.term)).scalar_one()) == 0


async def run_after_a_wait(database: Database, *works: Callable[[Connection], None]) -> tuple[list[str], list[object]]:
    """Writes that all come while another one holds the thread; and the statements from its end on."""
    statements: list[str] = []
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold(link: Connection) -> None:
        driver = link.connection.driver_connection
        assert driver is not None
        driver.set_trace_callback(statements.append)
        is_held.set()
        assert may_go_on.wait(PATIENCE_S)

    holding = asyncio.create_task(database.transact(hold))
    assert await asyncio.to_thread(is_held.wait, PATIENCE_S)
    waiting = [asyncio.create_task(database.transact(work)) for work in works]
    asyncio.get_running_loop().call_soon(may_go_on.set)  # once each of them has taken its first step
    await holding
    return statements, await asyncio.gather(*waiting, return_exceptions=True)


def add_one(link: Connection) -> None:
    link.execute(leadership.update().values(term=leadership.c.term + 1))


async def test_writes_that_wait_for_the_thread_share_a_commit(database: Database) -> None:
    statements, answers = await run_after_a_wait(database, add_one, add_one, add_one)
    assert answers == [None, None, None]
    assert statements.count("COMMIT") == 2, "that of the first, and one for all that waited"
    assert await database.read(lambda link: link.execute(select(leadership.c.term)).scalar_one()) == 3


async def test_a_write_that_fails_costs_those_beside_it_nothing(database: Database) -> None:
    def fail(link: Connection) -> None:
        add_one(link)
        raise KeyError

    _, answers = await run_after_a_wait(database, add_one, fail, add_one)
    assert [type(answer) for answer in answers] == [type(None), KeyError, type(None)]
    assert await database.read(lambda link: link.execute(select(leadership.c.term)).scalar_one()) == 2


async def test_work_that_failed_leaves_nothing_behind(database: Database) -> None:
    def fail(link: Connection) -> None:
        database.bulk.update(link, leadership, columns=("term",), rows=[(1, 7)])
        raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            await database.transact(fail)
    # A value that the driver refuses before SQLite hears of it.
    with pytest.raises(OverflowError):
        await database.transact(partial(database.bulk.update, table=leadership, columns=("term",), rows=[(1, 2**70)]))
    assert await database.read(lambda link: link.execute(select(leadership.c.term)).scalar_one()) == 0
    await database.transact(partial(database.bulk.update, table=leadership, columns=("term",), rows=[(1, 8)]))
    assert await database.read(lambda link: link.execute(select(leadership.c.term)).scalar_one()) == 8


async def test_a_file_that_could_not_be_written_is_opened_anew(path: Path) -> None:
    """A connection that found it read-only would find it so for ever."""
    await upgrade(f"sqlite:///{path}")
    opened: list[sqlite3.Connection] = []

    def refuse_first(connection: sqlite3.Connection, _: object) -> None:
        opened.append(connection)
        if len(opened) == 1:
            connection.execute("PRAGMA query_only=ON")

    engine = sqlite_engine(make_url(f"sqlite:///{path}"))
    event.listen(engine, "connect", refuse_first)
    clock = SystemClock()
    bulk = SqliteBulk(clock.now)
    database = Database(SqliteRunner(engine), bulk, clock=clock, random=SystemRandom())
    await database.transact(partial(bulk.update, table=leadership, columns=("term",), rows=[(1, 8)]))
    assert len(opened) == 2
    await database.close()


async def test_closing_leaves_no_thread_and_no_file_open(path: Path) -> None:
    await upgrade(f"sqlite:///{path}")
    before = set(threading.enumerate())  # what other tests left to end is not ours to judge
    database = open_database(f"sqlite:///{path}", clock=SystemClock(), random=SystemRandom())
    await asyncio.gather(*(database.read(database.now_us) for _ in range(10)), database.transact(database.now_us))
    assert [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("rota-sqlite")]
    await database.close()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("rota-sqlite")]
    with closing(sqlite3.connect(path, timeout=0)) as alone:  # only who is alone may leave that mode
        assert alone.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)


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
