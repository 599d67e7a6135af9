"""Who leads, by one row that names the node, the number of its lease and when it ends by the database's clock.

A campaign locks the row, so one of many wins. A lease is prolonged or ended only by a statement that compares node,
number and time: a node that slept through its lease finds it over and leaves that of its successor alone. Numbers are
the database's clock in microseconds, but always above the last one: they grow also when all memory was lost. (If that
clock is then set back as well, they may not: the term, which the store issues, is the fence.)

A resignation empties the name and ends the lease. Standbys that look within the next second take it as the sign to
campaign.
"""

from datetime import timedelta
from functools import partial

from sqlalchemy import Connection, Update, select, update

from rota.domain.ids import NodeId
from rota.infrastructure.coordination.sql.waiting import Bells
from rota.infrastructure.database.coordination_schema import lease as table
from rota.infrastructure.database.database import Database
from rota.infrastructure.instants import duration_us

VACANCY_SEEN = timedelta(seconds=1)  # a hint older than this has been acted on
_ROW = 1
_VACANCY = "vacancy"
_FIND = select(table).where(table.c.id == _ROW)
_LOCK = _FIND.with_for_update()


class SqlElection:
    def __init__(self, database: Database, bells: Bells) -> None:
        self._database = database
        self._bells = bells

    async def campaign(self, node_id: NodeId, ttl: timedelta) -> int | None:
        tried: set[int] = set()  # numbers of ours: a second run, after a lost answer, finds that it has won already
        return await self._database.transact(partial(self._campaign, node_id=node_id, ttl=ttl, tried=tried))

    async def renew(self, node_id: NodeId, lease: int, *, ttl: timedelta) -> bool:
        def work(connection: Connection) -> bool:
            now_us = self._database.now_us(connection)
            mine = _running(node_id, lease, now_us=now_us)
            return connection.execute(mine.values(expires_us=now_us + duration_us(ttl))).rowcount == 1

        return await self._database.transact(work)

    async def resign(self, node_id: NodeId, lease: int) -> None:
        def work(connection: Connection) -> None:
            now_us = self._database.now_us(connection)
            connection.execute(_running(node_id, lease, now_us=now_us).values(node_id="", expires_us=now_us))

        await self._database.transact(work)
        self._bells.ring(_VACANCY)

    async def find_leader(self) -> NodeId | None:
        def work(connection: Connection) -> NodeId | None:
            row = connection.execute(_FIND).one_or_none()
            is_led = row is not None and row.node_id and row.expires_us > self._database.now_us(connection)
            return NodeId(row.node_id) if row is not None and is_led else None

        return await self._database.read(work)

    async def wait_for_vacancy(self, wait: timedelta) -> bool:
        return await self._bells.look_until(_VACANCY, self._is_vacant, wait=wait)

    async def _is_vacant(self) -> bool:
        def work(connection: Connection) -> bool:
            row = connection.execute(_FIND).one_or_none()
            if row is None or row.node_id:
                return False
            return bool(self._database.now_us(connection) - row.expires_us < duration_us(VACANCY_SEEN))

        return await self._database.read(work)

    def _campaign(self, connection: Connection, *, node_id: NodeId, ttl: timedelta, tried: set[int]) -> int | None:
        row = connection.execute(_LOCK).one_or_none()
        if row is None:
            self._database.bulk.insert_missing(connection, table, columns=("id",), rows=[(_ROW,)])
            row = connection.execute(_LOCK).one()
        now_us = self._database.now_us(connection)
        if row.node_id and row.expires_us > now_us:
            return int(row.number) if row.node_id == node_id and row.number in tried else None
        number = max(now_us, int(row.number) + 1)
        tried.add(number)
        values = {"number": number, "node_id": node_id, "expires_us": now_us + duration_us(ttl)}
        connection.execute(update(table).where(table.c.id == _ROW).values(**values))
        return number


def _running(node_id: NodeId, lease: int, *, now_us: int) -> Update:
    """Change the row while exactly this lease runs."""
    mine = (table.c.id == _ROW, table.c.node_id == node_id, table.c.number == lease)
    return update(table).where(*mine, table.c.expires_us > now_us)
