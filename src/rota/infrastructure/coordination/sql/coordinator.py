"""Coordination on the store's own database: for clusters without another service, and while Redis is away."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.application.ports.coordinator import Coordinator
from rota.application.ports.metrics import NO_METRICS, MetricsCollector
from rota.application.ports.system import Clock, Random
from rota.domain.errors import CoordinatorUnavailableError
from rota.infrastructure.coordination.sql.deliveries import SqlDeliveries
from rota.infrastructure.coordination.sql.election import SqlElection
from rota.infrastructure.coordination.sql.locks import SqlLocks
from rota.infrastructure.coordination.sql.pool import SqlWorkerPool
from rota.infrastructure.coordination.sql.queue import SqlTaskQueue
from rota.infrastructure.coordination.sql.signals import SqlSignals
from rota.infrastructure.coordination.sql.waiting import Bells
from rota.infrastructure.coordination.sql.wake import WakeMark
from rota.infrastructure.database.connect import open_database
from rota.infrastructure.database.database import Database, Errors

# One that refuses is as good as away: the store has the truth, and callers go on as they do without a coordinator.
ERRORS = Errors(unavailable=CoordinatorUnavailableError, defect=CoordinatorUnavailableError)


@asynccontextmanager
async def open_sql_coordinator(
    url: str,
    *,
    clock: Clock,
    random: Random,
    collector: MetricsCollector = NO_METRICS,
    server: str = "coordinator",  # what the figures call it
) -> AsyncIterator[Coordinator]:
    """A coordinator in the database at `url`, whose schema must be up to date; closed at the end of the context."""
    database = open_database(url, clock=clock, random=random, errors=ERRORS)
    database.measure(collector, server=server)
    try:
        yield sql_coordinator(database, clock)
    finally:
        await database.close()


def sql_coordinator(database: Database, clock: Clock) -> Coordinator:
    """A coordinator on a database that someone else closes, and that reports `CoordinatorUnavailableError`."""
    bells = Bells(clock)
    wake = WakeMark(database, bells)
    return Coordinator(
        election=SqlElection(database, bells),
        pool=SqlWorkerPool(database),
        queue=SqlTaskQueue(database, wake),
        deliveries=SqlDeliveries(database, bells, wake=wake),
        signals=SqlSignals(database, bells),
        locks=SqlLocks(database),
    )
