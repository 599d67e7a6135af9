"""The processes of the cluster in SQL."""

from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from rota.application.ports.store import MOST_NODES, NodeRecord
from rota.domain.ids import NodeId
from rota.domain.node import NodeInfo
from rota.domain.paging import purge_limit
from rota.infrastructure.database.database import Database
from rota.infrastructure.database.schema import node as table
from rota.infrastructure.instants import from_us, to_us

_SEEN = (  # made once: every process says it again and again
    update(table)
    .where(table.c.id == bindparam("node_id"))
    .values({name: bindparam(name) for name in ("roles", "version", "address", "seen_us")})
)


class SqlNodeRegistry:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def seen(self, node: NodeInfo) -> None:
        facts = {"roles": ",".join(node.roles), "version": node.version, "address": node.address}

        def work(connection: Connection) -> None:
            now_us = self._database.now_us(connection)
            if not connection.execute(_SEEN, {**facts, "node_id": node.id, "seen_us": now_us}).rowcount:
                connection.execute(insert(table).values(id=node.id, **facts, started_us=now_us, seen_us=now_us))

        await self._database.transact(work)

    async def leave(self, node_id: NodeId) -> None:
        await self._database.transact(lambda connection: connection.execute(delete(table).where(table.c.id == node_id)))

    async def list_alive(self, *, since: datetime) -> list[NodeRecord]:
        alive = select(table).where(table.c.seen_us >= to_us(since)).order_by(table.c.id).limit(MOST_NODES)
        rows = await self._database.read(lambda connection: connection.execute(alive).fetchall())
        records = [
            NodeRecord(
                NodeInfo(
                    id=NodeId(row.id),
                    roles=tuple(row.roles.split(",")) if row.roles else (),
                    version=row.version,
                    address=row.address,
                ),
                started_at=from_us(row.started_us),
                seen_at=from_us(row.seen_us),
            )
            for row in rows
        ]
        return sorted(records, key=lambda record: record.node.id)  # databases differ in how they order text

    async def purge(self, *, seen_before: datetime, limit: int) -> int:
        most = purge_limit(limit)

        def work(connection: Connection) -> int:
            old = select(table.c.id).where(table.c.seen_us < to_us(seen_before)).order_by(table.c.id).limit(most)
            ids = connection.execute(old).scalars().all()
            return connection.execute(delete(table).where(table.c.id.in_(ids))).rowcount if ids else 0

        return await self._database.transact(work)
