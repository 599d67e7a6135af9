"""Coordination on etcd: leases, ordered keys, transactions and watches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.application.ports.coordinator import Coordinator
from rota.application.ports.system import Clock
from rota.domain.errors import CoordinatorUnavailableError
from rota.infrastructure.coordination.etcd.assistance import EtcdAssistance
from rota.infrastructure.coordination.etcd.deliveries import EtcdDeliveries
from rota.infrastructure.coordination.etcd.election import EtcdElection
from rota.infrastructure.coordination.etcd.keys import DEFAULT_PREFIX, EtcdKeys, Stamps
from rota.infrastructure.coordination.etcd.locks import EtcdLocks
from rota.infrastructure.coordination.etcd.pool import EtcdWorkerPool
from rota.infrastructure.coordination.etcd.queue import EtcdTaskQueue
from rota.infrastructure.coordination.etcd.signals import EtcdSignals
from rota.infrastructure.coordination.etcd.waiting import Patience
from rota.infrastructure.etcd.client import EtcdClient, EtcdOptions
from rota.infrastructure.etcd.upkeep import looked_after


def etcd_coordinator(client: EtcdClient, clock: Clock, *, prefix: str = DEFAULT_PREFIX) -> Coordinator:
    """A coordinator on a client that someone else closes."""
    keys, stamps, patience = EtcdKeys(prefix), Stamps(clock), Patience(clock)
    return Coordinator(
        election=EtcdElection(client, keys, patience=patience),
        pool=EtcdWorkerPool(client, keys),
        queue=EtcdTaskQueue(client, keys, stamps=stamps, patience=patience),
        deliveries=EtcdDeliveries(client, keys, stamps=stamps, patience=patience),
        signals=EtcdSignals(client, keys, stamps=stamps),
        locks=EtcdLocks(client, keys),
        assistance=EtcdAssistance(client, keys, stamps=stamps, patience=patience),
    )


@asynccontextmanager
async def open_etcd_coordinator(
    url: str, clock: Clock, *, prefix: str = DEFAULT_PREFIX, options: EtcdOptions | None = None
) -> AsyncIterator[Coordinator]:
    """A coordinator with a client of its own, closed at the end. Connects with the first call."""
    client = EtcdClient(url, options, unavailable=CoordinatorUnavailableError)
    try:
        async with looked_after(client, clock, prefix=prefix):
            yield etcd_coordinator(client, clock, prefix=prefix)
    finally:
        await client.close()
