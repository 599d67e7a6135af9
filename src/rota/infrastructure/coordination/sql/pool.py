"""Who works: a row per worker, alive while its lease runs by the database's clock.

Worker and heartbeat are JSON. What this release cannot read comes from another one, and is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Column, Connection, Select, bindparam, select, update

from rota.domain.errors import InvalidError
from rota.domain.ids import WorkerId
from rota.domain.worker import Heartbeat, Worker
from rota.infrastructure.database.coordination_schema import delivery
from rota.infrastructure.database.coordination_schema import worker as table
from rota.infrastructure.database.database import Database
from rota.infrastructure.instants import duration_us

T = TypeVar("T")

# What a worker that vanished leaves behind is dropped by `remove`; if nobody calls that, by a later registration.
LEFTOVERS_KEPT = timedelta(hours=1)
_COLUMNS = ("id", "running", "expires_us", "worker_json", "beat_json")
_NOTHING = ""  # no heartbeat yet


def _whose_lease_runs(column: Column[Any]) -> Select[int, int, str]:
    """Id, load and one document of each worker whose lease runs."""
    alive = table.c.expires_us > bindparam("now_us")
    return select(table.c.id, table.c.running, column).where(alive, column != _NOTHING).order_by(table.c.id)


# Made once: beside another coordinator too, the leader asks every second.
_WORKERS, _BEATS = _whose_lease_runs(table.c.worker_json), _whose_lease_runs(table.c.beat_json)
_WORKER = msgspec.json.Decoder(Worker)
_BEAT = msgspec.json.Decoder(Heartbeat)


class SqlWorkerPool:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, worker: Worker, lease: timedelta) -> None:
        document = msgspec.json.encode(worker).decode()

        def work(connection: Connection) -> None:
            now_us = self._database.now_us(connection)
            row = (worker.id, worker.load, now_us + duration_us(lease), document, _NOTHING)
            self._database.bulk.upsert(connection, table, columns=_COLUMNS, rows=[row])
            self._drop(connection, _find_leftovers(connection, before_us=now_us - duration_us(LEFTOVERS_KEPT)))

        await self._database.transact(work)

    async def heartbeat(self, worker_id: WorkerId, beat: Heartbeat, *, lease: timedelta) -> bool:
        document = msgspec.json.encode(beat).decode()

        def work(connection: Connection) -> bool:
            now_us = self._database.now_us(connection)
            alive = update(table).where(table.c.id == worker_id, table.c.expires_us > now_us)
            values = alive.values(running=beat.load, expires_us=now_us + duration_us(lease), beat_json=document)
            return connection.execute(values).rowcount == 1

        return await self._database.transact(work)

    async def remove(self, worker_ids: Sequence[WorkerId]) -> None:
        await self._database.transact(lambda connection: self._drop(connection, worker_ids))

    async def list_alive(self) -> list[Worker]:
        rows = await self._database.read(partial(self._list_rows, query=_WORKERS))
        return [replace(worker, load=load) for _, load, worker in _decode(rows, _WORKER)]

    async def list_beats(self) -> dict[WorkerId, Heartbeat]:
        rows = await self._database.read(partial(self._list_rows, query=_BEATS))
        return {worker_id: beat for worker_id, _, beat in _decode(rows, _BEAT)}

    def _list_rows(self, connection: Connection, *, query: Select[int, int, str]) -> list[tuple[int, int, str]]:
        found = connection.execute(query, {"now_us": self._database.now_us(connection)})
        return [(worker_id, load, document) for worker_id, load, document in found]

    def _drop(self, connection: Connection, worker_ids: Sequence[int]) -> None:
        if worker_ids:
            rows = [(worker_id,) for worker_id in sorted(worker_ids)]
            self._database.bulk.delete(connection, table, columns=("id",), rows=rows)
            self._database.bulk.delete(connection, delivery, columns=("worker_id",), rows=rows)


def _decode(
    rows: Iterable[tuple[int, int, str]], decoder: msgspec.json.Decoder[T]
) -> Iterator[tuple[WorkerId, int, T]]:
    for worker_id, load, document in rows:
        with suppress(msgspec.DecodeError, InvalidError):
            yield WorkerId(worker_id), load, decoder.decode(document)


def _find_leftovers(connection: Connection, *, before_us: int) -> Sequence[int]:
    """Workers whose lease ended long ago, and those that only have entries left."""
    silent = select(table.c.id).where(table.c.expires_us < before_us)
    unknown = (
        select(delivery.c.worker_id)
        .outerjoin(table, table.c.id == delivery.c.worker_id)
        .where(table.c.id.is_(None), delivery.c.position_us < before_us)
    )
    return connection.execute(silent.union(unknown)).scalars().all()
