"""The bulk statements do the same on every database."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, select

from rota.infrastructure.database.batch import FenceMissedError, KeyedChange, RowCopy
from rota.infrastructure.database.bulk import grouped
from rota.infrastructure.database.bulk_mysql_statements import MOST_CHARACTERS
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import Database, DatabaseDefectError, DuplicateKeyError
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.database.schema import task_config, task_count, task_key, task_live, task_logs
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support.names import fresh_name
from tests.support.patience import PATIENCE_S

KEY = ("tenant_id", "idempotency_key", "task_id", "digest")
COUNT = ("tenant_id", "status", "shard", "number")
AWKWARD = "a;b'c\"d\\e%s%%f\ng\u00fc\U0001f600 -- /* ; DROP TABLE task; */"


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Migrated databases by product, made when first asked for."""
    return {"sqlite": f"sqlite:///{tmp_path_factory.mktemp('bulk')}/rota.db"}


@pytest.fixture(params=["sqlite", "mariadb", "postgres"])
async def database(request: pytest.FixtureRequest, urls: dict[str, str]) -> AsyncIterator[Database]:
    product = str(request.param)
    if product not in urls:
        server = request.getfixturevalue(f"{product}_server")
        name = fresh_name("bulk")
        server.create_database(name)
        urls[product] = server.url(name)
    await upgrade(urls[product])
    opened = open_database(urls[product], clock=SystemClock(), random=SystemRandom(), deadline_s=PATIENCE_S)
    await opened.transact(_empty)
    yield opened
    await opened.close()


def _empty(connection: Connection) -> None:
    for table in (task_live, task_logs, task_key, task_count, task_config):
        connection.execute(table.delete())


async def add_live(database: Database, ids: range, *, versions: int = 1) -> None:
    rows = [(number, 100 + number, 1 + number % versions) for number in ids]
    columns, bulk = ("id", "due_us", "version"), database.bulk
    await database.transact(lambda link: bulk.insert(link, task_live, columns=columns, rows=rows))


async def read(database: Database, *columns: Any) -> list[tuple[Any, ...]]:
    query = select(*columns).order_by(columns[0])
    return [tuple(row) for row in await database.read(lambda link: link.execute(query).fetchall())]


async def test_a_column_full_of_defaults_is_not_sent_and_still_there(database: Database) -> None:
    rows = [(1, 0, "default"), (2, 0, "default")]
    columns = ("id", "priority", "tenant_id")
    await database.transact(lambda link: database.bulk.insert(link, task_live, columns=columns, rows=rows))
    assert await read(database, task_live.c.id, task_live.c.priority, task_live.c.tenant_id) == rows


async def test_one_row_that_differs_sends_the_column(database: Database) -> None:
    rows = [(1, 0), (2, 7)]
    await database.transact(lambda link: database.bulk.insert(link, task_live, columns=("id", "priority"), rows=rows))
    assert await read(database, task_live.c.id, task_live.c.priority) == rows


async def test_a_duplicate_key_stops_an_insert(database: Database) -> None:
    await add_live(database, range(1, 3))
    with pytest.raises(DuplicateKeyError):
        await add_live(database, range(2, 5))
    assert await read(database, task_live.c.id) == [(1,), (2,)], "all or nothing"


async def test_insert_missing_leaves_what_is_there(database: Database) -> None:
    bulk = database.bulk
    for digest in ("first", "second"):
        rows = [("t", "a", 1, digest), ("t", f"only {digest}", 2, digest)]
        await database.transact(partial(bulk.insert_missing, table=task_key, columns=KEY, rows=rows))
    found = await read(database, task_key.c.idempotency_key, task_key.c.digest)
    assert found == [("a", "first"), ("only first", "first"), ("only second", "second")]


async def test_insert_missing_never_shortens_a_text(database: Database) -> None:
    rows = [("t", "k", 1, "d" * 65)]
    try:
        await database.transact(partial(database.bulk.insert_missing, table=task_key, columns=KEY, rows=rows))
    except DatabaseDefectError:
        assert await read(database, task_key.c.digest) == []
    else:
        assert await read(database, task_key.c.digest) == [("d" * 65,)], "SQLite knows no lengths"


async def test_upsert_replaces_the_given_columns(database: Database) -> None:
    columns = ("task_id", "seq", "message")
    for message in ("one", "two"):
        rows = [(1, 1, message)]
        await database.transact(partial(database.bulk.upsert, table=task_logs, columns=columns, rows=rows))
    assert await read(database, task_logs.c.task_id, task_logs.c.message) == [(1, "two")]


async def test_counts_add_up(database: Database) -> None:
    for number in (5, 7, -2):
        rows = [("t", 5, 0, number), ("t", 6, 0, 1)]
        await database.transact(partial(database.bulk.add_counts, table=task_count, columns=COUNT, rows=rows))
    assert await read(database, task_count.c.status, task_count.c.number) == [(5, 10), (6, 3)]


@pytest.mark.parametrize("groups", [1, 3, 200])
async def test_a_fenced_update_changes_only_rows_of_the_expected_version(database: Database, groups: int) -> None:
    await add_live(database, range(1, 501))
    fresh = [(number, 1, 2, 1000 + number % groups) for number in range(1, 501)]
    stale = [(number, 9, 3, 0) for number in range(1, 501)]

    async def update(rows: Sequence[tuple[int, ...]]) -> None:
        def work(link: Connection) -> None:
            with database.bulk.together(link) as batch:
                batch.update_fenced(task_live, columns=("version", "worker_id"), groups=grouped(rows))

        await database.transact(work)

    await update(fresh[:400])
    for missed in (stale, fresh):
        with pytest.raises(FenceMissedError):
            await update(missed)
    await update(fresh[400:])
    found = await read(database, task_live.c.id, task_live.c.version, task_live.c.worker_id)
    assert found == [(number, 2, 1000 + number % groups) for number in range(1, 501)]


@pytest.mark.parametrize("groups", [1, 3, 200])
async def test_a_fenced_delete_takes_only_rows_of_the_expected_version(database: Database, groups: int) -> None:
    await add_live(database, range(1, 501), versions=groups)
    fresh = [(number, 1 + number % groups) for number in range(1, 501)]

    async def delete(rows: Sequence[tuple[int, ...]]) -> None:
        def work(link: Connection) -> None:
            with database.bulk.together(link) as batch:
                batch.delete_fenced(task_live, groups=grouped(rows))

        await database.transact(work)

    for missed in ([*fresh[:-1], (500, 999)], [*fresh, (501, 1)]):
        with pytest.raises(FenceMissedError):
            await delete(missed)
    await delete(fresh[:499])
    assert await read(database, task_live.c.id) == [(500,)]


@pytest.mark.parametrize("groups", [1, 3, 200])
async def test_rows_that_are_alike_are_inserted_with_all_they_share(database: Database, groups: int) -> None:
    ids = [*range(2, 501), 2**62]
    columns = ("task_id", "seq", "kind", "to_status", "attempt", "at_us", "worker_id", "message", "detail")
    rows = [(number, 7, 1, 2, 3, 4, number % groups, f"{AWKWARD} {number % groups}", None) for number in ids]

    def work(link: Connection) -> None:
        with database.bulk.together(link) as batch:
            batch.insert_alike(task_logs, columns=columns, groups=grouped(rows))

    await database.transact(work)
    found = await read(database, *(task_logs.c[name] for name in columns))
    assert found == rows
    with pytest.raises(DuplicateKeyError):
        await database.transact(work)


async def test_a_delete_counts_what_was_there(database: Database) -> None:
    await add_live(database, range(1, 5))

    def delete(rows: Sequence[tuple[int, int]]) -> Callable[[Connection], int]:
        return lambda link: database.bulk.delete(link, task_live, columns=("id", "version"), rows=rows)

    assert await database.transact(delete([(1, 1), (2, 9), (99, 1)])) == 1
    assert await read(database, task_live.c.id) == [(2,), (3,), (4,)]


@pytest.mark.parametrize("database", ["mariadb", "postgres"], indirect=True)  # SQLite has one writer: nobody waits
async def test_deletes_of_different_rows_never_wait_for_each_other(database: Database) -> None:
    await add_live(database, range(1, 101))
    odd, even = [(number, 1) for number in range(1, 101, 2)], [(number, 1) for number in range(2, 101, 2)]
    first_deleted, second_done = asyncio.Event(), asyncio.Event()

    def delete_and_hold(connection: Connection) -> None:
        with database.bulk.together(connection) as batch:
            batch.delete_fenced(task_live, groups=grouped(odd))
        first_deleted.set()
        while not second_done.is_set():  # each round trip lets the other transaction run
            connection.exec_driver_sql("SELECT 1")

    async def delete_beside() -> int:
        await first_deleted.wait()
        deleted = await database.transact(
            partial(database.bulk.delete, table=task_live, columns=("id", "version"), rows=even), is_repeatable=False
        )
        second_done.set()
        return deleted

    _, deleted = await asyncio.gather(database.transact(delete_and_hold), delete_beside())
    assert deleted == len(even)


async def test_an_update_sets_different_values_by_id(database: Database) -> None:
    await add_live(database, range(1, 4))
    rows = [(1, 10), (2, 20), (3, 10)]
    await database.transact(lambda link: database.bulk.update(link, task_live, columns=("term",), rows=rows))
    assert await read(database, task_live.c.id, task_live.c.term) == rows


async def test_select_by_ids_finds_those_that_exist(database: Database) -> None:
    await add_live(database, range(1, 4))
    query = "SELECT id FROM task_live WHERE id {ids} ORDER BY id"
    found = await database.read(lambda link: database.bulk.select_by_ids(link, query, ids=[3, 1, 77]))
    assert [tuple(row) for row in found] == [(1,), (3,)]


async def test_the_databases_clock_is_near_ours(database: Database) -> None:
    first, second = await database.read(database.now_us), await database.read(database.now_us)
    assert second > first
    assert abs(second / 1e6 - SystemClock().now().timestamp()) < 60


async def test_a_batch_is_done_in_order_and_keeps_awkward_text(database: Database) -> None:
    def work(connection: Connection) -> None:
        with database.bulk.together(connection) as batch:
            batch.insert(task_live, columns=("id", "due_us"), rows=[(1, 10), (2, 20), (3, 30)])
            batch.update_fenced(task_live, columns=("version", "term"), groups={(1, 2, 5): [1], (1, 2, 6): [2]})
            batch.update(task_live, columns=("due_us",), groups={(11,): [1]})
            batch.delete_fenced(task_live, groups={(1,): [3]})
            batch.insert(task_key, columns=KEY, rows=[("t", "k", 1, AWKWARD[:30])])
            batch.upsert(task_key, columns=KEY, rows=[("t", "k", 2, AWKWARD)])
            batch.add_counts(task_count, columns=COUNT, rows=[("t", 5, 0, 2)])
            batch.add_counts(task_count, columns=COUNT, rows=[("t", 5, 0, 3)])

    await database.transact(work)
    columns = (task_live.c.id, task_live.c.version, task_live.c.term, task_live.c.due_us)
    assert await read(database, *columns) == [(1, 2, 5, 11), (2, 2, 6, 20)]
    assert await read(database, task_key.c.task_id, task_key.c.digest) == [(2, AWKWARD)]
    assert await read(database, task_count.c.status, task_count.c.number) == [(5, 5)]


async def test_a_statement_that_fails_within_a_batch_undoes_it_all(database: Database) -> None:
    await add_live(database, range(7, 8))

    def work(connection: Connection) -> None:
        with database.bulk.together(connection) as batch:
            batch.insert(task_live, columns=("id",), rows=[(1,)])
            batch.insert(task_live, columns=("id",), rows=[(7,)])
            batch.insert(task_live, columns=("id",), rows=[(2,)])

    with pytest.raises(DuplicateKeyError):
        await database.transact(work)
    assert await read(database, task_live.c.id) == [(7,)]
    await add_live(database, range(1, 3))  # the connection is in step with the server


async def test_the_last_writes_of_a_transaction_are_committed_with_them(database: Database) -> None:
    def work(connection: Connection, *, ids: Sequence[int]) -> None:
        with database.bulk.together(connection, is_last=True) as batch:
            for task_id in ids:
                batch.insert(task_live, columns=("id",), rows=[(task_id,)])

    await database.transact(partial(work, ids=[1, 7]))
    with pytest.raises(DuplicateKeyError):
        await database.transact(partial(work, ids=[2, 7, 3]))
    await add_live(database, range(4, 5))  # on the same connection: this one is committed as ever
    assert sorted(await read(database, task_live.c.id)) == [(1,), (4,), (7,)]


@pytest.mark.parametrize("size", [1, MOST_CHARACTERS], ids=["one message", "two messages"])
async def test_a_lone_fence_that_is_missed_leaves_nothing_to_commit(database: Database, size: int) -> None:
    await add_live(database, range(1, 3))

    def work(connection: Connection, *, version: int) -> None:
        with database.bulk.together(connection, is_last=True) as batch:
            if size > 1:
                batch.insert(task_logs, columns=("task_id", "seq", "detail"), rows=[(1, 1, "x" * size)])
            batch.update_fenced(task_live, columns=("version",), groups=grouped([(1, version, version + 1)]))
            batch.insert(task_logs, columns=("task_id", "seq", "detail"), rows=[(8, 1, "?%s';")])
            batch.insert(task_live, columns=("id",), rows=[(9,)])

    with pytest.raises(FenceMissedError):
        await database.transact(partial(work, version=2))
    assert await read(database, task_live.c.id, task_live.c.version) == [(1, 1), (2, 1)]
    assert await read(database, task_logs.c.task_id) == []
    await database.transact(partial(work, version=1))
    assert await read(database, task_live.c.id, task_live.c.version) == [(1, 2), (2, 1), (9, 1)]
    assert (8, "?%s';") in await read(database, task_logs.c.task_id, task_logs.c.detail)


@pytest.mark.parametrize("missing", [(1, 9, 10), (5, 1, 2)], ids=["another version", "no row"])
@pytest.mark.parametrize("way", ["update", "delete"])
async def test_a_fence_that_is_missed_within_a_batch_is_told(
    database: Database, missing: tuple[int, int, int], way: str
) -> None:
    await add_live(database, range(1, 4))

    def work(connection: Connection) -> None:
        with database.bulk.together(connection) as batch:
            batch.insert(task_live, columns=("id",), rows=[(8,)])
            if way == "update":
                batch.update_fenced(task_live, columns=("version",), groups=grouped([(2, 1, 2), missing, (3, 1, 3)]))
            else:
                batch.delete_fenced(task_live, groups=grouped([(2, 1), missing[:2]]))
            batch.insert(task_live, columns=("id",), rows=[(9,)])

    with pytest.raises(FenceMissedError):
        await database.transact(work)
    assert await read(database, task_live.c.id, task_live.c.version) == [(1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize("missed", [0, 1])
async def test_a_batch_may_be_larger_than_a_message(database: Database, missed: int) -> None:
    ids = range(10**15, 10**15 + 12_000)  # more digits than fit
    texts = [(1, seq, "x" * 150_000) for seq in range(4)] + [(2, seq, "y" * 500_000) for seq in range(4)]
    columns = ("task_id", "seq", "detail")

    def work(connection: Connection) -> None:
        with database.bulk.together(connection) as batch:
            batch.insert(task_live, columns=("id", "due_us"), rows=[(number, 7) for number in ids])
            for row in texts[:4]:
                batch.insert(task_logs, columns=columns, rows=[row])
            batch.insert(task_logs, columns=columns, rows=texts[4:])
            batch.update_fenced(task_live, columns=("version",), groups={(1, 2): range(ids.start - missed, ids.stop)})
            batch.update(task_live, columns=("term",), groups={(3,): ids})

    if missed:
        with pytest.raises(FenceMissedError):
            await database.transact(work)
        assert await read(database, task_live.c.id) == []
        return
    await database.transact(work)
    assert set(await read(database, task_live.c.version, task_live.c.term)) == {(2, 3)}
    logs = await read(database, task_logs.c.task_id, task_logs.c.seq, task_logs.c.detail)
    assert sorted(logs) == texts


CONFIG = KeyedChange(("tenant_id", "type", "next_fire_us", "revision"), ("next_fire_us", "last_run"), ("runs",))


async def add_configs(database: Database, names: Sequence[str]) -> None:
    columns, rows = (
        ("tenant_id", "type", "revision", "next_fire_us", "config_json"),
        [("t", n, 1, 50, "{}") for n in names],
    )
    await database.transact(lambda link: database.bulk.insert(link, task_config, columns=columns, rows=rows))


@pytest.mark.parametrize("last_next", [60, 61], ids=["alike", "not alike"])
@pytest.mark.parametrize("many", [2, 1500])
async def test_rows_change_by_their_keys_while_all_are_as_they_were_seen(
    database: Database, many: int, last_next: int
) -> None:
    names = [f"n'{number:04}\\" for number in range(many)]
    await add_configs(database, names)

    async def move(seen: int, *, last: tuple[Any, ...] = (50, 1), name: str = "") -> None:
        rows: list[tuple[Any, ...]] = [("t", one, seen, 1, 60, 7 + place, 2) for place, one in enumerate(names[:-1])]
        rows.append(("t", name or names[-1], *last, last_next, 7, 2))

        def work(link: Connection) -> None:
            with database.bulk.together(link) as batch:
                batch.update_keyed(task_config, CONFIG, rows=rows)

        await database.transact(work)

    misses: list[dict[str, Any]] = [{"last": (51, 1)}, {"last": (50, 2)}, {"name": "absent"}]
    for missed in misses:
        with pytest.raises(FenceMissedError):
            await move(50, **missed)
    found = await read(database, task_config.c.type, task_config.c.next_fire_us, task_config.c.runs)
    assert found == [(name, 50, 0) for name in names], "all or nothing, and nothing new"
    await move(50)
    found = await read(database, task_config.c.type, task_config.c.next_fire_us, task_config.c.last_run)
    assert found == [*((name, 60, 7 + place) for place, name in enumerate(names[:-1])), (names[-1], last_next, 7)]
    kept = await read(database, task_config.c.type, task_config.c.created_us, task_config.c.runs)
    assert kept == [(name, 0, 2) for name in names], "what was only seen stays"
    assert {text for _, text in await read(database, task_config.c.type, task_config.c.config_json)} == {"{}"}


async def test_rows_are_copied_by_id_and_nothing_in_between(database: Database) -> None:
    await add_live(database, range(1, 101))
    copy = RowCopy(task_live, ("task_id", "seq", "at_us"), ("id", 1, "due_us"))
    scattered = list(range(1, 80, 2))
    for ids in ([90], [98, 97, 96, 93], scattered):

        def work(link: Connection, ids: Sequence[int] = ids) -> None:
            with database.bulk.together(link) as batch:
                batch.insert_copies(task_logs, copy, ids=ids)

        await database.transact(work)
    found = await read(database, task_logs.c.task_id, task_logs.c.seq, task_logs.c.at_us)
    assert found == [(number, 1, 100 + number) for number in [*scattered, 90, 93, 96, 97, 98]]


MANY = 237  # more than any step of any database takes, and no round number


@pytest.mark.parametrize("is_alike", [True, False])
async def test_a_large_batch_is_written_and_read_whole(database: Database, is_alike: bool) -> None:
    bulk = database.bulk
    rows = [(number, 5, 7 if is_alike else number, "here" if is_alike else f"at {number}") for number in range(1, MANY)]
    columns = ("id", "version", "due_us", "tenant_id")
    await database.transact(lambda link: bulk.insert(link, task_live, columns=columns, rows=rows))
    query = "SELECT id, version, due_us, tenant_id FROM task_live WHERE id {ids}"
    found = await database.read(lambda link: bulk.select_by_ids(link, query, ids=range(1, MANY)))
    assert sorted(map(tuple, found)) == rows

    changes = [(number, 6, 9 if is_alike else 2 * number) for number in range(1, MANY)]
    update = partial(bulk.update, table=task_live, columns=("version", "due_us"), rows=changes)
    await database.transact(update)
    assert await read(database, task_live.c.id, task_live.c.version, task_live.c.due_us) == changes

    doomed = [(number, 6) for number in range(2, MANY + 3)]
    delete = partial(bulk.delete, table=task_live, columns=("id", "version"), rows=doomed)
    assert await database.transact(delete) == len(rows) - 1, "those that are there"
    assert await read(database, task_live.c.id) == [(1,)]
