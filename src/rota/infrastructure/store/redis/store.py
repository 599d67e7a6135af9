"""The store in a Redis, for installations that have nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from rota.application.ports.metrics import NO_METRICS, MetricsCollector
from rota.application.ports.store import Store
from rota.domain.errors import StoreUnavailableError
from rota.infrastructure.coordination.redis_client import RedisClient, RedisOptions
from rota.infrastructure.store.redis.audit import RedisAuditStore
from rota.infrastructure.store.redis.calendars import RedisCalendarStore
from rota.infrastructure.store.redis.configs import RedisConfigStore
from rota.infrastructure.store.redis.leadership import RedisSlotStore, RedisTermStore
from rota.infrastructure.store.redis.logs import RedisLogStore
from rota.infrastructure.store.redis.nodes import RedisNodeRegistry
from rota.infrastructure.store.redis.reports import RedisReportStore
from rota.infrastructure.store.redis.schedules import RedisScheduleStore
from rota.infrastructure.store.redis.secrets import RedisSecretStore
from rota.infrastructure.store.redis.space import DEFAULT_PREFIX, RedisSpace
from rota.infrastructure.store.redis.tasks import RedisTaskStore
from rota.infrastructure.store.redis.tokens import RedisTokenStore
from rota.infrastructure.store.redis.workers import RedisWorkerRegistry

STORE_OPTIONS = RedisOptions(answer_within=timedelta(seconds=5))  # as long as any store is waited for, ADR-0031


def redis_store(space: RedisSpace) -> Store:
    """A store on a client that someone else closes."""
    return Store(
        tasks=RedisTaskStore(space),
        logs=RedisLogStore(space),
        configs=RedisConfigStore(space),
        schedules=RedisScheduleStore(space),
        calendars=RedisCalendarStore(space),
        workers=RedisWorkerRegistry(space),
        tokens=RedisTokenStore(space),
        audit=RedisAuditStore(space),
        terms=RedisTermStore(space),
        slots=RedisSlotStore(space),
        nodes=RedisNodeRegistry(space),
        secrets=RedisSecretStore(space),
        reports=RedisReportStore(space),
    )


@asynccontextmanager
async def open_redis_store(
    url: str, prefix: str = DEFAULT_PREFIX, *, collector: MetricsCollector = NO_METRICS
) -> AsyncIterator[Store]:
    """A store with a client of its own, closed at the end."""
    client = RedisClient(url, STORE_OPTIONS, collector=collector, unavailable=StoreUnavailableError)
    space = RedisSpace(client, prefix)
    try:
        yield redis_store(space)
    finally:
        await client.close()
