"""Locks by name, each a row that says who holds it, by which fence, and until when by the database's clock.

A taking locks the row, so one of many wins; a holding is prolonged or ended only by a statement that compares owner,
fence and time, as the lease of a leader is (`election.py`). Fences are the database's clock in microseconds, but always
above the last one of the name. A row outlives its holding by a day, so that they grow also where that clock is set
back by less.
"""

from contextlib import suppress
from datetime import timedelta
from functools import partial

from sqlalchemy import Connection, Update, bindparam, delete, select, update

from rota.domain.errors import UnavailableError
from rota.domain.lock import check_lock
from rota.infrastructure.database.coordination_schema import lock as table
from rota.infrastructure.database.database import Database
from rota.infrastructure.instants import duration_us

KEPT = timedelta(days=1)
PRUNE_EVERY = 100  # takings
PRUNED_AT_ONCE = 500  # rows: more than can have come since the last time
_LOCK = select(table).where(table.c.name == bindparam("name")).with_for_update()
_OLD = select(table.c.name).where(table.c.expires_us < bindparam("before_us")).limit(PRUNED_AT_ONCE)


class SqlLocks:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._unpruned = PRUNE_EVERY  # takings of our own since old rows were deleted; a process begins with that

    async def take(self, name: str, owner: str, *, ttl: timedelta) -> int | None:
        check_lock(name, owner)
        fence = await self._database.transact(partial(self._take, name=name, owner=owner, ttl=ttl))
        self._unpruned += 1
        if self._unpruned > PRUNE_EVERY:
            self._unpruned = 0
            with suppress(UnavailableError):  # the lock is taken, or not; the next one deletes more
                await self._database.transact(self._prune)
        return fence

    async def renew(self, name: str, owner: str, *, fence: int, ttl: timedelta) -> bool:
        check_lock(name, owner)

        def work(connection: Connection) -> bool:
            now_us = self._database.now_us(connection)
            held = _held(name, owner, fence=fence, now_us=now_us)
            return connection.execute(held.values(expires_us=now_us + duration_us(ttl))).rowcount == 1

        return await self._database.transact(work)

    async def release(self, name: str, owner: str, *, fence: int) -> bool:
        check_lock(name, owner)

        def work(connection: Connection) -> bool:
            now_us = self._database.now_us(connection)
            held = _held(name, owner, fence=fence, now_us=now_us)
            return connection.execute(held.values(owner="", expires_us=now_us)).rowcount == 1

        return await self._database.transact(work)

    def _take(self, connection: Connection, *, name: str, owner: str, ttl: timedelta) -> int | None:
        row = connection.execute(_LOCK, {"name": name}).one_or_none()
        if row is None:
            self._database.bulk.insert_missing(connection, table, columns=("name",), rows=[(name,)])
            row = connection.execute(_LOCK, {"name": name}).one()
        now_us = self._database.now_us(connection)
        if row.owner not in ("", owner) and row.expires_us > now_us:
            return None
        fence = max(now_us, int(row.fence) + 1)
        values = {"owner": owner, "fence": fence, "expires_us": now_us + duration_us(ttl)}
        connection.execute(update(table).where(table.c.name == name).values(**values))
        return fence

    def _prune(self, connection: Connection) -> None:
        before_us = self._database.now_us(connection) - duration_us(KEPT)
        names = connection.execute(_OLD, {"before_us": before_us}).scalars().all()
        if names:
            connection.execute(delete(table).where(table.c.name.in_(sorted(names)), table.c.expires_us < before_us))


def _held(name: str, owner: str, *, fence: int, now_us: int) -> Update:
    """Change the row while exactly this holding lasts."""
    mine = (table.c.name == name, table.c.owner == owner, table.c.fence == fence)
    return update(table).where(*mine, table.c.expires_us > now_us)
