"""A place of its own on the shared etcd, and who speaks to it. A module has the fixtures that it gives a name."""

from collections.abc import AsyncIterator

import pytest

from rota.application.ports.store import Store
from rota.domain.errors import StoreUnavailableError
from rota.infrastructure.etcd.client import EtcdClient
from rota.infrastructure.store.etcd.space import EtcdSpace
from rota.infrastructure.store.etcd.store import etcd_store
from rota.infrastructure.system import SystemClock
from tests.support.counting_etcd import CountingClient
from tests.support.names import fresh_name
from tests.support.patience import PATIENT_ETCD
from tests.support.servers.etcd import EtcdServer


@pytest.fixture
def prefix() -> str:
    return fresh_name("etcd")


@pytest.fixture
async def client(etcd_server: EtcdServer) -> AsyncIterator[EtcdClient]:
    opened = EtcdClient(etcd_server.url(), PATIENT_ETCD, unavailable=StoreUnavailableError)
    yield opened
    await opened.close()


@pytest.fixture
def store(client: EtcdClient, prefix: str) -> Store:
    return etcd_store(EtcdSpace(client, SystemClock(), prefix=prefix))


@pytest.fixture
async def counting(etcd_server: EtcdServer) -> AsyncIterator[CountingClient]:
    opened = CountingClient(etcd_server.url())
    yield opened
    await opened.close()
