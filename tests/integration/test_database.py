"""What real servers do to a transaction, and what the caller sees of it: the right answer once, or *unavailable*."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from sqlalchemy import Connection, TextClause, select, text, update
from sqlalchemy.util import await_only

from rota.domain.errors import StoreUnavailableError
from rota.domain.ids import DEFAULT_TENANT, TaskId
from rota.domain.paging import TaskFilter
from rota.infrastructure.database import connect
from rota.infrastructure.database.connect import POOL_SIZE, bulk_for, open_runner
from rota.infrastructure.database.database import TRIES, Database, DatabaseDefectError, RunAgainError
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.database.schema import leadership, node_slot
from rota.infrastructure.store.sql.store import sql_store
from rota.infrastructure.system import SystemClock, SystemRandom
from tests.support.builders import a_new_task
from tests.support.cluster import eventually
from tests.support.names import fresh_name
from tests.support.patience import PATIENCE_S
from tests.support.proxy import FaultyProxy
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.postgres import PostgresServer

Server = MariaDbServer | PostgresServer
SLOW = {"mariadb": "SELECT SLEEP(60)", "postgres": "SELECT pg_sleep(60)"}
READ_ONLY_ON = {
    "mariadb": "SET GLOBAL tx_read_only=1",
    "postgres": "ALTER DATABASE {} SET default_transaction_read_only=on",
}
READ_ONLY_OFF = {
    "mariadb": "SET GLOBAL tx_read_only=0",
    "postgres": "ALTER DATABASE {} SET default_transaction_read_only=off",
}
# As of a server that was demoted in the middle: who is connected meets it too, and an ordinary user cannot overrule it.
DEMOTE = {
    "mariadb": ("SET GLOBAL read_only=1",),
    "postgres": ("ALTER SYSTEM SET default_transaction_read_only=on", "SELECT pg_reload_conf()"),
}
RESTORE = {
    "mariadb": ("SET GLOBAL read_only=0",),
    "postgres": ("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"),
}
SESSIONS = {
    "mariadb": "SELECT COUNT(*) FROM information_schema.processlist WHERE user = :name",
    "postgres": "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = :name",
}
KILL_ALL = {
    "mariadb": (
        "SELECT GROUP_CONCAT(CONCAT('KILL ', id, ';') SEPARATOR '') FROM information_schema.processlist WHERE db='{}'"
    ),
    "postgres": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname='{}' AND pid <> pg_backend_pid()",
}


@pytest.fixture(params=["mariadb", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(kind: str, request: pytest.FixtureRequest) -> Server:
    shared: Server = request.getfixturevalue(f"{kind}_server")
    return shared


@pytest.fixture
def name(server: Server) -> str:
    """A migrated database of the test's own."""
    name = fresh_name("trouble")
    server.create_database(name)
    asyncio.run(upgrade(server.url(name)))
    return name


@asynccontextmanager
async def opened(url: str, *, deadline_s: float = 5.0) -> AsyncIterator[Database]:
    clock = SystemClock()
    runner = open_runner(url, deadline_s=deadline_s)
    database = Database(runner, bulk_for(url, clock), clock=clock, random=SystemRandom())
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def behind_proxy(server: Server, name: str) -> AsyncIterator[tuple[FaultyProxy, str]]:
    async with FaultyProxy("127.0.0.1", server.port) as proxy:
        yield proxy, server.url(name).replace(str(server.port), str(proxy.port))


def number(connection: Connection) -> int:
    return int(connection.exec_driver_sql("SELECT 42").scalar_one())


async def test_a_lost_reply_to_commit_adds_each_task_once(server: Server, name: str) -> None:
    async with behind_proxy(server, name) as (proxy, url), opened(url) as database:
        store = sql_store(database, SystemRandom())
        await store.tasks.now()
        lost = proxy.drop_reply_after(b"COMMIT")
        added = await store.tasks.add([a_new_task(id_, key=f"key {id_}", digest="d") for id_ in (1, 2, 3)])
        assert lost.is_set()
        assert [(answer.task_id, answer.is_repeat) for answer in added] == [(1, False), (2, False), (3, False)]
        page = await store.tasks.list_page(TaskFilter(tenant_id=DEFAULT_TENANT))
        assert [task.id for task in page.items] == [3, 2, 1]


async def test_a_lost_reply_to_commit_applies_each_step_once(server: Server, name: str) -> None:
    async with behind_proxy(server, name) as (proxy, url), opened(url) as database:
        store = sql_store(database, SystemRandom())
        await store.tasks.add([a_new_task(1)])
        (live,) = await store.tasks.find_live([TaskId(1)])
        lost = proxy.drop_reply_after(b"COMMIT")
        written = await store.tasks.advance([live.state.cancelled("enough", at=live.state.due_at)])
        assert lost.is_set()
        assert written.applied | written.repeated == {TaskId(1)}
        assert not written.stale
        versions = [entry.seq >> 32 for entry in await store.logs.read(TaskId(1))]
        assert versions == [1, 2]


async def test_a_cancelled_call_never_leaves_its_answer_to_the_next_caller(
    kind: str, server: Server, name: str
) -> None:
    async with opened(server.url(name)) as database:
        for _ in range(20):
            slow = asyncio.create_task(database.read(lambda link: link.exec_driver_sql(SLOW[kind]).scalar_one()))
            await database.read(number)
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            assert await database.read(number) == 42


async def test_a_call_past_its_deadline_is_unavailable(kind: str, server: Server, name: str) -> None:
    async with opened(server.url(name), deadline_s=0.2) as database:
        with pytest.raises(StoreUnavailableError):
            await database.read(lambda link: link.exec_driver_sql(SLOW[kind]).scalar_one())
        assert await database.read(number, deadline_s=PATIENCE_S) == 42


async def test_a_silent_network_is_unavailable_and_heals(server: Server, name: str) -> None:
    async with behind_proxy(server, name) as (proxy, url), opened(url, deadline_s=0.3) as database:
        await database.read(number, deadline_s=PATIENCE_S)
        proxy.blackhole()
        with pytest.raises(StoreUnavailableError):
            await database.read(number)
        proxy.heal()
        assert await database.read(number, deadline_s=PATIENCE_S) == 42


async def test_a_refused_connection_is_unavailable(server: Server, name: str) -> None:
    async with behind_proxy(server, name) as (proxy, url), opened(url) as database:
        proxy.cut()
        with pytest.raises(StoreUnavailableError):
            await database.read(number)


async def test_killed_connections_are_replaced(kind: str, server: Server, name: str) -> None:
    async with opened(server.url(name)) as database:
        await asyncio.gather(*(database.read(number) for _ in range(5)))
        killers = server.execute(KILL_ALL[kind].format(name))
        if kind == "mariadb":
            server.execute(killers)
        assert await asyncio.gather(*(database.read(number) for _ in range(5))) == [42] * 5


async def test_killed_connections_are_replaced_under_bulk_statements(kind: str, server: Server, name: str) -> None:
    async with opened(server.url(name)) as database:
        store = sql_store(database, SystemRandom())
        await store.tasks.add([a_new_task(1)])
        many = range(2 * TRIES)  # more than one call could meet one by one
        await asyncio.gather(*(store.tasks.find_live([TaskId(1)]) for _ in many))
        killers = server.execute(KILL_ALL[kind].format(name))
        if kind == "mariadb":
            server.execute(killers)
        assert [live.id for live in await store.tasks.find_live([TaskId(1)])] == [1]


async def test_a_cancelled_bulk_statement_never_leaves_its_answer_to_the_next_caller(
    kind: str, server: Server, name: str
) -> None:
    async with opened(server.url(name)) as database:
        for _ in range(20):
            slowly = partial(
                database.bulk.select_by_ids, query=f"{SLOW[kind]} FROM leadership WHERE 1 {{ids}}", ids=[1]
            )
            slow = asyncio.create_task(database.read(slowly))
            await database.read(number)
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            assert await database.read(database.now_us) > 60


async def test_bulk_statements_of_work_that_failed_are_rolled_back(server: Server, name: str) -> None:
    def work(connection: Connection) -> None:
        database.bulk.insert(connection, node_slot, columns=("slot",), rows=[(1,)])
        raise RunAgainError

    async with opened(server.url(name)) as database:
        with pytest.raises(RunAgainError):
            await database.transact(work)
        await database.transact(partial(database.bulk.insert, table=node_slot, columns=("slot",), rows=[(1,)]))


async def test_the_error_of_a_bulk_statement_tells_no_values(server: Server, name: str) -> None:
    async with opened(server.url(name)) as database:
        rows = [(1, "secret" * 100)]
        with pytest.raises(DatabaseDefectError) as refused:
            await database.transact(
                partial(database.bulk.upsert, table=node_slot, columns=("slot", "node_id"), rows=rows)
            )
        assert "node_slot" in str(refused.value)
        assert "secret" not in str(refused.value)


async def test_a_connection_that_idled_is_asked_before_it_is_trusted(
    kind: str, server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "PING_AFTER_S", 0.0)
    async with opened(server.url(name)) as database:
        await database.transact(number)
        killers = server.execute(KILL_ALL[kind].format(name))
        if kind == "mariadb":
            server.execute(killers)
        # Not repeatable: nothing but the question can save it.
        assert await database.transact(number, is_repeatable=False) == 42


async def test_deadlocked_transactions_both_get_through(server: Server, name: str) -> None:
    met = [asyncio.Event(), asyncio.Event()]

    async def cross(database: Database, mine: int) -> None:
        first = met[mine]

        def work(connection: Connection) -> None:
            for slot in (mine, 1 - mine):
                connection.execute(node_slot.update().where(node_slot.c.slot == slot).values(node_id=f"n{mine}"))
                if slot == mine and not first.is_set():
                    first.set()
                    _wait_for(connection, met[1 - mine])

        await database.transact(work)

    async with opened(server.url(name)) as database:
        await database.transact(lambda link: link.execute(node_slot.insert(), [{"slot": 0}, {"slot": 1}]))
        await asyncio.gather(cross(database, 0), cross(database, 1))
        query = select(node_slot.c.node_id).distinct()
        owners = await database.read(lambda link: link.execute(query).scalars().all())
        assert len(owners) == 1, "one transaction ran wholly after the other"


async def test_a_transaction_that_stands_still_does_not_keep_its_locks(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "IDLE_IN_TRANSACTION_S", 1)
    touch = update(leadership).values(node_id=text("CONCAT(node_id, '.')"))
    is_locked, may_go_on = asyncio.Event(), asyncio.Event()
    tries = 0

    def stand_still(connection: Connection) -> None:
        nonlocal tries
        tries += 1
        connection.execute(touch)
        if tries == 1:
            is_locked.set()
            await_only(may_go_on.wait())
            connection.execute(touch)

    async with opened(server.url(name), deadline_s=30) as frozen, opened(server.url(name)) as other:
        standing = asyncio.create_task(frozen.transact(stand_still))
        await is_locked.wait()
        await other.transact(lambda connection: connection.execute(touch))
        may_go_on.set()
        await standing
        assert await other.read(lambda link: link.execute(select(leadership.c.node_id)).scalar_one()) == ".."
    assert tries == 2, "it was cut off, and is run again"


def _wait_for(connection: Connection, event: asyncio.Event) -> None:
    while not event.is_set():  # each round trip lets the other transaction run
        connection.exec_driver_sql("SELECT 1")


async def test_a_demoted_primary_drops_the_pool(kind: str, server: Server, name: str) -> None:
    touch = leadership.update().values(node_id="me")
    async with opened(server.url(name)) as database:
        server.execute(READ_ONLY_ON[kind].format(name))
        try:
            await database.read(number)  # pooled while the server was read-only, and will stay so
        finally:
            server.execute(READ_ONLY_OFF[kind].format(name))
        assert await database.transact(lambda link: link.execute(touch).rowcount) == 1


async def test_a_server_that_takes_no_writes_is_unavailable_until_it_does(kind: str, server: Server, name: str) -> None:
    url = server.url(name)
    if kind == "mariadb":
        server.execute(f"CREATE USER {name}@'%'; GRANT ALL ON {name}.* TO {name}@'%'")
        url = url.replace("root@", f"{name}@")
    async with opened(url) as database:
        store = sql_store(database, SystemRandom())
        await store.tasks.add([a_new_task(1)])
        try:
            for statement in DEMOTE[kind]:
                server.execute(statement)
            with pytest.raises(StoreUnavailableError, match="the database gave no answer"):
                for id_ in range(2, 1000):  # a session of PostgreSQL learns of it when it next idles
                    await store.tasks.add([a_new_task(id_)])
            assert await store.tasks.find(TaskId(1), DEFAULT_TENANT) is not None, "what it has can be read"
            tries = [store.tasks.add([a_new_task(2000 + place)]) for place in range(5 * POOL_SIZE)]
            await asyncio.gather(*tries, return_exceptions=True)  # all of them refused
            async with opened(server.url(name)) as admin:
                sessions = await admin.read(
                    lambda link: link.execute(text(SESSIONS[kind]), {"name": name}).scalar_one()
                )
            assert sessions <= 2 * POOL_SIZE + 1, "whoever is refused leaves no connection behind"
        finally:
            for statement in RESTORE[kind]:
                server.execute(statement)
        await eventually(partial(store.tasks.add, [a_new_task(1000)]), "it to take writes again")


def _count(query: TextClause, connection: Connection) -> int:
    return int(connection.execute(query).scalar_one())


async def test_a_missing_schema_says_what_to_type(server: Server) -> None:
    name = fresh_name("empty")
    server.create_database(name)
    async with opened(server.url(name)) as database:
        with pytest.raises(DatabaseDefectError, match="upgrade it first"):
            await database.read(lambda link: link.execute(text("SELECT id FROM task")).all())
