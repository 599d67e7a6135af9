"""What is told of connections: how many are open, in use and allowed, who waited for one, which were lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from sqlalchemy import Connection

from rota.application import metrics
from rota.application.ports.metrics import Metric, NoMetrics
from rota.config.embedded import plan_for
from rota.config.schema import upgrade_schema
from rota.config.wiring import open_node
from rota.domain.errors import CoordinatorUnavailableError, StoreUnavailableError
from rota.infrastructure.coordination.redis_client import RedisClient, RedisOptions
from rota.infrastructure.database.connect import POOL_SIZE, open_database
from rota.infrastructure.database.database import Database
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.sdk.tasks import TaskRegistry
from tests.support.local_jobs import until
from tests.support.names import fresh_name
from tests.support.patience import PATIENCE_S, PATIENT_REDIS
from tests.support.proxy import FaultyProxy
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer

TWO = RedisOptions(answer_within=timedelta(seconds=PATIENCE_S), blocking_connections=2)
Server = MariaDbServer | PostgresServer


class ConnectionFigures(NoMetrics):
    def __init__(self) -> None:
        self.figures: Counter[tuple[Metric, str, str]] = Counter()

    def add(self, counter: Metric, *labels: str, amount: float = 1) -> None:
        server, pool = labels
        self.figures[counter, server, pool] += int(amount)

    def put(self, gauge: Metric, *labels: str, value: float) -> None:
        server, pool = labels
        self.figures[gauge, server, pool] = int(value)

    def read(self, metric: Metric, pool: str) -> int:
        return self.figures[metric, "store" if pool in ("read", "write") else "coordinator", pool]


@pytest.fixture
def told() -> ConnectionFigures:
    return ConnectionFigures()


@pytest.fixture(params=["mariadb", "postgres"])
async def proxy(request: pytest.FixtureRequest) -> AsyncIterator[tuple[FaultyProxy, str]]:
    """A way to an empty database that can be cut, and its URL."""
    server: Server = request.getfixturevalue(f"{request.param}_server")
    name = fresh_name("figures")
    server.create_database(name)
    async with FaultyProxy("127.0.0.1", server.port) as running:
        yield running, server.url(name).replace(str(server.port), str(running.port))


@asynccontextmanager
async def a_database(url: str, told: ConnectionFigures) -> AsyncIterator[Database]:
    database = open_database(url, clock=SystemClock(), random=SystemRandom(), deadline_s=PATIENCE_S)
    database.measure(told, server="store")
    try:
        yield database
    finally:
        await database.close()


def number(connection: Connection) -> int:
    return int(connection.exec_driver_sql("SELECT 42").scalar_one())


async def test_connections_to_a_database_are_counted_while_they_are_open_and_in_use(
    proxy: tuple[FaultyProxy, str], told: ConnectionFigures
) -> None:
    in_use = []

    def look(connection: Connection) -> int:
        in_use.append(told.read(metrics.CONNECTIONS_IN_USE, "write"))
        return number(connection)

    async with a_database(proxy[1], told) as database:
        assert told.read(metrics.CONNECTIONS_LIMIT, "write") == POOL_SIZE
        assert await database.transact(look) == 42
        assert in_use == [1]
        assert told.read(metrics.CONNECTIONS_IN_USE, "write") == 0
        assert told.read(metrics.CONNECTIONS_OPEN, "write") == 1
        assert told.read(metrics.CONNECTIONS_OPEN, "read") == 0
    assert told.read(metrics.CONNECTIONS_OPEN, "write") == 0
    assert told.read(metrics.CONNECTIONS_LOST, "write") == 0


async def test_who_finds_all_connections_to_a_database_in_use_is_counted(
    proxy: tuple[FaultyProxy, str], told: ConnectionFigures
) -> None:
    async with a_database(proxy[1], told) as database:
        await asyncio.gather(*(database.read(number) for _ in range(POOL_SIZE)))
        assert told.read(metrics.CONNECTION_WAITS, "read") == 0
        await asyncio.gather(*(database.read(number) for _ in range(POOL_SIZE + 2)))
        assert told.read(metrics.CONNECTION_WAITS, "read") == 2
        assert told.read(metrics.CONNECTIONS_OPEN, "read") == POOL_SIZE
        assert told.read(metrics.CONNECTIONS_IN_USE, "read") == 0


async def test_a_connection_to_a_database_that_broke_is_counted_and_made_anew(
    proxy: tuple[FaultyProxy, str], told: ConnectionFigures
) -> None:
    async with a_database(proxy[1], told) as database:
        await database.read(number)
        proxy[0].cut()
        with pytest.raises(StoreUnavailableError):
            await database.read(number)
        assert told.read(metrics.CONNECTIONS_LOST, "read") == 1
        assert told.read(metrics.CONNECTIONS_OPEN, "read") == 0
        proxy[0].heal()
        await database.read(number)
        assert told.read(metrics.CONNECTIONS_OPEN, "read") == 1


async def test_connections_to_redis_for_calls_that_block_are_counted(
    redis_server: RedisServer, told: ConnectionFigures
) -> None:
    client = RedisClient(redis_server.url(), TWO, collector=told)
    key = fresh_name("figures")
    waiting = [asyncio.create_task(client.wait_for_token(key, timedelta(minutes=1))) for _ in range(3)]
    await until(lambda: told.read(metrics.CONNECTIONS_OPEN, "blocking") == 2)
    assert told.read(metrics.CONNECTIONS_LIMIT, "blocking") == 2
    assert told.read(metrics.CONNECTIONS_IN_USE, "blocking") == 2
    assert told.read(metrics.CONNECTION_WAITS, "blocking") == 1
    await client.command("RPUSH", key, "a", "b", "c")
    await client.command("PEXPIRE", key, 60_000)
    await asyncio.gather(*waiting)
    assert told.read(metrics.CONNECTIONS_IN_USE, "blocking") == 0
    assert told.read(metrics.CONNECTIONS_OPEN, "shared") == 1
    await client.close()
    assert told.read(metrics.CONNECTIONS_OPEN, "blocking") + told.read(metrics.CONNECTIONS_OPEN, "shared") == 0
    assert told.read(metrics.CONNECTIONS_LOST, "shared") == 0


async def test_connections_to_redis_that_broke_are_counted_and_made_anew(
    redis_server: RedisServer, told: ConnectionFigures
) -> None:
    async with FaultyProxy("127.0.0.1", redis_server.port) as proxy:
        client = RedisClient(f"redis://127.0.0.1:{proxy.port}/0", PATIENT_REDIS, collector=told)
        await client.command("PING")
        async with client.listen("figures") as messages:
            assert told.read(metrics.CONNECTIONS_IN_USE, "listening") == 1
            proxy.cut()
            with pytest.raises(CoordinatorUnavailableError):
                await anext(messages)
        assert told.read(metrics.CONNECTIONS_OPEN, "listening") == 0
        with pytest.raises(CoordinatorUnavailableError):
            await client.command("PING")
        assert told.read(metrics.CONNECTIONS_LOST, "shared") == 1
        proxy.heal()
        await client.command("PING")
        assert told.read(metrics.CONNECTIONS_OPEN, "shared") == 1
        await client.close()


async def test_a_listener_that_has_to_wait_and_one_that_is_cut_off_are_counted(
    redis_server: RedisServer, told: ConnectionFigures
) -> None:
    one = RedisOptions(answer_within=timedelta(seconds=1), blocking_connections=1)
    client = RedisClient(redis_server.url(), one, collector=told)
    with pytest.raises(CoordinatorUnavailableError):
        async with client.listen("figures"), client.listen("figures"):
            raise AssertionError("there is no connection for a second one")
    assert told.read(metrics.CONNECTION_WAITS, "listening") == 1
    with pytest.raises(CoordinatorUnavailableError):
        async with client.listen("figures"):
            raise CoordinatorUnavailableError("cut off")  # as its messages would
    assert told.read(metrics.CONNECTIONS_LOST, "listening") >= 1
    assert told.read(metrics.CONNECTIONS_IN_USE, "listening") == 0
    await client.close()


async def test_a_node_tells_of_its_store_its_coordinator_and_the_stand_in(
    redis_server: RedisServer, mariadb_server: MariaDbServer
) -> None:
    name = fresh_name("figures")
    mariadb_server.create_database(name)
    settings = {
        "store": {"url": mariadb_server.url(name)},
        "coordinator": {"url": redis_server.url(), "prefix": name},
    }
    plan = plan_for(settings, None, app=None, tasks=TaskRegistry())
    await upgrade_schema(plan.settings)
    async with open_node(plan) as node:
        page = node.collector.render().decode()  # type: ignore[attr-defined]  # Prometheus is the default
    for server, pool in (("store", "write"), ("coordinator", "shared"), ("fallback", "read")):
        assert f'rota_connections_limit{{pool="{pool}",server="{server}"}}' in page
