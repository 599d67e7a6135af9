"""Terms and node slots in SQL: numbers that are issued once."""

from datetime import timedelta

from sqlalchemy import Connection, bindparam, case, func, insert, or_, select, update

from rota.application.ports.store import SlotLease
from rota.domain.errors import ConfigError, ConflictError
from rota.domain.ids import NODE_SLOTS, NodeId
from rota.infrastructure.database.database import Database, DuplicateKeyError
from rota.infrastructure.database.schema import leadership, node_slot
from rota.infrastructure.instants import duration_us, from_us

_CONFIRM = (  # made once: the leader asks every two seconds
    update(leadership).where(leadership.c.term == bindparam("number")).values(confirmed_us=bindparam("now_us"))
)

_RENEW = (  # and every process every fifteen
    update(node_slot)
    .where(
        node_slot.c.slot == bindparam("own_slot"),
        node_slot.c.lease_number == bindparam("number"),
        node_slot.c.node_id == bindparam("own_id"),
        node_slot.c.leased_until_us > bindparam("now_us"),
    )
    .values(leased_until_us=bindparam("until_us"))
)


class SqlTermStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, node_id: NodeId) -> int:
        def work(connection: Connection) -> int:
            now_us = self._database.now_us(connection)
            values = {"node_id": node_id, "begun_us": now_us, "confirmed_us": now_us}
            changed = connection.execute(update(leadership).values(term=leadership.c.term + 1, **values)).rowcount
            if changed != 1:  # without its row the term would be void: refuse rather than lead
                raise ConfigError("the leadership row is missing; run: rota db upgrade")
            return int(connection.execute(select(leadership.c.term)).scalar_one())

        return await self._database.transact(work)

    async def confirm(self, number: int) -> bool:
        def work(connection: Connection) -> bool:
            wanted = {"number": number, "now_us": self._database.now_us(connection)}
            return connection.execute(_CONFIRM, wanted).rowcount == 1

        return await self._database.transact(work)

    async def find_last(self) -> int:
        newest = select(leadership.c.term)
        return await self._database.read(lambda connection: connection.execute(newest).scalar() or 0)


class SqlSlotStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def lease(self, node_id: NodeId, ttl: timedelta) -> SlotLease:
        while True:
            try:
                return await self._database.transact(lambda connection: self._lease(connection, node_id, ttl=ttl))
            except DuplicateKeyError:  # somebody took the same free slot a moment earlier: look again
                continue

    async def renew(self, node_id: NodeId, lease: SlotLease, *, ttl: timedelta) -> bool:
        def work(connection: Connection) -> bool:
            now_us = self._database.now_us(connection)
            mine = {"own_slot": lease.slot, "number": lease.number, "own_id": node_id, "now_us": now_us}
            return connection.execute(_RENEW, {**mine, "until_us": now_us + duration_us(ttl)}).rowcount == 1

        return await self._database.transact(work)

    def _lease(self, connection: Connection, node_id: NodeId, *, ttl: timedelta) -> SlotLease:
        now_us = self._database.now_us(connection)
        values = {"node_id": node_id, "leased_until_us": now_us + duration_us(ttl)}
        is_own = node_slot.c.node_id == node_id
        usable = select(node_slot).where(or_(is_own, node_slot.c.leased_until_us <= now_us))
        for row in connection.execute(usable.order_by(case((is_own, 0), else_=1), node_slot.c.slot)).fetchall():
            lease = SlotLease(row.slot, floor=row.lease_number).followed(from_us(row.leased_until_us))
            take = update(node_slot).where(
                node_slot.c.slot == row.slot,
                node_slot.c.lease_number == row.lease_number,
                node_slot.c.leased_until_us == row.leased_until_us,
            )
            if connection.execute(take.values(lease_number=lease.number, **values)).rowcount == 1:
                return lease
        known = int(connection.execute(select(func.count()).select_from(node_slot)).scalar_one())
        if known >= NODE_SLOTS:
            raise ConflictError(f"all {NODE_SLOTS} node slots are leased")
        connection.execute(insert(node_slot).values(slot=known, **values))
        return SlotLease(known, floor=0)
