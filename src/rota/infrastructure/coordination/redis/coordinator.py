"""Coordination on one Redis, or on one hash slot of a cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import NO_METRICS, MetricsCollector
from rota.infrastructure.coordination.redis.deliveries import RedisDeliveries
from rota.infrastructure.coordination.redis.election import RedisElection
from rota.infrastructure.coordination.redis.keys import RedisKeys
from rota.infrastructure.coordination.redis.locks import RedisLocks
from rota.infrastructure.coordination.redis.pool import RedisWorkerPool
from rota.infrastructure.coordination.redis.queue import RedisTaskQueue
from rota.infrastructure.coordination.redis.signals import RedisSignals
from rota.infrastructure.coordination.redis_client import RedisClient, RedisOptions

DEFAULT_PREFIX = "rota"


def redis_coordinator(client: RedisClient, prefix: str = DEFAULT_PREFIX) -> Coordinator:
    """A coordinator on a client that someone else closes."""
    keys = RedisKeys(prefix)
    return Coordinator(
        election=RedisElection(client, keys),
        pool=RedisWorkerPool(client, keys),
        queue=RedisTaskQueue(client, keys),
        deliveries=RedisDeliveries(client, keys),
        signals=RedisSignals(client, keys),
        locks=RedisLocks(client, keys),
    )


@asynccontextmanager
async def open_redis_coordinator(
    url: str,
    prefix: str = DEFAULT_PREFIX,
    *,
    options: RedisOptions | None = None,
    collector: MetricsCollector = NO_METRICS,
) -> AsyncIterator[Coordinator]:
    """A coordinator with a client of its own, closed at the end. Connects with the first call."""
    client = RedisClient(url, options, collector=collector)
    try:
        yield redis_coordinator(client, prefix)
    finally:
        await client.close()
