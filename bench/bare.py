"""Bare drivers: send recorded statements again, in the same transactions, with nothing else in between."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from urllib.parse import urlsplit

import asyncmy
import asyncpg

from bench.recording import Statement
from rota.infrastructure.database.connect import prepare_sqlite

Send = Callable[[Sequence[Statement]], Awaitable[None]]  # one transaction; where it only reads, none is begun


@asynccontextmanager
async def bare_mariadb(url: str) -> AsyncIterator[Send]:
    parts = urlsplit(url)
    connection = await asyncmy.connect(
        host=parts.hostname, port=parts.port, user=parts.username, db=parts.path[1:], autocommit=False
    )
    cursor = connection.cursor()
    await cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    async def send(transaction: Sequence[Statement]) -> None:
        for statement in transaction:
            execute = cursor.executemany if statement.is_many else cursor.execute
            await execute(statement.sql, statement.parameters or None)
        await connection.commit()

    yield send
    connection.close()


@asynccontextmanager
async def bare_postgres(url: str) -> AsyncIterator[Send]:
    connection = await asyncpg.connect(url)

    async def send(transaction: Sequence[Statement]) -> None:
        async with connection.transaction() if any(one.is_write for one in transaction) else nullcontext():
            for statement in transaction:
                await connection.execute(statement.sql, *statement.parameters)

    yield send
    await connection.close()


@asynccontextmanager
async def bare_sqlite(url: str) -> AsyncIterator[Send]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    prepare_sqlite(connection)

    async def send(transaction: Sequence[Statement]) -> None:
        connection.execute("BEGIN IMMEDIATE" if any(one.is_write for one in transaction) else "BEGIN")
        for statement in transaction:
            execute = connection.executemany if statement.is_many else connection.execute
            execute(statement.sql, statement.parameters)
        connection.execute("COMMIT")

    yield send
    connection.close()


BARE: dict[str, Callable[[str], AbstractAsyncContextManager[Send]]] = {
    "mariadb": bare_mariadb,
    "postgresql": bare_postgres,
    "sqlite": bare_sqlite,
}
