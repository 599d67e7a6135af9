"""What the nodes of a cluster share in secret, in SQL."""

from sqlalchemy import Connection, select

from rota.infrastructure.database.database import Database
from rota.infrastructure.database.schema import cluster_secret as table


class SqlSecretStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(self, name: str, secret: str) -> str:
        kept = select(table.c.secret).where(table.c.name == name)

        def work(connection: Connection) -> str:
            row = (name, secret, self._database.now_us(connection))
            columns = ("name", "secret", "created_us")
            self._database.bulk.insert_missing(connection, table, columns=columns, rows=[row])
            return str(connection.execute(kept).scalar_one())

        found = await self._database.read(lambda connection: connection.execute(kept).scalar_one_or_none())
        return found if found is not None else await self._database.transact(work)
