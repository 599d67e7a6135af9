"""What the SQL store sends: few statements, by index, and no payload in an error."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text

from rota.application.ports.store import Added
from rota.domain.attempt import TaskResult
from rota.domain.ids import TaskId, WorkerId
from rota.domain.log import LogEntry, place
from rota.domain.paging import TaskFilter
from rota.domain.task import LogKind
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import Database, DatabaseDefectError, RunAgainError
from rota.infrastructure.database.direct import driver_of
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.store.sql import listing
from rota.infrastructure.store.sql import tasks as sql_tasks
from rota.infrastructure.store.sql.store import sql_store
from rota.infrastructure.store.sql.tasks import SqlTaskStore
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.values import replace
from tests.support.builders import MINUTE, NOW, a_new_task
from tests.support.names import fresh_name
from tests.support.patience import PATIENCE_S
from tests.support.servers.mariadb import MariaDbServer


@pytest.fixture
async def database(mariadb_server: MariaDbServer) -> AsyncIterator[Database]:
    name = fresh_name("sent")
    mariadb_server.create_database(name)
    await upgrade(mariadb_server.url(name))
    opened = open_database(mariadb_server.url(name), clock=SystemClock(), random=SystemRandom(), deadline_s=PATIENCE_S)
    yield opened
    await opened.close()


@contextmanager
def sent() -> Iterator[list[str]]:
    """Every statement that is sent meanwhile."""
    statements: list[str] = []

    def note(*call: Any) -> None:
        statements.append(call[2])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def test_a_batch_costs_the_same_few_statements_whatever_its_times_and_workers(database: Database) -> None:
    tasks = sql_store(database, SystemRandom()).tasks
    new = [a_new_task(number) for number in range(1, 501)]
    with sent() as statements:
        await tasks.add(new)
        grants = [
            item.task.state.granted(
                WorkerId(item.task.id), term=1, at=NOW + timedelta(seconds=item.task.id), timeout=MINUTE
            )
            for item in new
        ]
        assert len((await tasks.advance(grants)).applied) == 500
        ends = [step.after.succeeded(TaskResult(data="1"), at=step.at + MINUTE) for step in grants]
        assert len((await tasks.advance(ends)).applied) == 500
    assert 9 <= len(statements) <= 15, statements


class Ticking(SystemClock):
    """A clock on which so many seconds pass between two looks at it."""

    def __init__(self, tick: float) -> None:
        self._tick = tick
        self._passed = 0.0

    def monotonic(self) -> float:
        self._passed += self._tick
        return self._passed


async def test_a_list_ends_short_before_a_look_that_would_take_too_long(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SLICES", (2, 6, 20))
    tasks = sql_store(database, SystemRandom()).tasks
    await tasks.add([a_new_task(number) for number in range(1, 41)])
    nothing = TaskFilter(types=frozenset({"nothing"}))
    looked = []
    for tick in (0.001, 0.15, 0.3):
        database.clock = Ticking(tick)
        page = await tasks.list_page(nothing)
        assert (page.items, page.is_short, page.next_before is None) == ((), True, False)
        looked.append(40 - (page.next_before or 0) + 1)
    assert looked == [28, 8, 2]
    following, pages = nothing, 0
    while (found := await tasks.list_page(following)).next_before is not None:
        following, pages = replace(following, before=found.next_before), pages + 1
    assert pages == 20, "whoever follows comes to the end"


async def test_a_key_is_found_by_index_among_many(database: Database) -> None:
    tasks = sql_store(database, SystemRandom()).tasks
    await tasks.add([a_new_task(number, key=f"key {number}", digest="d") for number in range(1, 2001)])
    with sent() as statements:
        await tasks.add([a_new_task(3000, key="another", digest="d")])
    (query,) = [statement for statement in statements if statement.startswith("SELECT task_key")]
    explained = query.replace("%s", "{!r}").format("default", "another")
    plan = await database.read(lambda link: link.execute(text(f"EXPLAIN {explained}")).mappings().one())
    assert plan["key"] == "PRIMARY"
    assert int(plan["rows"]) <= 2


async def test_an_add_that_is_run_again_finds_the_key_taken_meanwhile(database: Database) -> None:
    tasks = SqlTaskStore(database, SystemRandom())
    await tasks.add([a_new_task(1, key="order", digest="d")])

    def fail_once(link: Connection) -> list[Added]:
        raise RunAgainError

    late = partial(tasks._add, new=[a_new_task(2, key="order", digest="d")], expect_present=True)
    (answer,) = await database.transact(fail_once, again=late)
    assert answer == Added(TaskId(1), is_repeat=True)


async def test_an_add_whose_key_vanishes_while_it_looks_is_run_again(database: Database) -> None:
    tasks = SqlTaskStore(database, SystemRandom())
    await tasks.add([a_new_task(1, key="order", digest="d")])
    vanished: list[str] = []

    def purge_once(*call: Any) -> None:
        cursor, statement = call[1:3]
        if statement.startswith("SELECT task_key") and not vanished:
            vanished.append(statement)
            cursor.execute("DELETE FROM task_key")  # gone in this transaction alone, back when it is run again

    event.listen(Engine, "before_cursor_execute", purge_once)
    try:
        assert await tasks.add([a_new_task(2, key="order", digest="d")]) == [Added(TaskId(1), is_repeat=True)]
    finally:
        event.remove(Engine, "before_cursor_execute", purge_once)
    assert vanished


async def test_an_error_never_shows_a_payload(database: Database) -> None:
    await database.transact(lambda link: link.execute(text("ALTER TABLE task DROP COLUMN name")))
    tasks = sql_store(database, SystemRandom()).tasks
    with pytest.raises(DatabaseDefectError) as caught:
        await tasks.add([a_new_task(1, name="n", payload='{"card":"canary-4711"}')])
    assert "canary-4711" not in str(caught.value)


async def test_a_task_with_an_endless_record_is_purged_in_slices(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_tasks, "LOG_SLICE", 10)
    store = sql_store(database, SystemRandom())
    (added,) = await store.tasks.add([a_new_task(1)])
    task = (await store.tasks.load([added.task_id]))[added.task_id]
    await store.tasks.advance([task.state.cancelled("", at=NOW)])
    lines = [
        LogEntry(task_id=task.id, seq=place(2, number), kind=LogKind.INFO, at=NOW, message="x")
        for number in range(1, 36)
    ]
    await store.logs.append(lines)
    with sent() as statements:
        assert await store.tasks.purge(completed_before=SystemClock().now() + MINUTE, limit=10) == 1
    assert sum("DELETE FROM task_logs" in statement for statement in statements) == 4
    assert await store.logs.read(task.id) == []


async def test_many_tasks_with_long_records_are_purged_in_portions(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_tasks, "LOG_SLICE", 10)
    store = sql_store(database, SystemRandom())
    added = await store.tasks.add([a_new_task(number) for number in range(1, 6)])
    tasks = await store.tasks.load([one.task_id for one in added])
    await store.tasks.advance([task.state.cancelled("", at=NOW) for task in tasks.values()])
    lines = [
        LogEntry(task_id=task_id, seq=place(2, number), kind=LogKind.INFO, at=NOW, message="x")
        for task_id in tasks
        for number in range(1, 7)  # and two that tell of the transitions
    ]
    await store.logs.append(lines)
    deleted: list[int] = []

    def note(*call: Any) -> None:
        cursor, statement = call[1:3]
        if statement.startswith("DELETE FROM task_logs"):
            deleted.append(cursor.rowcount)

    event.listen(Engine, "after_cursor_execute", note)
    try:
        assert await store.tasks.purge(completed_before=SystemClock().now() + MINUTE, limit=5) == 5
    finally:
        event.remove(Engine, "after_cursor_execute", note)
    assert deleted == [8] * 5
    assert await store.tasks.load(list(tasks)) == {}


async def test_a_transaction_that_only_locked_rows_is_committed_too(database: Database) -> None:
    """Some servers and proxies do not say after a SELECT that a transaction is open: do not believe the driver."""

    def lock(connection: Connection) -> None:
        connection.execute(text("SELECT id FROM leadership FOR UPDATE")).fetchall()
        driver_of(connection).server_status = 0

    def count(connection: Connection) -> int:
        return int(connection.execute(text("SELECT COUNT(*) FROM information_schema.innodb_trx")).scalar_one())

    await database.transact(lock)
    assert await database.read(count) == 0
