"""The store in an etcd, for installations that have nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.application.ports.store import Store
from rota.application.ports.system import Clock
from rota.domain.errors import StoreUnavailableError
from rota.infrastructure.etcd.address import parse_address
from rota.infrastructure.etcd.client import EtcdClient, EtcdOptions
from rota.infrastructure.etcd.upkeep import looked_after
from rota.infrastructure.store.etcd.audit import EtcdAuditStore
from rota.infrastructure.store.etcd.calendars import EtcdCalendarStore
from rota.infrastructure.store.etcd.configs import EtcdConfigStore
from rota.infrastructure.store.etcd.leadership import EtcdSlotStore, EtcdTermStore
from rota.infrastructure.store.etcd.logs import EtcdLogStore
from rota.infrastructure.store.etcd.nodes import EtcdNodeRegistry
from rota.infrastructure.store.etcd.reports import EtcdReportStore
from rota.infrastructure.store.etcd.schedules import EtcdScheduleStore
from rota.infrastructure.store.etcd.secrets import EtcdSecretStore
from rota.infrastructure.store.etcd.space import DEFAULT_PREFIX, EtcdSpace
from rota.infrastructure.store.etcd.tasks import EtcdTaskStore
from rota.infrastructure.store.etcd.tokens import EtcdTokenStore
from rota.infrastructure.store.etcd.workers import EtcdWorkerRegistry


def etcd_store(space: EtcdSpace) -> Store:
    """A store on a client that someone else closes."""
    return Store(
        tasks=EtcdTaskStore(space),
        logs=EtcdLogStore(space),
        configs=EtcdConfigStore(space),
        schedules=EtcdScheduleStore(space),
        calendars=EtcdCalendarStore(space),
        workers=EtcdWorkerRegistry(space),
        tokens=EtcdTokenStore(space),
        audit=EtcdAuditStore(space),
        terms=EtcdTermStore(space),
        slots=EtcdSlotStore(space),
        nodes=EtcdNodeRegistry(space),
        secrets=EtcdSecretStore(space),
        reports=EtcdReportStore(space),
    )


def find_prefix(url: str) -> str:
    """What all keys of a store there begin with."""
    return parse_address(url).prefix or DEFAULT_PREFIX


@asynccontextmanager
async def open_etcd_store(url: str, clock: Clock, *, options: EtcdOptions | None = None) -> AsyncIterator[Store]:
    """A store with a client of its own, closed at the end. Connects with the first call."""
    client = EtcdClient(url, options, unavailable=StoreUnavailableError)
    prefix = find_prefix(url)
    try:
        async with looked_after(client, clock, prefix=prefix):
            yield etcd_store(EtcdSpace(client, clock, prefix=prefix))
    finally:
        await client.close()
