"""The scheduler's wake-up: a mark in the database, set by whoever has news and taken by one who waits.

It is set after the news was committed, in a transaction of its own. Set in the same one, it would make all pushes queue
for the row until each is on disk; and if it were merely found set there, its taker might look for the news before the
commit, and miss them for good. A process that dies in between leaves news without a mark: the scheduler finds them at
its next regular round.
"""

from datetime import timedelta

from sqlalchemy import Connection, update

from rota.infrastructure.coordination.sql.waiting import Bells
from rota.infrastructure.database.coordination_schema import tally
from rota.infrastructure.database.database import Database

WAKE = 1  # the row: 1 while a wake-up waits for its taker
_SET = update(tally).where(tally.c.id == WAKE, tally.c.number == 0).values(number=1)
_TAKE = update(tally).where(tally.c.id == WAKE, tally.c.number == 1).values(number=0)


class WakeMark:
    def __init__(self, database: Database, bells: Bells) -> None:
        self._database = database
        self._bells = bells

    async def set(self) -> None:
        """Let one present or future `wait` return."""
        await self._database.transact(self._set)
        self._bells.ring(WAKE)

    async def wait(self, wait: timedelta) -> bool:
        """Whether the mark was set, and is taken now, before the wait was over."""
        return await self._bells.look_until(WAKE, self._take, wait=wait)

    async def _take(self) -> bool:
        # Once only: after an unknown outcome the caller must know that there may have been a wake-up.
        return await self._database.transact(lambda link: link.execute(_TAKE).rowcount == 1, is_repeatable=False)

    def _set(self, connection: Connection) -> None:
        if connection.execute(_SET).rowcount == 0:  # it is set already, or this is a new memory
            self._database.bulk.insert_missing(connection, tally, columns=("id", "number"), rows=[(WAKE, 1)])
