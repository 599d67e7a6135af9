"""PostgreSQL, by asyncpg: a cancelled call cancels the statement in the server, too."""

import asyncio
from typing import Any

from rota.domain.errors import ConfigError

from .database import CONNECT_WITHIN, MOST_AT_ONCE, Order, OutOfTimeError, SqlError, write_count, write_rows

QUERY_CANCELED = "57014"
RETRYABLE_CLASSES = ("08", "40", "53", "57", "58")  # connection, rollback, resources, intervention, system
RETRYABLE_STATES = ("25006", "55P03")  # a standby that is about to lead; a lock that was not to be had
AS_TEXT = ("date", "time", "timestamp", "timestamptz", "interval", "numeric", "uuid", "json", "jsonb")
SET_TIMEOUT = "SELECT set_config('statement_timeout', $1, true)"


class PostgresDatabase:
    """A pool of connections, made when they are needed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None  # until it is opened; asyncpg ships no types
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)  # one may be waited for until the deadline, a connection not

    async def open(self) -> None:
        try:
            from asyncpg import create_pool
        except ModuleNotFoundError as exc:
            raise ConfigError("the package asyncpg is not installed", fix="pip install 'rota-sql[postgres]'") from exc
        self._pool = await create_pool(
            self._url, min_size=0, max_size=MOST_AT_ONCE, timeout=CONNECT_WITHIN, init=_speak_text
        )

    async def run(self, order: Order) -> str:
        from asyncpg import InterfaceError, PostgresError

        try:
            async with self._slots, self._pool.acquire(timeout=CONNECT_WITHIN) as connection, connection.transaction():
                # The server keeps the deadline as well: this worker may be gone by then.
                await connection.execute(SET_TIMEOUT, str(max(int(order.within * 1000), 1)))
                return await _tell(connection, order)
        except PostgresError as exc:
            raise _explain(exc) from exc
        except (InterfaceError, OSError) as exc:  # TimeoutError is an OSError
            problem = f"no connection: {type(exc).__name__}: {exc}"
            raise SqlError("connection_failed", problem, is_retryable=True) from exc

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()


async def _speak_text(connection: Any) -> None:
    """What JSON has no type for is text, in parameters and in rows."""
    for name in AS_TEXT:
        await connection.set_type_codec(name, schema="pg_catalog", encoder=str, decoder=str, format="text")


async def _tell(connection: Any, order: Order) -> str:
    statement = await connection.prepare(order.sql)
    if len(statement.get_parameters()) != len(order.values):
        problem = f"the statement has {len(statement.get_parameters())} parameters, its entry {len(order.values)}"
        raise SqlError("bad_statement", problem, is_retryable=False)
    columns = [column.name for column in statement.get_attributes()]
    if not columns:
        await statement.fetch(*order.values)
        return write_count(_count(statement.get_statusmsg()))
    cursor = await statement.cursor(*order.values)
    return write_rows(await cursor.fetch(order.max_rows + 1), columns, most=order.max_rows)


def _count(status: str) -> int:
    """From `UPDATE 3`; what changes no rows, such as `REFRESH MATERIALIZED VIEW`, has no number."""
    number = status.rpartition(" ")[2]
    return int(number) if number.isdigit() else 0


def _explain(error: Any) -> Exception:
    state: str = error.sqlstate
    if state == QUERY_CANCELED:
        return OutOfTimeError(str(error))
    is_retryable = state[:2] in RETRYABLE_CLASSES or state in RETRYABLE_STATES
    return SqlError(f"sql_{state.lower()}", str(error), is_retryable=is_retryable)
