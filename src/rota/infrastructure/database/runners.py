"""How a transaction is run: on a server through an async driver, or on SQLite in threads of its own.

Both take the same plain function over a SQLAlchemy connection, so every statement is written once. Rules of both:

- The function runs in one transaction, committed when it returns and rolled back when it raises.
- A call that is cancelled leaves nothing that a later caller could meet: a server's connection is closed, so that the
  late answer is nobody's; in SQLite the thread goes on to its end, and the next write waits for it.
- The caller bounds each call by `deadline_s`; when it is over, the outcome is unknown.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar, cast

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import QueuePool
from sqlalchemy.util import greenlet_spawn

from rota.application.ports.metrics import MetricsCollector
from rota.infrastructure.database.connected_threads import ConnectedThreads, Hand
from rota.infrastructure.database.direct import execute
from rota.infrastructure.pool_meter import PoolMeter

T = TypeVar("T")
Work = Callable[[Connection], T]

CALL_DEADLINE_S = 5.0
SQLITE_READERS = 4
SQLITE_TOGETHER = 8  # writes that one COMMIT may bring to disk: each waits for the work of all


class Runner(Protocol):
    @property
    def deadline_s(self) -> float:
        """How long a call may take, all its tries together."""
        ...

    async def run(self, work: Work[T], *, writes: bool, is_brief: bool = False) -> T:
        """Run `work` in one transaction and return what it returned. What is brief reads a few rows by their keys."""
        ...

    def measure(self, collector: MetricsCollector, *, server: str) -> None:
        """Tell of the connections to a server, from now on; a file has none that anybody waits for."""
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
        self._meters: dict[Engine, PoolMeter] = {}
        self.deadline_s = deadline_s

    def measure(self, collector: MetricsCollector, *, server: str) -> None:
        for name, engine in (("write", self._writer.sync_engine), ("read", self._reader.sync_engine)):
            limit = _pool_of(engine).size()
            self._meters[engine] = meter = PoolMeter(collector, server=server, pool=name, limit=limit)
            _watch(engine, meter)

    async def run(self, work: Work[T], *, writes: bool, is_brief: bool = False) -> T:
        engine = (self._writer if writes else self._reader).sync_engine
        meter = self._meters.get(engine)
        pool = _pool_of(engine)
        if meter is not None and pool.checkedout() >= pool.size():
            meter.waited()
        # One greenlet for all of it: connecting, working and ending one by one took twice the time.
        return await greenlet_spawn(_run_connected, engine, work, writes=writes, cancels=_cancel_requests())

    async def drop_connections(self) -> None:
        # Each is closed when it is wanted next. New pools would not do: what is in use goes back into the old one, and
        # stays open there, so that a server that is read-only for a while has soon no connection left for anybody.
        for engine in (self._writer, self._reader):
            _pool_of(engine.sync_engine)._invalidate(None)  # type: ignore[arg-type]  # not that of one alone

    async def close(self) -> None:
        for engine in (self._writer, self._reader):
            await engine.dispose()


def _pool_of(engine: Engine) -> QueuePool:
    """The one in use: a new one takes its place when all connections are dropped."""
    return cast("QueuePool", engine.pool)  # as `connect.py` makes them


def _watch(engine: Engine, meter: PoolMeter) -> None:
    def note_return(*_: object) -> None:
        meter.note_in_use(max(_pool_of(engine).checkedout() - 1, 0))  # it is on its way into the pool

    event.listen(engine, "connect", lambda *_: meter.opened())
    event.listen(engine, "close", lambda *_: meter.closed())
    event.listen(engine, "invalidate", lambda *_: meter.lost())
    event.listen(engine, "checkout", lambda *_: meter.note_in_use(_pool_of(engine).checkedout()))
    event.listen(engine, "checkin", note_return)


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
    """SQLite: all writes in one thread, one after the other, so nobody waits for the file; reads beside them.

    Writes that have come while it was busy share a transaction: a COMMIT waits for the disk, whatever is in it.

    What is brief is read right here, by the event loop: it takes some 50 µs, and the way to a thread and back ten times
    as long (ADR-0017). A reader waits for nobody in WAL mode, save while the file is recovered or closed: then a thread
    does the waiting."""

    def __init__(self, engine: Engine, *, deadline_s: float = CALL_DEADLINE_S) -> None:
        self.deadline_s = deadline_s
        self._writer = ConnectedThreads(
            engine, "rota-sqlite-writer", transact=_write_locally, most=1, together=SQLITE_TOGETHER
        )
        self._readers = ConnectedThreads(engine, "rota-sqlite-reader", transact=_read_locally, most=SQLITE_READERS)
        self._own = Hand(engine, prepare=_wait_for_nobody)

    def measure(self, collector: MetricsCollector, *, server: str) -> None:
        """There is no server."""

    async def run(self, work: Work[T], *, writes: bool, is_brief: bool = False) -> T:
        if writes:
            return await self._writer.run(work)
        if is_brief:
            with suppress(OperationalError):
                return _read_locally(self._own.hold(), [work])[0]
        return await self._readers.run(work)

    async def drop_connections(self) -> None:
        self._own.era += 1
        for threads in (self._writer, self._readers):
            threads.drop_connections()

    async def close(self) -> None:
        self._own.let_go()
        for threads in (self._writer, self._readers):
            await asyncio.to_thread(threads.close)  # which waits for what they still do


def _write_locally(connection: Connection, works: Sequence[Work[T]]) -> list[T]:
    try:
        execute(connection, "BEGIN IMMEDIATE")
        results = [work(connection) for work in works]
        if connection.in_transaction():
            connection.commit()  # SQLAlchemy ran statements too, and must know that they are over
        else:
            execute(connection, "COMMIT")
    except BaseException:
        _roll_back_locally(connection)
        raise
    return results


def _wait_for_nobody(connection: Connection) -> None:
    execute(connection, "PRAGMA busy_timeout=0")


def _read_locally(connection: Connection, works: Sequence[Work[T]]) -> list[T]:
    try:
        execute(connection, "BEGIN")
        return [work(connection) for work in works]
    finally:
        _roll_back_locally(connection)


def _roll_back_locally(connection: Connection) -> None:
    if connection.invalidated:
        return
    try:
        connection.rollback()
        connection.connection.rollback()
    except Exception:
        connection.invalidate()
