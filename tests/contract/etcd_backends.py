"""etcd under the contracts: a prefix of its own on the shared server; each node has its own connection."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from secrets import token_hex

import pytest

from rota.application.ports.coordinator import Coordinator
from rota.application.ports.store import Store
from rota.domain.errors import CoordinatorUnavailableError, StoreUnavailableError, UnavailableError
from rota.infrastructure.coordination.etcd.coordinator import etcd_coordinator
from rota.infrastructure.etcd.client import EtcdClient, EtcdOptions
from rota.infrastructure.etcd.ops import delete_span, under
from rota.infrastructure.store.etcd.space import EtcdSpace
from rota.infrastructure.store.etcd.store import etcd_store
from rota.infrastructure.system import SystemClock
from rota.testing.contract.coordinator import CoordinatorBackend
from rota.testing.contract.store import StoreBackend
from tests.support.patience import PATIENCE_S
from tests.support.servers.etcd import EtcdServer

PATIENT = EtcdOptions(answer_within=timedelta(seconds=PATIENCE_S))


class EtcdCoordinatorBackend:
    tick = timedelta(seconds=1)  # the shortest lease that etcd can count

    def __init__(self, server: EtcdServer, stack: AsyncExitStack) -> None:
        self._server = server
        self._stack = stack
        self._prefix = f"contract-{token_hex(8)}"

    async def connect(self) -> Coordinator:
        client = make_client(self._server, self._stack, unavailable=CoordinatorUnavailableError)
        return etcd_coordinator(client, SystemClock(), prefix=self._prefix)

    async def wait(self, duration: timedelta) -> None:
        await SystemClock().sleep(duration)

    async def forget(self) -> None:
        client = make_client(self._server, self._stack, unavailable=CoordinatorUnavailableError)
        [gone] = (await client.write([delete_span(under(f"/{self._prefix}/"), prev_kv=True)])).answers
        for lease in {kv.lease for kv in gone.delete.prev_kvs if kv.lease}:
            await client.revoke(lease)


def make_client(server: EtcdServer, stack: AsyncExitStack, *, unavailable: type[UnavailableError]) -> EtcdClient:
    client = EtcdClient(server.url(), PATIENT, unavailable=unavailable)
    stack.push_async_callback(client.close)
    return client


@asynccontextmanager
async def open_etcd_coordinator(request: pytest.FixtureRequest) -> AsyncIterator[CoordinatorBackend]:
    async with AsyncExitStack() as stack:
        yield EtcdCoordinatorBackend(request.getfixturevalue("etcd_server"), stack)


class EtcdStoreBackend:
    tick = timedelta(milliseconds=50)

    def __init__(self, server: EtcdServer, stack: AsyncExitStack) -> None:
        self._server = server
        self._stack = stack
        self._prefix = f"contract-{token_hex(8)}"

    async def connect(self) -> Store:
        client = make_client(self._server, self._stack, unavailable=StoreUnavailableError)
        return etcd_store(EtcdSpace(client, SystemClock(), prefix=self._prefix))

    async def wait(self, duration: timedelta) -> None:
        await SystemClock().sleep(duration)


def open_etcd_store(request: pytest.FixtureRequest) -> AbstractAsyncContextManager[StoreBackend]:
    return _open_store(request.getfixturevalue("etcd_server"))


@asynccontextmanager
async def _open_store(server: EtcdServer) -> AsyncIterator[StoreBackend]:
    async with AsyncExitStack() as stack:
        yield EtcdStoreBackend(server, stack)
