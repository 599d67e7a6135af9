"""The register of worker incarnations in SQL: for people, and for what happened when. Liveness is the coordinator's."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import msgspec
from sqlalchemy import Connection, Integer, bindparam, delete, select, update

from rota.application.ports.store import WorkerRecord
from rota.domain.audit import AuditEntry
from rota.domain.ids import WorkerId
from rota.domain.paging import purge_limit
from rota.domain.worker import Worker, WorkerOrders
from rota.infrastructure.database.bulk import grouped
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.schema import worker_registry as table
from rota.infrastructure.instants import find_us, from_us, to_us
from rota.infrastructure.store.sql.audit import insert_audit

_COLUMNS = (
    "id",
    "name",
    "address",
    "capacity",
    "running",
    "weight",
    "is_draining",
    "types_json",
    "labels_json",
    "seen_us",  # not retired_us: who was retired stays so
)

# Every worker asks for its own record with each heartbeat, and the leader for all of them every second: statements that
# are made once need not be put together, nor recognised, each time.
_KNOWN = (
    select(table).where(table.c.id > bindparam("after")).order_by(table.c.id).limit(bindparam("most", type_=Integer))
)
_ALIVE = _KNOWN.where(table.c.retired_us == 0)
_NAMES = tuple(table.c.keys())
_SEEN = f"SELECT {{now}},{','.join(_NAMES)} FROM {table.name} WHERE id {{ids}} AND retired_us=0"


class SqlWorkerRegistry:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(self, worker: Worker) -> None:
        def work(connection: Connection) -> None:
            now_us = self._database.now_us(connection)
            row = _to_row(worker, now_us)
            self._database.bulk.upsert(connection, table, columns=_COLUMNS, rows=[row])
            first = update(table).where(table.c.id == worker.id, table.c.registered_us == 0)
            connection.execute(first.values(registered_us=now_us))

        await self._database.transact(work)

    async def seen(self, loads: Mapping[WorkerId, int]) -> list[WorkerRecord]:
        if not loads:
            return []
        bulk = self._database.bulk

        def work(connection: Connection) -> list[SimpleNamespace]:
            """Locked when they are read, and written with the COMMIT: two messages."""
            found = bulk.select_by_ids(connection, f"{_SEEN} {bulk.row_lock}", ids=sorted(loads))
            rows = [SimpleNamespace(**dict(zip(_NAMES, row, strict=True)), now_us=int(now)) for now, *row in found]
            for row in rows:
                row.running, row.seen_us = loads[row.id], row.now_us
            if rows:
                seen = grouped([(row.id, row.running, row.seen_us) for row in rows])
                with bulk.together(connection, is_last=True) as batch:
                    batch.update(table, columns=("running", "seen_us"), groups=seen)
            return sorted(rows, key=lambda row: WorkerId(row.id))

        return [_to_record(row) for row in await self._database.transact(work)]

    async def retire(self, worker_ids: Sequence[WorkerId]) -> None:
        def work(connection: Connection) -> None:
            ended = update(table).where(table.c.id.in_(sorted(worker_ids)), table.c.retired_us == 0)
            connection.execute(ended.values(retired_us=self._database.now_us(connection), running=0))

        await self._database.transact(work)

    async def order(
        self,
        worker_id: WorkerId,
        *,
        capacity: int | None = None,
        draining: bool | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        changes: dict[str, Any] = {"capacity_order": table.c.capacity_order}  # so there is a row to count in any case
        if capacity is not None:
            changes |= {"wanted_capacity": capacity, "capacity_order": table.c.capacity_order + 1}
        if draining is not None:
            changes |= {"wanted_draining": int(draining), "draining_order": table.c.draining_order + 1}
        ordered = update(table).where(table.c.id == worker_id, table.c.retired_us == 0).values(changes)

        def work(connection: Connection) -> bool:
            is_there = connection.execute(ordered).rowcount > 0
            if is_there:
                insert_audit(self._database.bulk, connection, audit=audit)
            return is_there

        return await self._database.transact(work)

    async def list_all(
        self, *, alive_only: bool = True, after: WorkerId | None = None, limit: int = 1000
    ) -> list[WorkerRecord]:
        query, wanted = _ALIVE if alive_only else _KNOWN, {"after": after or 0, "most": limit}
        rows = await self._database.read(lambda connection: connection.execute(query, wanted).fetchall())
        return [_to_record(row) for row in rows]

    async def purge(self, *, retired_before: datetime, limit: int) -> int:
        most = purge_limit(limit)

        def work(connection: Connection) -> int:
            old = select(table.c.id).where(table.c.retired_us.between(1, to_us(retired_before) - 1))
            ids = connection.execute(old.order_by(table.c.id).limit(most)).scalars().all()
            return connection.execute(delete(table).where(table.c.id.in_(ids))).rowcount if ids else 0

        return await self._database.transact(work)


def _to_row(worker: Worker, now_us: int) -> tuple[Any, ...]:
    types = msgspec.json.encode(sorted(worker.types)).decode()
    labels = msgspec.json.encode(worker.labels).decode()
    facts = (worker.id, worker.name, worker.address, worker.capacity, worker.load, worker.weight)
    return (*facts, int(worker.is_draining), types, labels, now_us)


def _to_record(row: Any) -> WorkerRecord:
    worker = Worker(
        id=WorkerId(row.id),
        name=row.name,
        address=row.address,
        capacity=row.capacity,
        types=frozenset(msgspec.json.decode(row.types_json, type=list[str])),
        weight=row.weight,
        labels=msgspec.json.decode(row.labels_json, type=dict[str, str]),
        load=row.running,
        is_draining=bool(row.is_draining),
    )
    return WorkerRecord(
        worker,
        from_us(row.registered_us),
        seen_at=from_us(row.seen_us),
        retired_at=find_us(row.retired_us),
        orders=_to_orders(row),
    )


def _to_orders(row: Any) -> WorkerOrders:
    return WorkerOrders(
        capacity=row.wanted_capacity if row.capacity_order else None,
        capacity_number=row.capacity_order,
        is_draining=bool(row.wanted_draining) if row.draining_order else None,
        draining_number=row.draining_order,
    )
