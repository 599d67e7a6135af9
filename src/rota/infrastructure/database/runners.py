"""How a transaction is run: on a server through an async driver, or on SQLite in threads of its own.

Both take the same plain function over a SQLAlchemy connection, so every statement is written once. Rules of both:

- The function runs in one transaction, committed when it returns and rolled back when it raises.
- A call that is cancelled leaves nothing that a later caller could meet: a server's connection is closed, so that the
  late answer is nobody's; in SQLite the thread goes on to its end, and the next write waits for it.
- The caller bounds each call by `deadline_s`; when it is over, the outcome is unknown.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import greenlet_spawn

T = TypeVar("T")
Work = Callable[[Connection], T]

CALL_DEADLINE_S = 5.0
SQLITE_READERS = 4


class Runner(Protocol):
    @property
    def deadline_s(self) -> float:
        """How long a call may take, all its tries together."""
        ...

    async def run(self, work: Work[T], *, writes: bool) -> T:
        """Run `work` in one transaction and return what it returned."""
        ...

    async def drop_connections(self) -> None:
        """Forget every pooled connection: the next call connects, and resolves names, anew."""
        ...

    async def close(self) -> None:
        """End all connections and threads."""
        ...


class ServerRunner:
    """MySQL, MariaDB and PostgreSQL: the function runs in a greenlet on the event loop.

    Reads have connections of their own that commit by themselves: a query is then one message and its answer, where a
    transaction takes one more to begin or end it, and no slow scan keeps a writer waiting for a connection."""

    def __init__(self, writer: AsyncEngine, reader: AsyncEngine, *, deadline_s: float = CALL_DEADLINE_S) -> None:
        self._writer = writer
        self._reader = reader
        self.deadline_s = deadline_s

    async def run(self, work: Work[T], *, writes: bool) -> T:
        engine = (self._writer if writes else self._reader).sync_engine
        # One greenlet for all of it: connecting, working and ending one by one took twice the time.
        return await greenlet_spawn(_run_connected, engine, work, writes=writes, cancels=_cancel_requests())

    async def drop_connections(self) -> None:
        for engine in (self._writer, self._reader):
            await engine.dispose()

    async def close(self) -> None:
        await self.drop_connections()


def _run_connected(engine: Engine, work: Work[T], *, writes: bool, cancels: int) -> T:
    connection = engine.connect()
    try:
        _pass_on_cancellation(since=cancels)
        if writes:
            connection.begin()  # statements that go to the driver begin nothing that SQLAlchemy would commit
        result = work(connection)
        if writes:
            connection.commit()
    except Exception:
        _roll_back(connection)
        raise
    except BaseException:
        connection.invalidate()
        raise
    finally:
        connection.close()
    return result


def _cancel_requests() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _pass_on_cancellation(*, since: int) -> None:
    """While a driver connects, Python 3.11's `wait_for` may swallow a cancellation; it must not get lost."""
    if _cancel_requests() > since:
        raise asyncio.CancelledError


def _roll_back(connection: Connection) -> None:
    try:
        connection.rollback()
    except Exception:
        connection.invalidate()


class SqliteRunner:
    """SQLite: all writes in one thread, one after the other, so nobody waits for the file; reads beside them."""

    def __init__(self, engine: Engine, *, deadline_s: float = CALL_DEADLINE_S) -> None:
        self._engine = engine
        self.deadline_s = deadline_s
        self._writer: Executor = ThreadPoolExecutor(1, "rota-sqlite-writer")
        self._readers: Executor = ThreadPoolExecutor(SQLITE_READERS, "rota-sqlite-reader")

    async def run(self, work: Work[T], *, writes: bool) -> T:
        loop = asyncio.get_running_loop()
        call = self._write if writes else self._read
        return await loop.run_in_executor(self._writer if writes else self._readers, call, work)

    def _write(self, work: Work[T]) -> T:
        with self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            result = work(connection)
            connection.commit()
            return result

    def _read(self, work: Work[T]) -> T:
        with self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            return work(connection)

    async def drop_connections(self) -> None:
        self._engine.dispose()

    async def close(self) -> None:
        for threads in (self._writer, self._readers):
            threads.shutdown(wait=True)
        self._engine.dispose()
