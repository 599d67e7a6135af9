"""A search of the audit log that finds little: it looks so far, and says where to go on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.application.ports.audit import AuditStore
from rota.domain.audit import AuditFilter
from rota.domain.errors import StoreUnavailableError
from rota.infrastructure.coordination.redis_client import RedisClient
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.migrate import upgrade
from rota.infrastructure.etcd.client import EtcdClient
from rota.infrastructure.store.etcd import audit as etcd_audit
from rota.infrastructure.store.etcd.space import EtcdSpace
from rota.infrastructure.store.redis import audit as redis_audit
from rota.infrastructure.store.redis.space import RedisSpace
from rota.infrastructure.store.sql import audit as sql_audit
from rota.infrastructure.system import SystemClock, SystemRandom
from rota.testing.contract.store_backend import HOUR, NOON, make_ids
from tests.support.builders import an_audit_entry
from tests.support.names import fresh_name
from tests.support.patience import PATIENT_ETCD, PATIENT_REDIS

LOOKED_AT = 3
ENTRIES = [
    an_audit_entry(make_ids(1, at=NOON + number * HOUR)[0], actor="bob" if number == 0 else "ada")
    for number in range(10)
]


@pytest.fixture(params=["sqlite", "mariadb", "postgres"])
async def sql(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AuditStore]:
    url = f"sqlite:///{tmp_path}/rota.db"
    if request.param != "sqlite":
        server, name = request.getfixturevalue(f"{request.param}_server"), fresh_name("audit")
        server.create_database(name)
        url = str(server.url(name))
    await upgrade(url)
    database = open_database(url, clock=SystemClock(), random=SystemRandom())
    yield sql_audit.SqlAuditStore(database)
    await database.close()


@pytest.fixture
async def redis(request: pytest.FixtureRequest) -> AsyncIterator[AuditStore]:
    server = request.getfixturevalue("redis_server")
    client = RedisClient(server.url(), PATIENT_REDIS, unavailable=StoreUnavailableError)
    yield redis_audit.RedisAuditStore(RedisSpace(client, fresh_name("audit")))
    await client.close()


@pytest.fixture
async def etcd(request: pytest.FixtureRequest) -> AsyncIterator[AuditStore]:
    client = EtcdClient(request.getfixturevalue("etcd_server").url(), PATIENT_ETCD, unavailable=StoreUnavailableError)
    yield etcd_audit.EtcdAuditStore(EtcdSpace(client, SystemClock(), prefix=fresh_name("audit")))
    await client.close()


async def search_to_the_end(store: AuditStore) -> int:
    """How many pages it takes to find the one entry that fits, which is the oldest."""
    await store.add(ENTRIES)
    page = await store.search(AuditFilter(actor="bob"))
    pages, found = 1, [*page.items]
    while page.next_below is not None:
        page = await store.search(AuditFilter(actor="bob", below=page.next_below))
        pages, found = pages + 1, [*found, *page.items]
    assert found == [ENTRIES[0]]
    return pages


async def is_full_where_everything_fits(store: AuditStore) -> bool:
    return len((await store.search(AuditFilter(limit=9))).items) == 9


async def test_a_database_is_searched_so_far_and_no_further(sql: AuditStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_audit, "MOST_LOOKED_AT", LOOKED_AT)
    assert await search_to_the_end(sql) == 4
    assert await is_full_where_everything_fits(sql)


async def test_redis_is_searched_so_far_and_no_further(redis: AuditStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_audit, "MOST_LOOKED_AT", LOOKED_AT)
    monkeypatch.setattr(redis_audit, "AT_ONCE", 2)
    assert await search_to_the_end(redis) == 3
    assert await is_full_where_everything_fits(redis)


async def test_etcd_is_searched_so_far_and_no_further(etcd: AuditStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_audit, "MOST_LOOKED_AT", LOOKED_AT)
    monkeypatch.setattr(etcd_audit, "MAX_PAGE", 1)
    assert await search_to_the_end(etcd) > 1
