"""Who works: a row per worker, alive while its lease runs by the database's clock."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import msgspec
from sqlalchemy import Connection, select, update

from rota.domain.ids import WorkerId
from rota.domain.worker import Worker
from rota.infrastructure.database.codes import duration_us
from rota.infrastructure.database.coordination_schema import delivery
from rota.infrastructure.database.coordination_schema import worker as table
from rota.infrastructure.database.database import Database

# What a worker that vanished leaves behind is dropped by `remove`; if nobody calls that, by a later registration.
LEFTOVERS_KEPT = timedelta(hours=1)
_COLUMNS = ("id", "running", "expires_us", "worker_json")
_DECODER = msgspec.json.Decoder(Worker)


class SqlWorkerPool:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, worker: Worker, lease: timedelta) -> None:
        document = msgspec.json.encode(worker).decode()

        def work(connection: Connection) -> None:
            now_us = self._database.now_us(connection)
            row = (worker.id, worker.load, now_us + duration_us(lease), document)
            self._database.bulk.upsert(connection, table, columns=_COLUMNS, rows=[row])
            self._drop(connection, _find_leftovers(connection, before_us=now_us - duration_us(LEFTOVERS_KEPT)))

        await self._database.transact(work)

    async def heartbeat(self, worker_id: WorkerId, *, load: int, lease: timedelta) -> bool:
        def work(connection: Connection) -> bool:
            now_us = self._database.now_us(connection)
            alive = update(table).where(table.c.id == worker_id, table.c.expires_us > now_us)
            values = {"running": load, "expires_us": now_us + duration_us(lease)}
            return connection.execute(alive.values(**values)).rowcount == 1

        return await self._database.transact(work)

    async def remove(self, worker_ids: Sequence[WorkerId]) -> None:
        await self._database.transact(lambda connection: self._drop(connection, worker_ids))

    async def list_alive(self) -> list[Worker]:
        def work(connection: Connection) -> list[Worker]:
            alive = table.c.expires_us > self._database.now_us(connection)
            rows = connection.execute(select(table.c.running, table.c.worker_json).where(alive).order_by(table.c.id))
            return [replace(_DECODER.decode(row.worker_json), load=row.running) for row in rows]

        return await self._database.read(work)

    def _drop(self, connection: Connection, worker_ids: Sequence[int]) -> None:
        if worker_ids:
            rows = [(worker_id,) for worker_id in sorted(worker_ids)]
            self._database.bulk.delete(connection, table, columns=("id",), rows=rows)
            self._database.bulk.delete(connection, delivery, columns=("worker_id",), rows=rows)


def _find_leftovers(connection: Connection, *, before_us: int) -> Sequence[int]:
    """Workers whose lease ended long ago, and those that only have entries left."""
    silent = select(table.c.id).where(table.c.expires_us < before_us)
    unknown = (
        select(delivery.c.worker_id)
        .outerjoin(table, table.c.id == delivery.c.worker_id)
        .where(table.c.id.is_(None), delivery.c.position_us < before_us)
    )
    return connection.execute(silent.union(unknown)).scalars().all()
