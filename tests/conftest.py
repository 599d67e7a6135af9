"""Fixtures of all tests. Servers start when the first test asks for one, and serve the whole run."""

import gc
from collections.abc import Iterator

import pytest

from tests.support.require import require_server
from tests.support.servers.etcd import EtcdServer
from tests.support.servers.mariadb import MariaDbServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.redis import RedisServer
from tests.support.servers.redis_cluster import RedisCluster
from tests.support.servers.redis_sentinel import RedisSentinels

pytest.register_assert_rewrite("rota.testing.contract")

LONGEST = ("test_tutorial.py", "test_chaos.py", "test_outages.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that wait for processes come first, the longest before all: beside them, others use the cores."""
    items.sort(key=lambda item: (item.path.name not in LONGEST, "e2e" not in item.path.parts))


def pytest_collection_finish() -> None:
    """What was collected stays until the end: the garbage collector need not go through all of it again and again."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the tables whose rows tests have recorded (`record_property("table: title", row)`), in whichever process."""
    tables: dict[str, list[str]] = {}
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for name, row in report.user_properties:
            if name.startswith("table: "):
                tables.setdefault(name.removeprefix("table: "), []).append(str(row))
    for title, rows in tables.items():
        terminalreporter.section(title)
        for row in sorted(rows):
            terminalreporter.write_line(row)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """Shared: keep to a prefix or database of your own, and leave it running."""
    require_server("redis")
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def redis_sentinels() -> Iterator[RedisSentinels]:
    """Shared: keep to a prefix of your own, and hurt nobody."""
    require_server("redis")
    with RedisSentinels() as servers:
        yield servers


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[RedisCluster]:
    """Shared: keep to a prefix of your own, and hurt nobody."""
    require_server("redis")
    with RedisCluster() as servers:
        yield servers


@pytest.fixture(scope="session")
def etcd_server() -> Iterator[EtcdServer]:
    """Shared: keep to a prefix of your own, and leave it running."""
    require_server("etcd")
    with EtcdServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDbServer]:
    """Shared: keep to a database of your own, and leave it running."""
    require_server("mariadb")
    with MariaDbServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Shared: keep to a database of your own, and leave it running."""
    require_server("postgres")
    with PostgresServer() as server:
        yield server
