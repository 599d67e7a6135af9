"""Bare drivers: send recorded statements again, in the same transactions, with nothing else in between."""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from urllib.parse import urlsplit

import asyncmy
import asyncpg

from bench.recording import Statement

Transactions = Sequence[Sequence[Statement]]


async def replay_mariadb(url: str, transactions: Transactions) -> float:
    parts = urlsplit(url)
    connection = await asyncmy.connect(
        host=parts.hostname, port=parts.port, user=parts.username, db=parts.path[1:], autocommit=False
    )
    cursor = connection.cursor()
    await cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    started = perf_counter()
    for transaction in transactions:
        for statement in transaction:
            send = cursor.executemany if statement.is_many else cursor.execute
            await send(statement.sql, statement.parameters or None)
        await connection.commit()
    elapsed = perf_counter() - started
    connection.close()
    return elapsed


async def replay_postgres(url: str, transactions: Transactions) -> float:
    connection = await asyncpg.connect(url)
    started = perf_counter()
    for transaction in transactions:
        async with connection.transaction():
            for statement in transaction:
                await connection.execute(statement.sql, *statement.parameters)
    elapsed = perf_counter() - started
    await connection.close()
    return elapsed


async def replay_sqlite(url: str, transactions: Transactions) -> float:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    started = perf_counter()
    for transaction in transactions:
        connection.execute("BEGIN IMMEDIATE")
        for statement in transaction:
            send = connection.executemany if statement.is_many else connection.execute
            send(statement.sql, statement.parameters)
        connection.execute("COMMIT")
    elapsed = perf_counter() - started
    connection.close()
    return elapsed


REPLAY: dict[str, Callable[[str, Transactions], Awaitable[float]]] = {
    "mariadb": replay_mariadb,
    "postgresql": replay_postgres,
    "sqlite": replay_sqlite,
}
