"""Opening the SQL store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.application.ports.metrics import NO_METRICS, MetricsCollector
from rota.application.ports.store import Store
from rota.application.ports.system import Clock, Random
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import Database
from rota.infrastructure.store.sql.audit import SqlAuditStore
from rota.infrastructure.store.sql.calendars import SqlCalendarStore
from rota.infrastructure.store.sql.configs import SqlConfigStore
from rota.infrastructure.store.sql.leadership import SqlSlotStore, SqlTermStore
from rota.infrastructure.store.sql.logs import SqlLogStore
from rota.infrastructure.store.sql.nodes import SqlNodeRegistry
from rota.infrastructure.store.sql.reports import SqlReportStore
from rota.infrastructure.store.sql.schedules import SqlScheduleStore
from rota.infrastructure.store.sql.secrets import SqlSecretStore
from rota.infrastructure.store.sql.tasks import SqlTaskStore
from rota.infrastructure.store.sql.tokens import SqlTokenStore
from rota.infrastructure.store.sql.workers import SqlWorkerRegistry


@asynccontextmanager
async def open_sql_store(
    url: str, *, clock: Clock, random: Random, collector: MetricsCollector = NO_METRICS
) -> AsyncIterator[Store]:
    """The store in the database at `url`, whose schema must be up to date; closed at the end of the context."""
    database = open_database(url, clock=clock, random=random)
    database.measure(collector, server="store")
    try:
        yield sql_store(database, random)
    finally:
        await database.close()


def sql_store(database: Database, random: Random) -> Store:
    return Store(
        tasks=SqlTaskStore(database, random),
        logs=SqlLogStore(database),
        configs=SqlConfigStore(database),
        schedules=SqlScheduleStore(database),
        calendars=SqlCalendarStore(database),
        workers=SqlWorkerRegistry(database),
        tokens=SqlTokenStore(database),
        audit=SqlAuditStore(database),
        terms=SqlTermStore(database),
        slots=SqlSlotStore(database),
        nodes=SqlNodeRegistry(database),
        secrets=SqlSecretStore(database),
        reports=SqlReportStore(database),
    )
